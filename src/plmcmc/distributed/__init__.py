"""Filling Parquet files of any size with a saved model, in one process or many.

In: Parquet files, a model. Out: the files, filled.
"""

from plmcmc.distributed.filling import impute
from plmcmc.distributed.job_run import Done

__all__ = ["Done", "impute"]
