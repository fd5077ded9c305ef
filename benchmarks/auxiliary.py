"""The auxiliary's scale: fixed ones beside the one chosen by overturned decisions.

    python benchmarks/auxiliary.py

Trains a RealNVP on scikit-learn's wine (13 columns), hides half of the values of 16 rows, and runs
the latent kernels with 8 chains a row: R-hat, and ESS per chain per 1,000 passes, all passes
counted. Scales are in deviations of each column.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from sklearn.datasets import load_wine

from plmcmc.adaptation import auxiliary
from plmcmc.data import Incomplete, Independent, observed_moments
from plmcmc.flows import Preprocessed, RealNVP, Whiten
from plmcmc.posterior import condition, methods
from plmcmc.target import NormalAuxiliary
from plmcmc.training import fit_flow

CHAINS = 8
KINDS = {
    "elliptical": (methods.Elliptical, 400),
    "pcn": (methods.CrankNicolson, 1500),
    "hmc": (methods.Hamiltonian, 80),
    "mala": (methods.Langevin, 500),
}


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    x = np.asarray(load_wine(return_X_y=True)[0], np.float32)
    whiten = Whiten(*observed_moments(Incomplete.of(x)))
    flow = Preprocessed([whiten], RealNVP(13, couplings=4, depth=2, width=32, random_state=0))
    fit_flow(flow, x, epochs=60, noise=0.2, learning_rate=2e-3, random_state=0)
    posterior = condition(flow, x[:16], Independent(0.5)(x[:16], 0))
    unit = torch.as_tensor(x.std(0))
    show(posterior, "pullback", "auto", 300)
    for name, (kind, draws) in KINDS.items():
        for scale in (0.03, 0.1, 0.3, 1.0, 3.0):
            method = kind(auxiliary=NormalAuxiliary(scale * unit))
            show(posterior, f"{name}, scale {scale}", method, draws)
        for share in (0.2, 0.3, 0.5, 0.7):
            auxiliary.OVERTURNED = share
            show(posterior, f"{name}, {share} overturned", kind(), draws)


def show(posterior, name, method, draws) -> None:
    """Run one method and print how it did."""
    found = posterior.sample(draws, chains=CHAINS, method=method, random_state=0)
    rhat, ess = (f()[~found.observed] for f in (found.rhat, found.ess))
    ess = ess / CHAINS / found.passes * 1000
    print(
        f"{name:28} {found.passes:6} passes, accepted {found.acceptance.mean():.2f}, R-hat "
        f"{np.median(rhat):.2f} / {rhat.max():.2f}, ESS {np.median(ess):.2f} / {ess.min():.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
