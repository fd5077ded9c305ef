"""The demo's second half: a flow trained on digits, and the lower halves of digits drawn."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from plmcmc.data import Incomplete, observed_moments
from plmcmc.flows import Flatten, Preprocessed, RealNVP, Whiten, save
from plmcmc.posterior import Draws, condition
from plmcmc.training import Fitted, fit_flow

SHOWN = 10
TEST_DIGITS = 297
# Deviations of the pixels at the rim are next to nothing; whitening must not blow them up.
PIXEL_FLOOR = 1.0


class Digits(NamedTuple):
    """Digits of 8x8 pixels from 0 to 16: to train on, and to complete."""

    train: NDArray[np.float32]
    test: NDArray[np.float32]


def complete_digits(output: Path, seed: int, console: Console) -> dict[Path, str]:
    """Train, hide, draw and report; return what was written, and what it is."""
    digits = digits_of(seed)
    console.print(
        f"Training a flow on {len(digits.train)} digits of 8x8 pixels (scikit-learn's) ..."
    )
    fitted = trained_flow(digits.train, seed)
    console.print(
        f"{len(fitted.train)} epochs; held-out log-likelihood {max(fitted.held_out):.1f} nats per "
        f"digit at epoch {fitted.best_epoch}."
    )
    truth = digits.test[:SHOWN]
    observed = np.ones_like(truth, dtype=bool)
    observed[:, 4:] = False
    console.print(f"Hiding the lower half of {SHOWN} unseen digits; drawing completions ...\n")
    draws = _sampled(fitted, truth, observed, seed)
    console.print(_table(draws))
    console.print(
        "R-hat compares chains that started from different points: 1 means that they agree. ESS "
        "is the number of independent draws they are worth, for the pixel with the fewest."
    )
    picture = _picture(output / "digits.png", truth, draws)
    model = save(fitted.flow, output / "digits-flow", overwrite=True)
    drawn = draws.save(output / "digits-draws.safetensors")
    return {
        picture: "truth, observed part, five draws each, their mean",
        model: "the flow; load it with plmcmc.load",
        drawn: "all draws; load them with plmcmc.Draws.load",
    }


def digits_of(seed: int) -> Digits:
    """Return scikit-learn's digits, split at random."""
    from sklearn.datasets import load_digits

    images = load_digits(return_X_y=True)[0].reshape(-1, 8, 8).astype(np.float32)
    order = np.random.default_rng(seed).permutation(len(images))
    return Digits(images[order[TEST_DIGITS:]], images[order[:TEST_DIGITS]])


def trained_flow(images: NDArray[np.float32], seed: int) -> Fitted:
    """Train the demo's flow."""
    moments = observed_moments(Incomplete.of(images), floor=PIXEL_FLOOR)
    inner = RealNVP(64, couplings=4, depth=2, width=96, random_state=seed)
    flow = Preprocessed([Whiten(*moments), Flatten((8, 8))], inner)
    return fit_flow(flow, images, epochs=100, learning_rate=2e-3, noise=0.2, random_state=seed)


def _sampled(
    fitted: Fitted, truth: NDArray[np.float32], observed: NDArray[np.bool_], seed: int
) -> Draws:
    """Draw completions."""
    posterior = condition(fitted.flow, truth, observed)
    return posterior.sample(400, chains=8, thin=3, random_state=seed)


def _table(draws: Draws) -> Table:
    """Summarise convergence, a line per digit."""
    table = Table(title=f"{draws.values.shape[0]} chains x {draws.values.shape[1]} draws per digit")
    for name in ("digit", "missing", "R-hat, worst", "R-hat, median", "ESS, lowest", "acceptance"):
        table.add_column(name, justify="right")
    rhat, ess = draws.rhat(), draws.ess()
    for row in range(len(rhat)):
        holes = ~draws.observed[row]
        table.add_row(
            str(row),
            str(int(holes.sum())),
            f"{rhat[row][holes].max():.3f}",
            f"{np.median(rhat[row][holes]):.3f}",
            f"{ess[row][holes].min():.0f}",
            f"{draws.acceptance[:, row].mean():.2f}",
        )
    return table


def _picture(path: Path, truth: NDArray[np.float32], draws: Draws) -> Path:
    """Write a sheet: truth, what was seen, five draws, the conditional mean."""
    from matplotlib.figure import Figure

    seen = np.where(draws.observed, truth, np.nan)
    shown = {"truth": truth, "seen": seen}
    shown |= {f"draw {chain + 1}": draws.values[chain, -1] for chain in range(5)}
    shown |= {"mean": draws.mean()}
    figure = Figure(figsize=(0.8 * len(truth) + 1, 0.8 * len(shown)), layout="constrained")
    axes = figure.subplots(len(shown), len(truth))
    for line, (name, images) in zip(axes, shown.items(), strict=True):
        for place, image in zip(line, images, strict=True):
            place.imshow(image, cmap="gray_r", vmin=0, vmax=16)
            place.set(xticks=[], yticks=[], facecolor="#f4d9c6")
        line[0].set_ylabel(name, rotation=0, ha="right", va="center")
    figure.savefig(path, dpi=110)
    return path
