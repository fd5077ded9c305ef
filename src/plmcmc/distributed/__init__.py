"""In: Parquet files of any size, a saved model. Out: the files filled, by one process or many."""

from plmcmc.distributed.filling import impute
from plmcmc.distributed.job_run import Done

__all__ = ["Done", "impute"]
