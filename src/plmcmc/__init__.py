"""plmcmc: exact conditional sampling from normalizing flows, and imputation of missing data.

    >>> import plmcmc, torch
    >>> flow = plmcmc.Linear.of_moments(torch.zeros(2), torch.tensor([[1.0, 0.8], [0.8, 1.0]]))
    >>> draws = plmcmc.condition(flow, [[2.0, float("nan")]]).sample(400, random_state=0)
    >>> draws.values.shape
    (4, 400, 1, 2)

Modules are imported only when one of their names is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # What `__getattr__` finds, for those who check types; `as` makes a name the package's own.
    from plmcmc import data as data
    from plmcmc import diagnostics as diagnostics
    from plmcmc import distributed as distributed
    from plmcmc import flows as flows
    from plmcmc.adapters import adapt as adapt
    from plmcmc.adapters import load_glow as load_glow
    from plmcmc.chains import FromObserved as FromObserved
    from plmcmc.chains import Given as Given
    from plmcmc.chains import Unconditional as Unconditional
    from plmcmc.data import Incomplete as Incomplete
    from plmcmc.data import load_images as load_images
    from plmcmc.diagnostics import calibrate as calibrate
    from plmcmc.diagnostics import decision_study as decision_study
    from plmcmc.flows import NICE as NICE
    from plmcmc.flows import Absolute as Absolute
    from plmcmc.flows import BrokenFlow as BrokenFlow
    from plmcmc.flows import Flow as Flow
    from plmcmc.flows import Glow as Glow
    from plmcmc.flows import Linear as Linear
    from plmcmc.flows import Preprocessed as Preprocessed
    from plmcmc.flows import RealNVP as RealNVP
    from plmcmc.flows import check_flow as check_flow
    from plmcmc.flows import load as load
    from plmcmc.flows import save as save
    from plmcmc.imputation import FlowImputer as FlowImputer
    from plmcmc.posterior import Conditional as Conditional
    from plmcmc.posterior import ConvergenceWarning as ConvergenceWarning
    from plmcmc.posterior import Draws as Draws
    from plmcmc.posterior import condition as condition
    from plmcmc.posterior import methods as methods
    from plmcmc.statistics import pool as pool
    from plmcmc.target import FlatAuxiliary as FlatAuxiliary
    from plmcmc.target import NormalAuxiliary as NormalAuxiliary
    from plmcmc.training import fit_flow as fit_flow

__version__ = "0.1.0"

_ROOMS = ("data", "diagnostics", "distributed", "flows")
_NAMES = {
    "adapters": ("adapt", "load_glow"),
    "chains": ("FromObserved", "Given", "Unconditional"),
    "data": ("Incomplete", "load_images"),
    "diagnostics": ("calibrate", "decision_study"),
    "flows": (
        *("NICE", "Absolute", "BrokenFlow", "Flow", "Glow", "Linear", "Preprocessed", "RealNVP"),
        *("check_flow", "load", "save"),
    ),
    "imputation": ("FlowImputer",),
    "posterior": ("Conditional", "ConvergenceWarning", "Draws", "condition", "methods"),
    "statistics": ("pool",),
    "target": ("FlatAuxiliary", "NormalAuxiliary"),
    "training": ("fit_flow",),
}
_ROOM_OF = {name: room for room, names in _NAMES.items() for name in names}

if not TYPE_CHECKING:
    __all__ = sorted([*_ROOMS, *_ROOM_OF])


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _ROOMS:
        return import_module(f"plmcmc.{name}")
    if name in _ROOM_OF:
        return getattr(import_module(f"plmcmc.{_ROOM_OF[name]}"), name)
    raise AttributeError(f"module 'plmcmc' has no attribute {name!r}")


def __dir__() -> list[str]:
    # For those who look for names with the tab key: what is theirs, not what is imported here.
    return sorted([*_ROOMS, *_ROOM_OF, "__doc__", "__version__"])
