"""MIWAE: a variational autoencoder trained on what is seen, holes filled by importance sampling.

Mattei and Frellsen (2019), with the settings of the paper's appendix E.2: ten latents, two hidden
layers of 128 rectifiers, Student's t for the columns, zeros for holes in the encoder, columns
whitened by what is seen of them; 2,000 epochs of Adam at 0.001 in batches of 64 with 20 weights,
and 10,000 weights to fill.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plmcmc.baselines.autoencoder import Autoencoder, Weighted
from plmcmc.baselines.epochs import checkpoint_of, run_epochs
from plmcmc.baselines.mean import Table, Units, checked_table, column_units
from plmcmc.baselines.miwae_epoch import MiwaeEpoch
from plmcmc.chains import progress_bar, resumed_seed
from plmcmc.data.incomplete import DataError
from plmcmc.flows.base import seeded
from plmcmc.rng import RandomState, generator, seed_of
from plmcmc.training.refusal import refuse_less_than_one

# Numbers of a hidden layer that are held at once when holes are filled.
AT_ONCE = 2**24


@dataclass(frozen=True)
class MiwaeImputer:
    """Fills missing values as MIWAE does.

    Attributes:
        latent: Number of latent dimensions.
        width: Units of each hidden layer.
        layers: Hidden layers of the encoder, and of the decoder; the paper's three include the
            last, linear one.
        training_samples: Number of weighted latents per row in training.
        samples: Number of weighted latents per row when filling.
        epochs: Passes over the table.
        batch_size: Rows per step.
        learning_rate: Of Adam.
        random_state: Seed; None takes a new one every time.
        device: Where to compute.
        progress: Show a bar; by default on a terminal only.
    """

    latent: int = 10
    width: int = 128
    layers: int = 2
    training_samples: int = 20
    samples: int = 10_000
    epochs: int = 2000
    batch_size: int = 64
    learning_rate: float = 1e-3
    random_state: int | None = None
    device: torch.device | str = "cpu"
    progress: bool | None = None

    def __post_init__(self) -> None:
        names = ("latent", "width", "layers", "training_samples", "samples", "epochs", "batch_size")
        refuse_less_than_one(**{name: getattr(self, name) for name in names})

    def fit(self, x: Any, *, checkpoint: str | Path | None = None) -> Miwae:
        """Train on a table and return what was trained.

        Args:
            x: `(rows, columns)`; holes are NaN.
            checkpoint: file to save to after epochs and to resume from. After every one, unless
                saving takes more than a twentieth of the time.

        Raises:
            DataError: if `x` is not a table of numbers, or has a column without any.
            CheckpointError: if the checkpoint is damaged, or belongs to a different run.
            TrainingError: if the bound is no longer finite.
        """
        values, seen = checked_table(x)
        units, seed = column_units(values, seen), resumed_seed(checkpoint, self.random_state)
        with seeded(seed):
            network = Autoencoder(values.shape[1], self.latent, self.width, self.layers)
        network.to(self.device)
        rows, observed = _whitened(values, seen, units, self.device)
        source = generator(seed, "miwae", device=rows.device)
        names = ("epochs", "batch_size", "learning_rate")
        pace = {name: getattr(self, name) for name in names} | {"samples": self.training_samples}
        epoch = MiwaeEpoch(network, rows, observed, source, **pace)
        saved = checkpoint_of(checkpoint, self, seed, rows, observed)
        run_epochs(epoch, source, self, "Training MIWAE", saved)
        network.eval().requires_grad_(False)
        return Miwae(network, units, epoch.bounds.tolist(), self.samples, seed, self.progress)

    def fill(self, x: Any) -> Table:
        """Return the table, trained on and with its NaN at their conditional means."""
        return self.fit(x).fill(x)


@dataclass(frozen=True)
class Miwae:
    """A trained MIWAE, which fills tables with the columns that it was trained on.

    Attributes:
        network: The autoencoder, of whitened columns.
        units: What columns are whitened by.
        bounds: Mean lower bound of a row's log-likelihood, whitened, in every epoch of training.
        samples: Weighted latents of a row.
        seed: Of the means; the same table is filled in the same way.
        progress: Show a bar; by default on a terminal only.
    """

    network: Autoencoder
    units: Units
    bounds: list[float]
    samples: int
    seed: int
    progress: bool | None = None

    def fill(self, x: Any) -> Table:
        """Return the table with its NaN at their means given what a row has.

        The means of the decoder, by self-normalised weights.
        """
        values, seen = self._checked(x)
        filled = values.copy()
        for rows, found in self._weighted(values, seen, "means", self.seed):
            weights = found.log_weights.softmax(0)
            mean = (weights[..., None] * found.columns.mean).sum(0)
            filled[rows] = self._unwhitened(mean.cpu().numpy())
        return np.where(seen, values, filled)

    def sample(self, x: Any, draws: int = 20, random_state: RandomState = None) -> Table:
        """Return `(draws, rows, columns)` of completed tables, by importance resampling.

        Latents are drawn by their weights, with replacement, and holes given their latents.
        """
        values, seen = self._checked(x)
        refuse_less_than_one(draws=draws)
        seed = seed_of(random_state)
        drawn = np.repeat(values[None], draws, axis=0)
        rng = np.random.default_rng([seed, *b"student"])
        source = generator(seed, "resampling", device=self._device)
        for rows, found in self._weighted(values, seen, "draws", seed):
            weights = found.log_weights.softmax(0).T
            chosen = torch.multinomial(weights, draws, replacement=True, generator=source).T
            places = chosen[..., None].expand(-1, -1, values.shape[1])
            freedom, mean, scale = (
                part.gather(0, places).double().cpu().numpy() for part in found.columns
            )
            # By NumPy: torch draws no Student's t from a generator of ours.
            drawn[:, rows] = self._unwhitened(mean + scale * rng.standard_t(freedom))
        return np.where(seen, values, drawn)

    @property
    def _device(self) -> torch.device:
        return next(self.network.parameters()).device

    def _checked(self, x: Any) -> tuple[Table, NDArray[np.bool_]]:
        values, seen = checked_table(x)
        if values.shape[1] != len(self.units.centre):
            raise DataError(
                f"x has {values.shape[1]} columns; MIWAE was trained on {len(self.units.centre)}"
            )
        return values, seen

    @torch.no_grad()
    def _weighted(
        self, values: Table, seen: NDArray[np.bool_], purpose: str, seed: int
    ) -> Iterator[tuple[NDArray[np.int64], Weighted]]:
        """Yield rows with holes, a few at a time, and their weighted latents."""
        holed = np.flatnonzero(~seen.all(1))
        x, observed = _whitened(values[holed], seen[holed], self.units, self._device)
        source = generator(seed, purpose, device=self._device)
        size = max(1, AT_ONCE // (self.samples * self.network.widest))
        with progress_bar("Filling with MIWAE", len(holed), show=self.progress) as report:
            for start in range(0, len(holed), size):
                part = slice(start, start + size)
                noise = self.network.noise(self.samples, len(x[part]), source)
                yield holed[part], self.network.weighted(x[part], observed[part], noise)
                report(min(start + size, len(holed)), "")

    def _unwhitened(self, x: NDArray[Any]) -> Table:
        return self.units.centre + self.units.spread * x.astype(np.float64)


def _whitened(
    values: Table, seen: NDArray[np.bool_], units: Units, device: torch.device | str
) -> tuple[Tensor, Tensor]:
    """Return rows in units of their columns, 0 for what is missing, and where they are seen."""
    x = np.where(seen, (values - units.centre) / units.spread, 0.0)
    return torch.as_tensor(x, dtype=torch.float32, device=device), torch.as_tensor(seen).to(device)
