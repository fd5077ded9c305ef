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
    from plmcmc import data, diagnostics, distributed, flows
    from plmcmc.adapters import adapt, load_glow
    from plmcmc.chains import FromObserved, Given, Unconditional
    from plmcmc.data import Incomplete, load_images
    from plmcmc.diagnostics import calibrate, decision_study
    from plmcmc.flows import (
        NICE,
        Absolute,
        BrokenFlow,
        Flow,
        Glow,
        Linear,
        Preprocessed,
        RealNVP,
        check_flow,
        load,
        save,
    )
    from plmcmc.imputation import FlowImputer
    from plmcmc.posterior import Conditional, ConvergenceWarning, Draws, condition, methods
    from plmcmc.statistics import pool
    from plmcmc.target import FlatAuxiliary, NormalAuxiliary
    from plmcmc.training import fit_flow

__version__ = "0.1.0"

_ROOM_OF = {
    "adapt": "adapters",
    "load_glow": "adapters",
    "FromObserved": "chains",
    "Given": "chains",
    "Unconditional": "chains",
    "Incomplete": "data",
    "load_images": "data",
    "calibrate": "diagnostics",
    "decision_study": "diagnostics",
    "NICE": "flows",
    "Absolute": "flows",
    "BrokenFlow": "flows",
    "Flow": "flows",
    "Glow": "flows",
    "Linear": "flows",
    "Preprocessed": "flows",
    "RealNVP": "flows",
    "check_flow": "flows",
    "load": "flows",
    "save": "flows",
    "FlowImputer": "imputation",
    "Conditional": "posterior",
    "ConvergenceWarning": "posterior",
    "Draws": "posterior",
    "condition": "posterior",
    "methods": "posterior",
    "pool": "statistics",
    "FlatAuxiliary": "target",
    "NormalAuxiliary": "target",
    "fit_flow": "training",
}
_ROOMS = ("data", "diagnostics", "distributed", "flows")

__all__ = [
    "NICE",
    "Absolute",
    "BrokenFlow",
    "Conditional",
    "ConvergenceWarning",
    "Draws",
    "FlatAuxiliary",
    "Flow",
    "FlowImputer",
    "FromObserved",
    "Given",
    "Glow",
    "Incomplete",
    "Linear",
    "NormalAuxiliary",
    "Preprocessed",
    "RealNVP",
    "Unconditional",
    "adapt",
    "calibrate",
    "check_flow",
    "condition",
    "data",
    "decision_study",
    "diagnostics",
    "distributed",
    "fit_flow",
    "flows",
    "load",
    "load_glow",
    "load_images",
    "methods",
    "pool",
    "save",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _ROOMS:
        return import_module(f"plmcmc.{name}")
    if name in _ROOM_OF:
        return getattr(import_module(f"plmcmc.{_ROOM_OF[name]}"), name)
    raise AttributeError(f"module 'plmcmc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
