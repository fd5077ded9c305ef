"""In: tables, and how they were filled. Out: a page on it, of `plmcmc impute --report`."""

from plmcmc.cli.report.assembly import Asked, report

__all__ = ["Asked", "report"]
