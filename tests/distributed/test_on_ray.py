"""Ray's workers fill files as one process does, bit for bit, also if one of them dies.

A worker takes seconds to start: other numbers of workers, lost machines and full disks are tried by
`benchmarks/faults_ray.py`.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

from part_by_part import contents, interrupted_after
from plmcmc.distributed import impute, on_ray
from plmcmc.distributed.on_ray import MOST_DEATHS, Actor, OnRay, RayError, _forget_marks
from plmcmc.distributed.work_plan import Order, Task, stamp_of
from plmcmc.rng import PART_ROWS
from table_files import run
from toy_tables import mixed, with_holes

# Ray's own, on first use of each of its parts.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
ROWS = (2 * PART_ROWS + 100, PART_ROWS, 300)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for number, rows in enumerate(ROWS):
        with_holes(mixed(rows, seed=number))[0].to_parquet(folder / f"{number}.parquet")
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def ray(model):
    """Ray that believes in four cores and two GPUs; its workers see the tests' modules."""
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
        ray.init("local", num_cpus=4, num_gpus=2, **quiet)
        yield ray
        ray.shutdown()


@pytest.fixture(scope="module")
def streamed(data, model, tmp_path_factory):
    out = tmp_path_factory.mktemp("streamed") / "out"
    impute(data, model, out, progress=False)
    return contents(out)


@pytest.mark.slow
def test_four_workers_give_the_same(ray, data, model, streamed, tmp_path):
    done = impute(data, model, tmp_path / "out", engine="ray", workers=4, progress=False)
    assert done.rows == sum(ROWS)
    assert contents(tmp_path / "out") == streamed


