"""In: Parquet files of any size, a saved model. Out: the files filled, by one process or many."""

from plmcmc.distributed.course import Done
from plmcmc.distributed.filling import impute

__all__ = ["Done", "impute"]
