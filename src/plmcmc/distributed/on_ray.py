"""Ray Data has the tasks done: an actor per worker, on this machine or on a cluster.

A worker that dies is started again by Ray, and its task is done again; tasks of a machine that is
lost go to others. What a task has written before is written once more, with the same content.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from plmcmc.disk import WriteError, failing_in_words
from plmcmc.distributed.work_plan import Line, Order, Task
from plmcmc.distributed.worker import Worker
from plmcmc.tables.job import ROWS
from plmcmc.threads import cores

# A task whose worker dies so often takes more memory than there is, or kills it otherwise. Ray's
# own count would not do: until it notices that a machine is gone, it tries there again and again.
MOST_DEATHS = 5
BEGUN = ".begun"
# Marks a file that one worker has refused: others need not find out.
REFUSED = ".refused"
# To wait for an answer of a cluster.
SECONDS = 10


class RayError(OSError):
    """Ray is not there, has too little to offer, or lost workers again and again."""


@dataclass(frozen=True)
class OnRay:
    """Has tasks done by Ray.

    Args:
        address: of a cluster, such as `auto`; None starts Ray on this machine.
        workers: how many; None for as many as there are cores, or GPUs to share out.
        gpus: GPUs of each worker; a fraction lets workers share one.
    """

    address: str | None = None
    workers: int | None = None
    gpus: float = 0

    def check(self) -> None:
        """Refuse before the work what Ray on this machine could not do; a cluster is asked later.

        Raises:
            RayError: if Ray is not installed, or there are fewer cores or GPUs than are asked for.
        """
        if not _imported().is_initialized() and self.address is None:
            self._check_machine()

    def __call__(self, order: Order, tasks: Sequence[Task]) -> Iterator[Line]:
        """Have tasks done, and yield what is told of them."""
        if not tasks:
            return
        ray = _imported()
        if self.gpus:
            order = replace(order, device="cuda")
        with self._connected(ray), _quiet(ray):
            size = min(self._size(ray), len(tasks))
            items = [{"task": json.dumps(task)} for task in tasks]
            told = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
                Actor,
                fn_constructor_args=(order,),
                batch_size=1,
                # One task at a time for each: a queue would wait behind a long one.
                compute=ray.data.ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=1),
                num_cpus=1,
                num_gpus=self.gpus,
            )
            _forget_marks(order)
            try:
                for row in told.iter_rows():
                    yield json.loads(row["line"])
            except ray.exceptions.RayError as error:
                reason = str(error).strip().splitlines()[-1]
                raise RayError(
                    f"expected Ray's workers to start and keep running; it says: {reason} Check "
                    "Ray's logs, then run the same again to resume"
                ) from error

    @contextmanager
    def _connected(self, ray: Any) -> Iterator[None]:
        """Use the Ray that is running in this process, or start one and end it again."""
        if ray.is_initialized():
            _check_same(ray, self.address)
            yield
            return
        options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        if self.address is None:
            # Of a Ray that is started here nothing is sent anywhere.
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            options |= {"num_cpus": self.workers, "include_dashboard": False}
        try:
            _knock(self.address)
            ray.init(self.address or "local", **options)
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0]
            raise RayError(
                f"expected to reach Ray at {self.address or 'this machine'}; the system says: "
                f"{reason}. Check the address and `ray status`"
            ) from error
        try:
            yield
        finally:
            ray.shutdown()

    def _check_machine(self) -> None:
        """Refuse more workers than there is room for: Ray would believe what it is told."""
        there, wanted = cores(), self.workers or 1
        if wanted > there:
            raise RayError(
                f"expected room for {wanted} workers; this machine has {there} cores. Use fewer "
                "workers, or name a cluster by its address"
            )
        gpus = torch.cuda.device_count()
        if self.gpus and _shares(gpus, self.gpus) < wanted:
            raise RayError(
                f"expected room for {wanted} workers with {self.gpus:g} GPUs each; this machine "
                f"has {gpus} GPUs that torch can use. Use fewer workers, work without GPUs, or "
                "name a cluster by its address"
            )

    def _size(self, ray: Any) -> int:
        """Return how many workers there will be.

        Raises:
            RayError: if there is not enough for as many as were asked for.
        """
        there: Mapping[str, float] = ray.cluster_resources()
        cores, gpus = (there.get(kind, 0) for kind in ("CPU", "GPU"))
        most = min(int(cores), _shares(gpus, self.gpus)) if self.gpus else int(cores)
        if most < max(1, self.workers or 1):
            of = f" with {self.gpus:g} GPUs each" if self.gpus else ""
            raise RayError(
                f"expected room for {self.workers or 1} workers{of}; Ray has {cores:g} cores and "
                f"{gpus:g} GPUs. Use fewer workers, or add machines"
            )
        return self.workers or most


class Actor:
    """A worker as Ray Data calls it: a task in, lines out."""

    def __init__(self, order: Order) -> None:
        self.problem, self.worker = _unseen(order.model, order.kept), None
        if self.problem is None:
            try:
                self.worker = Worker(order)
            except (ValueError, OSError) as problem:
                self.problem = str(problem)

    def __call__(self, batch: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """Do a task."""
        if self.worker is None:
            return {"line": [json.dumps({"stopped": self.problem, "why": "worker"})]}
        task = Task(*json.loads(batch["task"][0]))
        return {"line": [json.dumps(line) for line in self._told(self.worker, task)]}

    def _told(self, worker: Worker, task: Task) -> list[Line]:
        """Do a task, with a mark while it is being done: of workers that die it alone is left."""
        refused = worker.order.kept / f"{ROWS}{task.file}{REFUSED}"
        if refused.exists():
            return []
        unseen = _unseen(Path(task.path))
        if unseen is not None:
            # Of the machine, not of the file: others may see it.
            return [{"stopped": unseen, "why": "worker"}]
        mark = worker.order.kept / f"{ROWS}{task.file}-{task.parts[0][0]}{BEGUN}"
        died = mark.stat().st_size if mark.exists() else 0
        if died >= MOST_DEATHS:
            words = (
                f"{task.path}, rows {task.parts[0][1]} to {task.parts[-1][2]}: {died} workers "
                "crashed on these rows, probably out of memory. Check the memory of their "
                "machines, then run the same again to resume"
            )
            return [{"stopped": words, "why": "worker"}]
        try:
            with failing_in_words(mark), mark.open("ab") as file:
                file.write(b".")
        except WriteError as problem:
            return [{"stopped": str(problem), "why": "disk"}]
        told = list(worker.work(task))
        if any("refused" in line for line in told):
            with suppress(OSError):
                refused.touch()
        mark.unlink(missing_ok=True)
        return told


def _forget_marks(order: Order) -> None:
    """Remove the marks of a run before this one: what died or was refused may be mended."""
    for ending in (BEGUN, REFUSED):
        for mark in order.kept.glob(f"{ROWS}*{ending}"):
            mark.unlink()


def _unseen(*paths: Path) -> str | None:
    """Return what a worker's machine does not see, in words; None if all is there."""
    for path in paths:
        if not path.exists():
            return (
                f"{path}: not visible on a worker machine. Put data, model and output on shared "
                "storage, under the same path on all machines"
            )
    return None