@pytest.mark.slow
def test_files_keep_their_numbers_if_one_is_left_out(
    ray, data, model, streamed, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        interrupted_after(3, patch)
        with pytest.raises(KeyboardInterrupt):
            impute(data, model, tmp_path / "out", progress=False)
    left = [data[0], data[2]]
    impute(left, model, tmp_path / "out", engine="ray", workers=1, progress=False)
    assert contents(tmp_path / "out") == {path.name: streamed[path.name] for path in left}


def worker_here():
    """Return the process of a worker that this process's Ray has started."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            named = b"MapWorker" in (place / "cmdline").read_bytes()
            if named and parent(parent(int(place.name))) == os.getpid():
                return int(place.name)
        except (OSError, IndexError):
            continue
    return None


def parent(process):
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs Linux to find a worker")
@pytest.mark.slow
def test_two_workers_give_the_same_when_one_is_lost(ray, data, model, streamed, tmp_path):
    killed = []

    def kill():
        while not list(tmp_path.glob("out/plmcmc.part/rows-*")):
            time.sleep(0.05)
        process = worker_here()
        if process is not None:
            os.kill(process, signal.SIGKILL)
            killed.append(process)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    impute(data, model, tmp_path / "out", engine="ray", workers=2, progress=False)
    thread.join(timeout=10)
    assert killed
    assert contents(tmp_path / "out") == streamed


def test_another_cluster_than_this_process_uses_is_refused(ray, data, model, tmp_path):
    with pytest.raises(
        RayError, match=r"expected Ray at 127.0.0.1:1; this process is already connected"
    ):
        impute(data, model, tmp_path / "out", engine="ray", address="127.0.0.1:1", progress=False)
    assert not list((tmp_path / "out").glob("*.parquet"))


def test_more_workers_than_there_is_room_for(ray, data, model, tmp_path):
    with pytest.raises(RayError, match="room for 99 workers; Ray has 4 cores"):
        impute(data, model, tmp_path / "out", engine="ray", workers=99, progress=False)
    with pytest.raises(RayError, match="with 3 GPUs each; Ray has 4 cores and 2 GPUs"):
        impute(data, model, tmp_path / "out", engine="ray", gpus_per_worker=3, progress=False)
    assert not (tmp_path / "out").exists()


class Placed:
    """A worker that says where it is, once all of them are somewhere."""

    def __init__(self, order):
        self.order = order

    def __call__(self, batch):
        (Path(self.order.kept) / str(os.getpid())).touch()
        until = time.monotonic() + 60
        while len(os.listdir(self.order.kept)) < 4 and time.monotonic() < until:
            time.sleep(0.05)
        seen = os.environ["CUDA_VISIBLE_DEVICES"]
        return {"line": [json.dumps([os.getpid(), seen, self.order.device])]}


@pytest.mark.slow
def test_workers_share_gpus_and_work_on_them(ray, model, tmp_path, monkeypatch):
    monkeypatch.setattr(on_ray, "Actor", Placed)
    tasks = [Task(0, "", [(part, 0, 1)], (0, 0)) for part in range(4)]
    told = list(OnRay(gpus=0.5)(order(model, tmp_path), tasks))
    workers = {process: (gpu, device) for process, gpu, device in told}
    assert sorted(workers.values()) == [(gpu, "cuda") for gpu in "0011"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a worker without GPUs")
@pytest.mark.slow
def test_a_worker_without_the_gpu_that_ray_has_promised_says_so(ray, data, model, tmp_path):
    asked = {"engine": "ray", "workers": 1, "gpus_per_worker": 1, "progress": False}
    with pytest.raises(RayError, match="device 'cuda' cannot be used"):
        impute(data, model, tmp_path / "out", **asked)
    assert not (tmp_path / "out").exists()


def test_a_machine_without_gpus(data, model, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", Unasked)
    monkeypatch.setitem(sys.modules, "ray.data", Unasked)
    monkeypatch.setattr(on_ray.torch.cuda, "device_count", lambda: 0)
    argv = ("impute", data[0], "--model", model, "-o", tmp_path / "out", "--engine", "ray")
    assert run(*argv, "--gpus-per-worker", 0.5) == 2
    told = capsys.readouterr().err
    assert (
        "with 0.5 GPUs each; this machine has 0 GPUs that torch can use. Use fewer workers" in told
    )
    assert not (tmp_path / "out").exists()


def test_without_ray_it_says_what_to_install(data, model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RayError, match=r"plmcmc\[ray\]"):
        impute(data, model, tmp_path / "out", engine="ray", progress=False)
    assert not (tmp_path / "out").exists()
    assert list(OnRay()(order(model, tmp_path), [])) == []


class Unasked:
    """Stands for Ray where it must not come so far as to be started."""

    @staticmethod
    def is_initialized():
        return False


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nobody_answers(scheme):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"{scheme}127.0.0.1:{free.getsockname()[1]}"
    engine = OnRay(address)
    with (
        pytest.raises(RayError, match=f"expected to reach Ray at {address}; the system says"),
        engine._connected(Unasked),
    ):
        pass


def test_no_more_workers_than_this_machine_has_cores(monkeypatch):
    monkeypatch.setattr(on_ray, "cores", lambda: 2)
    monkeypatch.setattr(on_ray, "_imported", lambda: Unasked)
    with pytest.raises(RayError, match="room for 1000 workers; this machine has 2 cores"):
        OnRay(workers=1000).check()
    monkeypatch.setattr(on_ray.torch.cuda, "device_count", lambda: 2)
    OnRay(workers=2, gpus=1).check()
    with pytest.raises(RayError, match="with 3 GPUs each; this machine has 2 GPUs"):
        OnRay(gpus=3).check()
    # Of a cluster this machine knows nothing.
    OnRay("10.0.0.1:6379", workers=1000, gpus=3).check()


@pytest.mark.parametrize(
    ("own", "room"), [(0.6, 2), (0.5, 4), (0.3, 6), (0.1, 16), (1, 2), (2, 1), (3, None)]
)
def test_a_worker_has_its_share_of_one_gpu(own, room):
    there = SimpleNamespace(cluster_resources=lambda: {"CPU": 16, "GPU": 2})
    if room is None:
        with pytest.raises(RayError, match="with 3 GPUs each"):
            OnRay(gpus=own)._size(there)
    else:
        assert OnRay(gpus=own)._size(there) == room


def order(model, kept):
    return Order(model, kept, None, None, None, None, (), "cpu")


class TestActor:
    """What Ray calls, without Ray."""

    def test_a_task_in_and_lines_out(self, data, model, tmp_path):
        task = Task(0, str(data[0]), [(2, 2 * PART_ROWS, ROWS[0])], stamp_of(data[0]))

        (told,) = Actor(order(model, tmp_path))({"task": [json.dumps(task)]})["line"]
        assert json.loads(told)["part"] == [0, 2]
        assert len(pd.read_parquet(tmp_path / "rows-0-2-0.parquet")) == 100

    @pytest.mark.parametrize("missing", ["model", "kept"])
    def test_a_machine_that_does_not_see_the_files_says_so(self, missing, model, tmp_path):
        given = {"model": model, "kept": tmp_path} | {missing: tmp_path / "elsewhere"}
        (told,) = Actor(order(**given))({"task": []})["line"]
        assert "not visible on a worker machine" in told

    def test_a_machine_that_does_not_see_a_file_leaves_it_to_others(self, model, tmp_path):
        task = Task(0, str(tmp_path / "unseen.parquet"), [(0, 0, 9)], (1, 1))
        (told,) = Actor(order(model, tmp_path))({"task": [json.dumps(task)]})["line"]
        assert "not visible on a worker machine" in json.loads(told)["stopped"]
        assert not list(tmp_path.iterdir())

    def test_a_task_that_workers_die_of_is_given_up(self, data, model, tmp_path):
        task = json.dumps(Task(2, str(data[2]), [(0, 0, ROWS[2])], stamp_of(data[2])))
        actor, mark = Actor(order(model, tmp_path)), tmp_path / "rows-2-0.begun"
        for died in (MOST_DEATHS - 1, MOST_DEATHS):
            mark.write_bytes(b"." * died)
            (told,) = actor({"task": [task]})["line"]
            assert ("stopped" in json.loads(told)) == (died == MOST_DEATHS)
            assert mark.exists() == (died == MOST_DEATHS)
        assert f"rows 0 to {ROWS[2]}: {MOST_DEATHS} workers crashed on these rows" in told

    def test_a_file_that_one_has_refused_is_left_by_the_others(self, data, model, tmp_path):
        bad = Task(0, str(data[2]), [(0, 0, ROWS[2] + 1)], stamp_of(data[2]))
        other = bad._replace(parts=[(1, 0, ROWS[2])])
        told = [
            Actor(order(model, tmp_path))({"task": [json.dumps(task)]})["line"]
            for task in (bad, other)
        ]
        assert [len(lines) for lines in told] == [1, 0]
        assert "refused" in json.loads(told[0][0])
        _forget_marks(order(model, tmp_path))
        assert not list(tmp_path.glob("rows-*"))
