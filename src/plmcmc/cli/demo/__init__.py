"""In: a directory. Out: what `plmcmc demo` writes to it: both jobs on data that comes along."""

from plmcmc.cli.demo.digits import digits_of, trained_flow
from plmcmc.cli.demo.main import demo

__all__ = ["demo", "digits_of", "trained_flow"]
