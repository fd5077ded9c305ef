"""In: the name of a table or figure of the paper. Out: its numbers, beside the paper's.

Nothing heavy is imported here: `plmcmc reproduce --list` must answer at once.
"""

from plmcmc.experiments.catalogue import CATALOGUE, SCALES, experiment_of

__all__ = ["CATALOGUE", "SCALES", "experiment_of"]
