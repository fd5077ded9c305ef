"""The demo's report: the page that `plmcmc impute --report` writes, of the demo's table."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from plmcmc.cli.report import Asked, report
from plmcmc.cli.table_options import add_impute
from plmcmc.imputation import FlowImputer
from plmcmc.tables import read_tables, write_files
from plmcmc.tables.columns import plan_of_model
from plmcmc.tables.fill import Found


def write_report(path: Path, holes: Path, filled: Path, imputer: FlowImputer) -> Path:
    """Write the page.

    Args:
        path: where to.
        holes: the table as it was.
        filled: the table as it was written.
        imputer: what filled it, fresh from drawing.
    """
    tables = read_tables([holes], [])
    plan = plan_of_model(imputer, tables)
    frame = tables[0].frame(plan.known)
    missing, told = frame.isna().to_numpy(), imputer.convergence_
    rows, settled, stuck = (int(own.sum()) for own in (missing.any(1), told.rows, told.stuck))
    found = Found(rows, settled, int(missing.sum()), told.share, stuck)
    asked = Asked(_asked(path, holes, filled), plan, tables, [frame])
    write_files([(path, report(asked, found, imputer).encode())])
    return path


def _asked(path: Path, holes: Path, filled: Path) -> Namespace:
    """Return what the same would be on the command line."""
    parser = ArgumentParser()
    add_impute(parser.add_subparsers())
    line = ["impute", str(holes), "--output", str(filled), "--report", str(path)]
    return parser.parse_args(line)