def _shares(gpus: float, own: float) -> int:
    """Return how many workers with GPUs of their own there is room for.

    What is left of a GPU is no use to a worker that needs more: Ray gives no two halves of two.
    """
    return int(gpus) * int(1 / own) if own < 1 else int(gpus / own)


def _check_same(ray: Any, address: str | None) -> None:
    """Refuse another cluster than the one that this process uses already: Ray has one at a time."""
    now = ray.get_runtime_context().gcs_address
    if address not in (None, "auto", "local", now):
        raise RayError(
            f"expected Ray at {address}; this process is already connected to {now}. Leave the "
            "address out, or call ray.shutdown() first"
        )


def _knock(address: str | None) -> None:
    """Find out at once that nobody answers at an address: Ray would wait for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), SECONDS).close()


def _imported() -> Any:
    try:
        # By name: a type checker may meet it or not.
        ray = import_module("ray")
        import_module("ray.data")
    except ImportError:
        raise RayError(
            "the engine ray needs Ray, which is not installed. Run pip install 'plmcmc[ray]', or "
            "use the engine stream"
        ) from None
    return ray


@contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    """Have Ray Data show no bars and say nothing: there is a bar already."""
    context = ray.data.DataContext.get_current()
    wanted = {"enable_progress_bars": False, "print_on_execution_start": False}
    before = {name: getattr(context, name) for name in wanted}
    log = logging.getLogger("ray.data")
    level = log.level
    for name, value in wanted.items():
        setattr(context, name, value)
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
        for name, value in before.items():
            setattr(context, name, value)
