"""The paper's own training from incomplete rows: its settings, set by set.

Where the paper contradicts itself, or leaves something open, this is how it is read:

- Appendix E.1 calls the resampling deviation `sigma_p`, the name of the perturbation's: "resample
  at reduced variance with sigma_p = 0.5", after "throughout training, sigma_p = 0.05". So do E.1
  and E.2 under testing. The definition of g_r calls it `sigma_r`, and so do we: sigma_p is .05
  (tables: .01), sigma_r is 1.814, then .5 (tables: 1).
- Resampling is said to be "at a reduced standard deviation", but 1.814 is a standard logistic's own
  (pi / sqrt(3)), and 1 a standard normal's. The numbers are taken, not the words.
- Section 6.2 has tables imputed by 1,000 proposals, appendix E.2 by 2,000, "following the same
  procedure as in training", whose proposals are nowhere counted: 2,000, in training too.
- Table 3 gives yeast 1,483 rows; the UCI repository's file has 1,484. Nothing here counts rows.
- "K = 5, L = 4" are Glow's words, and NICE has no levels: 4 couplings of 5 hidden layers each.
- The copied columns of concrete are "an additional single sample": of each chain, so that 25 chains
  are 50 draws.
- Where chains of an E-step begin is said for images only (section 5.3: samples at reduced variance;
  E.3: at temperature 1). At a completion `y_O = x_O`, and with sigma_a 1e-3 next to no proposal is
  accepted from there: training learns nothing (measured in `docs/results/paper-training.md`). So
  chains begin at samples of the flow, observed values not put in, and find `x_O` first.
- sigma_a is in whitened units. `MonteCarloEM` returns the flow behind its whitening: ask
  `fitted.flow.flow` for draws of whitened rows at these settings.
- Choosing between two proposals and correcting for the chosen one is called an approximation; it
  is exact (see `plmcmc.kernels.Mixture`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plmcmc.chains import Unconditional
from plmcmc.flows import NICE
from plmcmc.posterior.methods import Metropolis
from plmcmc.target import NormalAuxiliary
from plmcmc.training.schedule import EMSchedule

FROM_SAMPLES = Unconditional(projected=False)


@dataclass(frozen=True)
class Preset:
    """A flow of the paper, and how it is trained and sampled.

    Attributes:
        schedule: schedule for `MonteCarloEM`.
        features: number of columns of the flow; for `concrete`, those of `double(x)`.
        width: units of each hidden layer.
        latent: density of the latents.
        draws: independent chains whose last completions the paper averages when it imputes.
        doubled: whether rows go through `double` first, and draws through `undouble`.
    """

    schedule: EMSchedule
    features: int
    width: int
    latent: str
    draws: int
    doubled: bool = False

    def flow(self, random_state: int | None = None) -> NICE:
        """Return the untrained flow: 4 couplings, 5 hidden layers each, over a random partition.

        Appendix E.1 (MNIST) and E.2 (tables), second paragraph of each.
        """
        options = {"couplings": 4, "depth": 5, "width": self.width, "latent": self.latent}
        return NICE(self.features, random_state=random_state, **options)


# Input dimensions and batch sizes: appendix E.2, the second table.
TABLES = {
    "banknote": (4, 3000),
    "breast": (30, 1500),
    "concrete": (18, 2000),
    "red-wine": (12, 3000),
    "white-wine": (12, 10_000),
    "yeast": (8, 3000),
}


def paper(name: str) -> Preset:
    """Return the paper's settings for one of its six UCI sets (appendix E.2).

    Flow: width 120, normal latents. Training: 1,000 epochs of Adamax at .002 over ten copies of
    the rows, whitened by observed means and deviations; holes from N(0, I) in the first 50 epochs,
    then PL-MCMC every 50 with sigma_p .01, sigma_r 1 and sigma_a 1e-3, clamped to each column's
    observed range. 2,000 proposals, and 25 chains to average (both under testing).

    Args:
        name: `banknote`, `breast`, `concrete`, `red-wine`, `white-wine` or `yeast`.

    Example:
        >>> preset = paper("concrete")
        >>> preset.schedule.batch_size, preset.features, preset.doubled
        (2000, 18, True)
    """
    if name not in TABLES:
        raise ValueError(f"name must be one of {', '.join(TABLES)}; got {name!r}")
    features, batch_size = TABLES[name]
    schedule = EMSchedule(
        epochs=1000,
        every=50,
        proposals=2000,
        copies=10,
        batch_size=batch_size,
        optimizer="adamax",
        learning_rate=2e-3,
        method=Metropolis(perturb=0.01, resample=1.0, auxiliary=NormalAuxiliary(1e-3)),
        start=FROM_SAMPLES,
        whiten=True,
        clamp=True,
    )
    return Preset(schedule, features, 120, "normal", draws=25, doubled=name == "concrete")


def paper_mnist() -> Preset:
    """Return the paper's settings for incomplete MNIST digits, as flat rows (appendix E.1).

    Flow: width 1,000, logistic latents. Training: 1,000 epochs of RMSprop at 1e-5 with momentum
    .9 in batches of 200, whitened pixel by pixel; holes from N(0, I) in the first 50 epochs, then
    PL-MCMC every 50 with sigma_p .05, sigma_a 1e-3, and sigma_r 1.814 within the first 500 epochs
    and .5 after, clamped to each pixel's observed range. The rows are not copied. 2,000 proposals,
    and 10 chains to average (both under testing).
    """
    auxiliary = NormalAuxiliary(1e-3)
    schedule = EMSchedule(
        epochs=1000,
        every=50,
        proposals=2000,
        copies=1,
        batch_size=200,
        optimizer="rmsprop",
        learning_rate=1e-5,
        momentum=0.9,
        method=Metropolis(perturb=0.05, resample=1.814, auxiliary=auxiliary),
        later=((500, Metropolis(perturb=0.05, resample=0.5, auxiliary=auxiliary)),),
        start=FROM_SAMPLES,
        whiten=True,
        clamp=True,
    )
    return Preset(schedule, 784, 1000, "logistic", draws=10)


def double(x: NDArray) -> NDArray:
    """Return rows, or what is observed of them, with every column copied (appendix E.2, concrete).

    Missing entries are copied too, so that the copy adds no information.

    Example:
        >>> double(np.array([[1.0, np.nan]]))
        array([[ 1., nan,  1., nan]])
    """
    return np.concatenate((x, x), axis=1)


def undouble(draws: NDArray) -> NDArray:
    """Return `(draws, rows, 2 columns)` as `(2 draws, rows, columns)`: each copy is one more draw.

    Appendix E.2, under testing.
    """
    if draws.ndim != 3 or draws.shape[2] % 2 != 0:
        raise ValueError(
            f"draws must have shape (draws, rows, an even number of columns); got {draws.shape}"
        )
    return np.concatenate(np.split(draws, 2, axis=2), axis=0)
