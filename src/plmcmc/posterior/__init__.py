"""In: a flow and rows with holes. Out: `Draws` from p(x_M | x_O).

What a call of `Conditional.sample` does, file by file:

1. `conditional`: `condition` checks flow and rows; `sample` puts together a `Plan` of the call.
2. `plan`: rows with holes are cut into chunks, by `memory`; each is a `batch` with starts.
3. `methods`: a method makes a kernel for the batch, by default `methods.pullback`, whose settings
   `adaptation.warmup` finds on the way; from here on it is frozen.
4. `kernels.hmc` moves every row's chains by the gradient of `target.conditional`; `chains.run` is
   the loop around it, and `chains.record` keeps the completed rows.
5. `draws`: the chunks' results together; `quality_warnings` says which rows not to trust.
"""

from plmcmc.posterior import methods
from plmcmc.posterior.batch import Method
from plmcmc.posterior.conditional import Conditional, condition
from plmcmc.posterior.draws import Draws
from plmcmc.posterior.evidence import Evidence
from plmcmc.posterior.memory import MemoryWarning
from plmcmc.posterior.methods import METHODS
from plmcmc.posterior.quality_warnings import (
    BiasedWarning,
    ConvergenceWarning,
    EvidenceWarning,
    StuckWarning,
)

__all__ = [
    "METHODS",
    "BiasedWarning",
    "Conditional",
    "ConvergenceWarning",
    "Draws",
    "Evidence",
    "EvidenceWarning",
    "MemoryWarning",
    "Method",
    "StuckWarning",
    "condition",
    "methods",
]
