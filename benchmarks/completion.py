"""Images completed with Glow, as the paper does it (4.1, 4.2), and by the default sampler.

    python benchmarks/completion.py cifar --flow DIR --images test.npy --hole 8 --device cuda -o OUT
    python benchmarks/completion.py faces --flow DIR --images faces.zip --skip 9500 --drawn 4 -o OUT

`cifar`: a square of HOLE x HOLE pixels is missing from the middle; the paper's chains start at
pixels copied from what is seen and walk in absolute coordinates. `faces`: the right half is
missing; they start at samples of the flow at temperature .5 and walk in relative coordinates. Both
perturb latents by .01, with an auxiliary of deviation .001 on a scale of 0 to 1, for 25,000
proposals. The default sampler starts at samples of the flow. Written: pictures of what was missing,
where chains began and ended, means and progressions, a figure of log p(y_M; x_O) over the run,
and the numbers as JSON. With `--drawn N`, so many images that the flow drew (at temperature .7) are
completed, too, and pictures show these alone: not all images may be shown.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plmcmc import Given, NormalAuxiliary, calibrate, condition, load, methods
from plmcmc.adaptation import Warmup
from plmcmc.chains import FromObserved, Unconditional
from plmcmc.cli.sheet import write_sheet
from plmcmc.data import CentreSquare, Incomplete, RightHalf, load_images
from plmcmc.flows import Absolute, Preprocessed, full_precision, log_prob, sample
from plmcmc.posterior import ConvergenceWarning, Draws, StuckWarning
from plmcmc.rng import Streams

PERTURB, AUXILIARY = 0.01, 1e-3
# At which convergence is looked at.
PASSES = (5_000, 10_000, 20_000)
# States of the paper's chains that are kept, and those shown as a progression.
KEPT, SHOWN = 50, 9
# Temperature of the images that the flow draws itself.
DRAWN = 0.7


def main() -> None:
    arguments = _arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    flow = load(arguments.flow).to(arguments.device)
    levels = flow.chain[0].levels
    images = load_images(arguments.images)[arguments.skip :][: arguments.rows] // (256 // levels)
    images = np.concatenate([images.astype(np.float32), _drawn(flow, levels, arguments)])
    faces = arguments.task == "faces"
    observed = (RightHalf() if faces else CentreSquare(arguments.hole))(images)
    name = "faces" if faces else f"cifar-{arguments.hole}"
    print(f"{name}: {len(images)} images, {int((~observed[0]).sum())} values missing of each")
    found = {}
    if arguments.draws:
        found["default"] = _default(flow, images, observed, arguments)
    if arguments.proposals:
        found["paper"] = _paper(flow, images, observed, arguments, faces=faces)
    numbers = {way: own["numbers"] for way, own in found.items()}
    if len(found) == 2:
        numbers["log p at equal passes, default minus paper"] = _ahead(**found)
    if arguments.calibration:
        numbers["calibration"] = _calibrated(flow, observed, arguments)
    (arguments.output / f"{name}.json").write_text(json.dumps(numbers, indent=1) + "\n")
    shown = slice(-arguments.drawn if arguments.drawn else None, None)
    _pictures(found, images, observed, levels, arguments.output / name, shown)
    _figure(found, arguments.output / f"{name}-trace.png")


@torch.no_grad()
def _drawn(flow: Any, levels: int, options: Any) -> np.ndarray:
    """Return images that the flow drew, as integers."""
    source = torch.Generator(options.device).manual_seed(options.seed)
    drawn = sample(flow, max(1, options.drawn), source, temperature=DRAWN)
    return drawn[: options.drawn].cpu().numpy().round().clip(0, levels - 1)


def _ahead(default: dict, paper: dict) -> list[float]:
    """Return how far log p of the default's last states is above those of the paper's chains."""
    spent = default["passes"][-1]
    at = max(0, int((paper["passes"] <= spent).sum()) - 1)
    gap = default["heights"][:, -1].mean(0) - paper["heights"][:, at].mean(0)
    print(json.dumps({f"log p at {spent:.0f} passes, default minus paper": gap.tolist()}))
    return gap.round(1).tolist()


def _default(flow: Any, images: np.ndarray, observed: np.ndarray, options: Any) -> dict:
    posterior = condition(flow, images, observed)
    began = time.perf_counter()
    draws = _quiet(posterior.sample)(
        options.draws,
        chains=options.chains,
        warmup=options.warmup,
        method=methods.Pullback(Warmup(**_settings(options.tuning))),
        random_state=options.seed,
    )
    return _measured("default", flow, draws, images, observed, began)


def _settings(given: dict) -> dict:
    """Return settings as a Warmup takes them: JSON has lists where it wants tuples."""
    return {name: tuple(own) if isinstance(own, list) else own for name, own in given.items()}


def _paper(
    flow: Any, images: np.ndarray, observed: np.ndarray, options: Any, *, faces: bool
) -> dict:
    charted = flow if faces else Preprocessed(list(flow.chain), Absolute(flow.flow)).eval()
    start = Unconditional(options.start_temperature) if faces else FromObserved()
    data = Incomplete.of(images, observed, device=options.device)
    chains = options.paper_chains
    streams = Streams.of_rows(
        options.seed, "start", len(images), chains=chains, device=options.device
    )
    with torch.no_grad():
        first = start(charted, data.repeat(chains), streams)
    first = first.unflatten(0, (len(images), chains)).movedim(1, 0)
    method = methods.Metropolis(PERTURB, None, NormalAuxiliary(AUXILIARY * flow.chain[0].levels))
    began = time.perf_counter()
    draws = _quiet(condition(charted, images, observed).sample)(
        KEPT,
        thin=max(1, options.proposals // KEPT),
        warmup=0,
        chains=chains,
        method=method,
        start=Given(first.cpu().numpy()),
        random_state=options.seed,
    )
    return _measured("paper", flow, draws, images, observed, began) | {
        "initial": first[0].cpu().numpy()
    }


def _measured(
    way: str, flow: Any, draws: Draws, images: np.ndarray, observed: np.ndarray, began: float
) -> dict:
    """Return the numbers of some draws, and what pictures show of them."""
    seconds = time.perf_counter() - began
    rhat, heights = draws.rhat()[:, ~observed[0]], _heights(flow, draws.values)
    numbers = {
        "passes": draws.passes,
        "passes of the warm-up": draws.warmup_passes,
        "seconds": round(seconds, 1),
        "acceptance": round(float(draws.acceptance.mean()), 3),
        "share of values at R-hat 1.1 or less": round(float((rhat <= 1.1).mean()), 4),
        "the same within passes": {str(passes): _early(draws, passes) for passes in PASSES},
        "the same, image by image": (rhat <= 1.1).mean(1).round(3).tolist(),
        "R-hat, median and largest": [round(float(r), 3) for r in (np.median(rhat), rhat.max())],
        "log p, last states, by image": heights[:, -1].mean(0).round(1).tolist(),
        "error of the mean": round(_error(draws.mean(), images, observed), 2),
    }
    print(json.dumps({way: numbers}), flush=True)
    passes = _passes(draws)
    return {
        "numbers": numbers,
        "values": draws.values,
        "heights": heights,
        "passes": passes,
        "mean": draws.mean(),
    }


def _passes(draws: Draws) -> np.ndarray:
    """Return the passes that a chain had spent at each of its draws."""
    count = draws.values.shape[1]
    each = (draws.passes - draws.warmup_passes) / count
    return draws.warmup_passes + each * np.arange(1, count + 1)


def _early(draws: Draws, passes: int) -> float:
    """Return the share of values at R-hat 1.1 or less within so many passes."""
    kept = int((_passes(draws) <= passes).sum())
    if kept < 4:
        return 0.0
    rhat = replace(draws, values=draws.values[:, :kept]).rhat()[~draws.observed]
    return round(float((rhat <= 1.1).mean()), 4)


def _calibrated(flow: Any, observed: np.ndarray, options: Any) -> dict:
    """Return whether the default sampler draws from the flow's own conditionals."""

    def hidden(x: np.ndarray, *_: Any) -> np.ndarray:
        return np.broadcast_to(observed[0], x.shape)

    report = calibrate(flow, hidden, options.calibration, 14, thin=20, random_state=options.seed)
    print(report, flush=True)
    return {"rows": options.calibration, "passed": bool(report.passed), "report": str(report)}


