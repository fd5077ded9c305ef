"""In: a flow and rows with holes. Out: log-densities and completions, at points to step through.

`point` says what a target is. The default sampler's is `conditional`, the paper's is `projected`
(with its `auxiliary`), and `table` is that of scores.
"""

from plmcmc.target.auxiliary import Auxiliary, FlatAuxiliary, NormalAuxiliary
from plmcmc.target.conditional import ConditionalTarget
from plmcmc.target.point import Point, Target, differentiate
from plmcmc.target.projected import ProjectedLatentTarget
from plmcmc.target.table import GaussianReference, TableTarget
from plmcmc.target.warp import Warp

__all__ = [
    "Auxiliary",
    "ConditionalTarget",
    "FlatAuxiliary",
    "GaussianReference",
    "NormalAuxiliary",
    "Point",
    "ProjectedLatentTarget",
    "TableTarget",
    "Target",
    "Warp",
    "differentiate",
]
