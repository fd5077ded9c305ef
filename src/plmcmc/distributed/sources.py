"""Files looked at before the work: what they are, and whether the model can fill them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from plmcmc.chains import progress_bar
from plmcmc.disk import hash_of
from plmcmc.distributed.work_plan import Order, Source, stamp_of
from plmcmc.imputation import FlowImputer
from plmcmc.tables.columns import plan_of_model
from plmcmc.tables.kinds import check_new
from plmcmc.tables.parquet_rows import without_rows

MEGABYTE = 2**20


class Looked(NamedTuple):
    """What was found of files.

    Attributes:
        sources: those that can be read.
        problems: what is wrong with others, by number.
        passed: columns that the model does not know, and why they pass through.
    """

    sources: list[Source]
    problems: dict[int, str]
    passed: dict[str, str]


def looked_at(
    paths: Mapping[int, Path],
    places: Sequence[list[Path]],
    imputer: FlowImputer,
    order: Order,
    progress: bool | None,
) -> Looked:
    """Look at files: hashes, columns, types. A file that will not do is told of, not raised.

    Args:
        paths: the files, by number.
        places: where to write each, in the same order.
        imputer: the model.
        order: what is asked for.
        progress: show a bar.
    """
    found, read = Looked([], {}, {}), 0
    sizes = [path.stat().st_size // MEGABYTE for path in paths.values()]
    with progress_bar("Checking files (MB)", sum(sizes), show=progress) as report:
        for done, (number, path) in enumerate(paths.items()):
            try:
                # First: of a file that changes while it is looked at, it is noticed later.
                stamp = stamp_of(path)
                rows = _checked(path, imputer, order, found.passed)
                source = Source(number, path, hash_of(path), rows, places[done], stamp)
                found.sources.append(source)
            except ValueError as problem:
                found.problems[number] = str(problem)
            read += sizes[done]
            report(read, f"{done + 1} of {len(paths)} files")
    return found


def _checked(path: Path, imputer: FlowImputer, order: Order, passed: dict[str, str]) -> int:
    """Return how many rows a file has, if its columns are such as the model can fill."""
    table, rows = without_rows(path, order.na_values)
    plan = plan_of_model(imputer, [table])
    table.frame(plan.known)
    check_new(path, table.names, order.flag)
    passed.update(plan.passed)
    return rows
