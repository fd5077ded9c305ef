"""Filling Parquet files of any size with a saved model, in one process or many."""

from plmcmc.distributed.course import Done
from plmcmc.distributed.filling import impute

__all__ = ["Done", "impute"]
