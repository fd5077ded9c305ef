"""What chains should come to: the conditional mean of a masked digit, by our default sampler."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from plmcmc.chains import fingerprint
from plmcmc.experiments.cache import made_once, read_arrays, shared_path, write_arrays
from plmcmc.experiments.digits.masked import Case, Numbers
from plmcmc.experiments.study import Place
from plmcmc.flows import home
from plmcmc.posterior import condition

# What chains that agree stay below, as in the package's own warning.
AGREED = 1.05


class Truth(NamedTuple):
    """A converged mean in units of pixels, and how far it may be trusted.

    Attributes:
        mean: of each pixel; the digit's own where it is seen.
        deviation: of each pixel's draws; 0 where it is seen.
        rhat: of each pixel; NaN where it is seen.
        ess: effective draws of each pixel; NaN where it is seen.
    """

    mean: Numbers
    deviation: Numbers
    rhat: Numbers
    ess: Numbers

    def told(self) -> dict[str, float]:
        """Return what says whether chains have converged."""
        known = self.rhat[np.isfinite(self.rhat)]
        return {
            "R-hat, median": round(float(np.median(known)), 4),
            "R-hat, largest": round(float(known.max()), 4),
            "share of pixels at R-hat 1.05 or less": round(float((known <= AGREED).mean()), 4),
            "effective draws, least": round(float(np.nanmin(self.ess)), 1),
        }

    def noise(self, case: Case, chains: int) -> float:
        """Return the error that a mean of so many exact, independent draws has."""
        return float(case.error(self.deviation / chains**0.5, np.zeros_like(self.mean)))


@dataclass(frozen=True)
class Converged:
    """How many chains and draws the mean is taken over.

    Args:
        chains: of the default sampler.
        draws: of each chain.
        warmup: trajectories to tune for; None leaves it to the sampler.
    """

    chains: int = 100
    draws: int = 400
    warmup: int | None = None

    def truth(self, case: Case, place: Place) -> Truth:
        """Return the mean; one that is there already, from any study, is read."""
        flow = fingerprint(*case.flow.state_dict().values())
        path = shared_path(place, "converged", flow, asdict(self), case.row).with_suffix(".npz")
        with made_once(path) as wanted:
            if wanted:
                write_arrays(path, self._sampled(case, place)._asdict())
        return Truth(**read_arrays(path))

    def _sampled(self, case: Case, place: Place) -> Truth:
        # In the flow's own precision: draws are large.
        row = case.row.astype(str(home(case.flow).dtype).removeprefix("torch."))
        with warnings.catch_warnings():
            # Whether chains agree is told in the report.
            warnings.simplefilter("ignore")
            draws = condition(case.flow, row).sample(
                self.draws,
                chains=self.chains,
                warmup=self.warmup,
                random_state=0,
                progress=place.progress,
            )
        mean = np.where(case.observed, case.truth, case.pixels(draws.mean()[0]))
        return Truth(mean, draws.std()[0] * case.scale, draws.rhat()[0], draws.ess()[0])