def _quiet(sample: Any) -> Any:
    """Let a sampler say nothing of convergence: that is what is measured here."""

    def quietly(*args: Any, **options: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", StuckWarning)
            return sample(*args, **options)

    return quietly


@torch.no_grad()
def _heights(flow: Any, values: np.ndarray) -> np.ndarray:
    """Return log p(y_M; x_O) of completions `(chains, draws, rows, ...)`."""
    flat = torch.as_tensor(values).flatten(0, 2).split(256)
    device = next(flow.parameters()).device
    with full_precision():
        found = torch.cat([log_prob(flow, part.to(device)).cpu() for part in flat])
    return found.reshape(values.shape[:3]).numpy()


def _error(mean: np.ndarray, images: np.ndarray, observed: np.ndarray) -> float:
    return float(np.sqrt(np.mean((mean - images)[~observed] ** 2)))


def _pictures(
    found: dict, images: np.ndarray, observed: np.ndarray, levels: int, name: Path, rows: slice
) -> None:
    """Write the grid and both progressions of some images; an image takes a row."""
    columns = [images, np.where(observed, images, levels / 2)]
    if "paper" in found:
        columns += [found["paper"]["initial"], found["paper"]["values"][0, -1]]
    if "default" in found:
        columns += [*found["default"]["values"][:3, -1], found["default"]["mean"]]
    _grid([column[rows] for column in columns], levels, name.with_name(f"{name.name}.png"))
    for way, own in found.items():
        steps = np.linspace(0, own["values"].shape[1] - 1, SHOWN).round().astype(int)
        first = [own["initial"]] if "initial" in own else []
        shown = [*first, *(own["values"][0, step] for step in steps)]
        _grid([column[rows] for column in shown], levels, name.with_name(f"{name.name}-{way}.png"))


def _grid(columns: list[np.ndarray], levels: int, path: Path) -> None:
    rows = np.stack(columns, 1)
    write_sheet(path, rows.reshape(-1, *rows.shape[2:]), levels, across=len(columns))


def _figure(found: dict, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for way, colour in (("paper", "C1"), ("default", "C0")):
        if way not in found:
            continue
        own = found[way]
        for number, line in enumerate(own["heights"].mean(0).T):
            label = way if number == 0 else None
            axes.plot(own["passes"], line, color=colour, alpha=0.5, lw=0.8, label=label)
    axes.set(xlabel="flow passes of a chain, warm-up included", xscale="log")
    axes.set(ylabel="log p(y_M; x_O), mean of chains")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("task", choices=("cifar", "faces"))
    add("--flow", required=True, help="directory that plmcmc fit-flow wrote")
    add("--images", required=True)
    add("--skip", type=int, default=0, help="images to leave out at the beginning")
    add("--rows", type=int, default=16, help="images to complete")
    add("--hole", type=int, default=8)
    add("--drawn", type=int, default=0, help="images to draw from the flow, complete and show")
    add("--chains", type=int, default=4)
    add("--paper-chains", type=int, default=1, help="of the paper's kernel (%(default)s)")
    add("--draws", type=int, default=100, help="of the default; 0 leaves it out")
    add("--warmup", type=int, help="trajectories that the default tunes for")
    add("--tuning", type=json.loads, default={}, help="settings of a Warmup, as JSON")
    add(
        "--start-temperature",
        type=float,
        default=0.5,
        help="of samples that the paper's chains of faces start at (%(default)s, the paper's; the "
        "default sampler's start at 1)",
    )
    add("--proposals", type=int, default=25_000, help="of the paper's kernel; 0 leaves it out")
    add("--calibration", type=int, default=0, help="images drawn from the flow to calibrate on")
    add("--device", default="cpu")
    add("--seed", type=int, default=0)
    add("-o", "--output", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
