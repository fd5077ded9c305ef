"""A worker: loads the model once, then fills parts of files and keeps them."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from plmcmc.data import DataError
from plmcmc.disk import WriteError, write_all
from plmcmc.distributed.work_plan import Line, Order, Task, check_unchanged
from plmcmc.imputation import FlowImputer
from plmcmc.posterior import ConvergenceWarning, StuckWarning
from plmcmc.posterior.memory import memory_ran_out
from plmcmc.tables.columns import check_levels, plan_of_model
from plmcmc.tables.fill import filled, loaded
from plmcmc.tables.parquet import ParquetTable
from plmcmc.tables.parquet_rows import RowReader


class Worker:
    """Fills parts of files.

    What cannot be done is told, not raised: a file that is refused leaves the others to be done,
    and whoever gave the order stops all workers if one has no room left to write.
    """

    def __init__(self, order: Order) -> None:
        self.order = order
        self.refused: set[int] = set()
        self.imputer = model_of(order)
        self.reader = RowReader()

    def work(self, task: Task) -> Iterator[Line]:
        """Fill the parts of a task, and tell of each; nothing more of a file that is refused."""
        for part in task.parts:
            if task.file in self.refused:
                return
            try:
                yield self._done(task, part)
            except ValueError as problem:
                self.refused.add(task.file)
                lasting = isinstance(problem, DataError)
                yield {"refused": task.file, "problem": str(problem), "lasting": lasting}
            except WriteError as problem:
                yield {"stopped": str(problem), "why": "disk"}
            except (MemoryError, RuntimeError) as problem:
                said = memory_ran_out(problem)
                if said is None:
                    raise
                yield {"stopped": said, "why": "memory"}

    def _done(self, task: Task, part: tuple[int, int, int]) -> Line:
        number, start, stop = part
        table = self._read(task, slice(start, stop))
        try:
            return self._filled(task.file, number, table)
        except ValueError as problem:
            # Of what was read, unlike one of reading: the same file will be refused again.
            raise DataError(str(problem)) from problem

    def _filled(self, file: int, number: int, table: ParquetTable) -> Line:
        plan = plan_of_model(self.imputer, [table])
        frame = table.frame(plan.known)
        check_levels(plan.known, table, frame)
        self.imputer.origin_ = (file, number)
        options = {"draws": self.order.draws, "flag": self.order.flag}
        with warnings.catch_warnings():
            # Of all parts together it is told in the end.
            for told in (ConvergenceWarning, StuckWarning):
                warnings.simplefilter("ignore", told)
            done = filled(lambda: self.imputer, plan.known, table, frame, **options)
        places = self.order.places(file, number)
        write_all(dict(zip(places, done.contents, strict=True)))
        missing = Counter({name: table.holes(name) for name in table.names})
        return {
            "part": [file, number],
            "rows": table.rows,
            "missing": {name: count for name, count in missing.items() if count},
            "found": done.found,
            "kept": [hashlib.sha256(content).hexdigest() for content in done.contents],
        }

    def _read(self, task: Task, rows: slice) -> ParquetTable:
        """Read rows of the file that was looked at, not of one that has taken its place."""
        path = Path(task.path)
        check_unchanged(path, task.stamp)
        table = self.reader.read(path, rows, self.order.na_values)
        check_unchanged(path, task.stamp)
        if table.rows != rows.stop - rows.start:
            raise ValueError(
                f"{path}: expected rows {rows.start + 1} to {rows.stop}, according to its "
                f"metadata; found {table.rows} of them. Write the file again"
            )
        return table


def model_of(order: Order) -> FlowImputer:
    """Return the model of an order, on its device, asked for what the order asks for."""
    imputer = loaded(order.model, order.device, statistic=order.statistic, seed=order.seed)
    imputer.progress = False
    return imputer
