"""Sampling methods, by name or configured: each makes a kernel for a flow and incomplete rows.

`Conditional.sample(method="elliptical")` uses its defaults; `method=Elliptical(...)` your settings.
"""

from plmcmc.posterior.batch import Method
from plmcmc.posterior.methods.entries import (
    DataHamiltonian,
    DataLangevin,
    DataMetropolis,
    Gibbs,
)
from plmcmc.posterior.methods.latent import (
    CrankNicolson,
    Elliptical,
    Hamiltonian,
    Langevin,
    Metropolis,
)
from plmcmc.posterior.methods.pullback import Auto, Pullback

METHODS: dict[str, Method] = {
    "auto": Auto(),
    "pullback": Pullback(),
    "metropolis": Metropolis(),
    "pcn": CrankNicolson(),
    "elliptical": Elliptical(),
    "mala": Langevin(),
    "hmc": Hamiltonian(),
    "data-hmc": DataHamiltonian(),
    "data-mala": DataLangevin(),
    "data-ula": DataLangevin(step=0.05, adjusted=False),
    "data-metropolis": DataMetropolis(),
    "gibbs": Gibbs(),
}


def method_of(method: str | Method) -> Method:
    """Return the method of this name, or the configured method itself."""
    if not isinstance(method, str):
        if isinstance(method, type) or not callable(getattr(method, "begin", None)):
            raise TypeError(
                f"method must be one of {', '.join(METHODS)}, or a configured method such as "
                f"plmcmc.methods.Metropolis(perturb=0.05); got {method!r}"
            )
        return method
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    return METHODS[method]


__all__ = [
    "METHODS",
    "Auto",
    "CrankNicolson",
    "DataHamiltonian",
    "DataLangevin",
    "DataMetropolis",
    "Elliptical",
    "Gibbs",
    "Hamiltonian",
    "Langevin",
    "Method",
    "Metropolis",
    "Pullback",
    "method_of",
]
