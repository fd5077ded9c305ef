"""Kernels side by side on the paper's MNIST task: passes, R-hat, ESS per pass and per second.

    python benchmarks/efficiency.py --data DIR/mnist --device cuda --output DIR

Trains the paper's NICE (4 couplings, 5x1000 ReLU, logistic latents, random partition) with noise,
on the 60,000 training digits, stopped by held-out likelihood; hides a checkerboard of 4x4 blocks of
test digits; runs every method from dispersed starts to the same number of flow passes per chain. A
gradient counts as two passes more, a forward-mode product as one. R-hat and ESS are rank-
normalised, over the draws after the warm-up: of the pullback sampler its tuning, of others half of
the passes. Steps and passes are replayed on a GPU, as `sample` does; `--equal-seconds` gives every
method the seconds that the first took, instead of its passes: cheap steps come by the hundred
thousand then. A digit is stationary when the mean log-density of its chains comes within a standard
deviation of the pullback sampler's; the median digit's passes are told. Last, the default is
calibrated on 256 rows that the flow drew itself, half of the pixels missing at random.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from plmcmc.chains import Replayed, Unconditional
from plmcmc.data import Checkerboard, Incomplete, Independent, observed_moments
from plmcmc.diagnostics import calibrate
from plmcmc.flows import NICE, Captured, Dequantise, Flatten, Preprocessed, Whiten, log_prob
from plmcmc.posterior import METHODS
from plmcmc.posterior.methods import Pullback
from plmcmc.posterior.problem import problem_of
from plmcmc.rng import Streams
from plmcmc.training import fit_flow

BINS = 8
# Draws to keep of cheap steps.
KEPT = 1500
# Steps that are timed to say what seconds afford, after some that are not.
TIMED, FIRST = 200, 20


def main() -> None:
    arguments = _arguments()
    flow = trained(arguments)
    digits = images(arguments.data / "t10k-images-idx3-ubyte.gz")[: arguments.digits]
    observed = Checkerboard(4)(digits)
    print(f"test log-likelihood {score(flow, digits):.1f} nats a digit", flush=True)
    results, level = {}, None
    seconds = None
    for name in arguments.methods:
        results[name], trace = measured(flow, digits, observed, name, arguments, seconds)
        seconds = seconds or (results[name]["seconds"] if arguments.equal_seconds else None)
        level = level or trace.level()
        results[name] |= {"passes to stationarity": trace.arrival(level), "trace": trace.thinned()}
        shown = {key: value for key, value in results[name].items() if key != "trace"}
        print(json.dumps({"method": name} | shown), flush=True)
    if arguments.calibration_rows:
        results["calibration"] = calibrated(flow, arguments)
        print(json.dumps(results["calibration"]), flush=True)
    if arguments.output:
        (arguments.output / "efficiency.json").write_text(json.dumps(results, indent=1) + "\n")
        figure(results, arguments.output / "efficiency-mnist.png")


def figure(results: dict[str, Any], path: Path) -> None:
    """Draw how log-densities climb, and what a pass is worth."""
    from matplotlib.figure import Figure

    lines = {name: found for name, found in results.items() if "trace" in found}
    sheet = Figure(figsize=(10, 3.8), layout="constrained")
    climb, worth = sheet.subplots(1, 2, width_ratios=(3, 2))
    for name, found in lines.items():
        passes, heights = zip(*found["trace"], strict=True)
        climb.plot(passes, heights, label=name, linewidth=3 if name == "pullback" else 1.2)
    climb.set(xlabel="flow passes per chain", ylabel="mean log p(y_M; x_O)")
    climb.legend(fontsize=8)
    names = list(lines)[::-1]
    kept = [lines[name]["digits converged"].split("/") for name in names]
    colours = ["tab:blue" if int(good) else "lightgray" for good, _ in kept]
    bars = worth.barh(
        names, [lines[n]["ess per 1000 passes, median"] for n in names], color=colours
    )
    worth.bar_label(bars, fmt="%.3g", padding=2)
    worth.set(
        xscale="log", xlabel="ESS per chain per 1,000 passes, median pixel\n(grey: not converged)"
    )
    worth.margins(x=0.2)
    sheet.savefig(path, dpi=130)


class Trace(NamedTuple):
    """Log-densities `(times, digits, chains)` of a run, and the passes per chain by then."""

    passes: list[int]
    heights: Tensor
    warmup: int

    def level(self) -> tuple[Tensor, Tensor]:
        """Return mean and deviation of each digit's draws."""
        drawn = self.heights[torch.tensor(self.passes) > self.warmup].transpose(0, 1).flatten(1)
        return drawn.mean(1), drawn.std(1)

    def arrival(self, level: tuple[Tensor, Tensor]) -> int | None:
        """Return the passes after which the median digit's mean is within a deviation."""
        mean, spread = level
        there = (self.heights.mean(2) - mean).abs() <= spread
        first = torch.where(there.any(0), there.to(torch.uint8).argmax(0), len(there))
        median = int(first.median())
        return self.passes[median] if median < len(there) else None

    def thinned(self) -> list[tuple[int, float]]:
        """Return some fifty points of the mean over digits and chains."""
        every = max(1, len(self.passes) // 50)
        means = self.heights.mean((1, 2)).tolist()
        return list(zip(self.passes[::every], means[::every], strict=True))


def measured(flow, digits, observed, name, arguments, afforded) -> tuple[dict[str, Any], Trace]:
    """Run one method to the budget, or for the seconds afforded, and judge its chains."""
    chains, rows = arguments.chains, torch.arange(len(digits), device=arguments.device)
    batch = problem_of(flow, digits, observed).batch(rows, chains)
    options = {"chains": chains, "device": rows.device}
    streams = {p: Streams.of_rows(arguments.seed, p, len(rows), **options) for p in ("s", "w", "r")}
    method = METHODS[name]
    if rows.is_cuda:
        batch = batch._replace(flow=Captured(batch.flow))
    began = time.perf_counter()
    values, heights, times, steps = [], [], [], 0
    with torch.no_grad():
        y = Unconditional()(batch.flow, batch.data, streams["s"])
        kernel, state, passes = method.begin(batch, y, None, streams["w"])
        stepper = Replayed(kernel) if rows.is_cuda else kernel
        budget = arguments.budget
        if afforded is not None:
            state, rate, spent = paced(stepper, state, streams["r"])
            passes += spent
            budget = passes + int(rate * (afforded - (time.perf_counter() - began)))
        warmup = passes if isinstance(method, Pullback) else budget // 2
        last = 0
        # Within the budget: the next step may cost what the last did.
        while passes + last <= budget:
            state, info = stepper.step(state, streams["r"])
            last = info.passes
            passes += info.passes
            steps += 1
            # Of cheap steps, a thousand draws are as good as ten thousand.
            if info.passes <= 4 and steps % max(1, budget // (info.passes * 2 * KEPT)):
                continue
            # A target's own density has an auxiliary or a slope in it: not this one.
            heights.append(log_prob(batch.flow, state.completion))
            times.append(passes)
            if passes > warmup:
                values.append(state.completion[~batch.data.observed].cpu())
    seconds = time.perf_counter() - began
    count = int((~batch.data.observed[0]).sum())
    found = torch.stack(values).reshape(len(values), len(rows), chains, count).movedim(2, 0)
    trace = Trace(
        times, torch.stack(heights).reshape(len(heights), len(rows), chains).cpu(), warmup
    )
    drawn_heights = torch.stack(heights[-len(values) :])
    judged = judge(found.to(rows.device).flatten(2), drawn_heights, len(rows), chains)
    drawn = passes - warmup
    return judged | {
        "passes": f"{warmup}+{drawn}",
        "ess per 1000 passes, median": round(judged["ess, median"] / chains / drawn * 1000, 2),
        "ess per 1000 passes, least": round(judged["ess, least"] / chains / drawn * 1000, 2),
        "ess per second, median": round(judged["ess, median"] / seconds, 1),
        "mean log p": round(float(heights[-1].mean()), 1),
        "seconds": round(seconds, 1),
    }, trace


def paced(stepper, state, streams) -> tuple[Any, float, int]:
    """Take some steps; return where they led, passes a second, and passes that were spent."""
    spent = began = before = 0
    for done in range(FIRST + TIMED):
        if done == FIRST:
            wait()
            began, before = time.perf_counter(), spent
        state, info = stepper.step(state, streams)
        spent += info.passes
    wait()
    return state, (spent - before) / (time.perf_counter() - began), spent


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def calibrated(flow, arguments) -> dict[str, Any]:
    """Calibrate the default, and look at each bin of the pooled ranks, clustered by row."""
    began = time.perf_counter()
    rows = arguments.calibration_rows
    found = calibrate(flow, Independent(0.5), rows=rows, random_state=arguments.seed)
    bins = found.ranks["entries"] * BINS // (found.draws + 1)
    counts = np.zeros((rows, BINS))
    np.add.at(counts, (found.rows, bins), 1)
    total = counts.sum()
    share = counts.sum(0) / total
    # A row's surplus in a bin over what a flat histogram gives it.
    surplus = counts - counts.sum(1, keepdims=True) / BINS
    error = np.sqrt((surplus**2).sum(0)) / total
    if arguments.output:
        found.plot(arguments.output / "calibration-mnist.png")
    return {
        "passed": found.passed,
        "p-values": {name: round(value, 4) for name, value in found.p_values.items()},
        "pooled ranks": share.round(4).tolist(),
        "standard errors off": ((share - 1 / BINS) / error).round(2).tolist(),
        "seconds": round(time.perf_counter() - began, 1),
    }


def judge(values, heights, rows, chains) -> dict[str, Any]:
    """Summarise `(chains, draws, rows * holes)` and the log-densities `(draws, rows * chains)`."""
    scores = normal_scores(halved(values))
    middle = values.flatten(0, 1).median(0).values
    folded = normal_scores((halved(values) - middle).abs())
    rhat = torch.maximum(plain_rhat(scores), plain_rhat(folded)).reshape(rows, -1)
    ess = plain_ess(scores)
    height = heights.reshape(len(heights), rows, chains).movedim(2, 0)
    height_rhat = plain_rhat(normal_scores(halved(height)))
    good = (rhat <= 1.05).all(1) & (height_rhat <= 1.05)
    return {
        "rhat, median": round(float(rhat.median()), 3),
        "rhat, largest": round(float(rhat.max()), 3),
        "pixels over 1.05": int((rhat > 1.05).sum()),
        "rhat of log p": round(float(height_rhat.max()), 3),
        "digits converged": f"{int(good.sum())}/{rows}",
        "ess, median": float(ess.median()),
        "ess, least": float(ess.min()),
    }


# The same numbers as plmcmc.statistics, on the device: there are sixty million values.
def halved(values):
    half = values.shape[1] // 2
    return torch.cat([values[:, :half], values[:, -half:]])


def normal_scores(values):
    flat = values.double().flatten(0, 1)
    ranks = flat.argsort(0).argsort(0).double() + 1
    return torch.special.ndtri((ranks - 0.375) / (len(flat) + 0.25)).reshape(values.shape)


def plain_rhat(values):
    draws = values.shape[1]
    within = values.var(1).mean(0)
    return ((within * (draws - 1) / draws + values.mean(1).var(0)) / within).sqrt()


def plain_ess(values):
    """Geyer's initial monotone sequence."""
    chains, draws = values.shape[:2]
    centred = values - values.mean(1, keepdim=True)
    spectrum = torch.fft.rfft(centred, 2 * draws, dim=1)
    covariance = torch.fft.irfft(spectrum.abs().square(), 2 * draws, dim=1)[:, :draws] / draws
    within = (covariance[:, 0] * draws / (draws - 1)).mean(0)
    total = within * (draws - 1) / draws + values.mean(1).var(0)
    rho = 1 - (within - covariance.mean(0) * draws / (draws - 1)) / total
    rho[0] = 1.0
    pairs = rho[0 : draws // 2 * 2 : 2] + rho[1 : draws // 2 * 2 : 2]
    pairs = torch.where((pairs < 0).cumsum(0) > 0, 0.0, pairs)
    time = -1 + 2 * torch.cummin(pairs, 0).values.sum(0)
    return chains * draws / time.clamp(min=1 / np.log10(chains * draws))


def trained(arguments):
    digits = images(arguments.data / "train-images-idx3-ubyte.gz")
    moments = observed_moments(Incomplete.of((digits + 0.5) / 256), floor=0.03)
    nice = NICE(784, couplings=4, depth=5, width=1000, latent="logistic", random_state=0)
    flow = Preprocessed([Dequantise(256), Whiten(*moments), Flatten((28, 28))], nice)
    began = time.perf_counter()
    fitted = fit_flow(
        flow.to(arguments.device),
        digits,
        epochs=arguments.epochs,
        batch_size=500,
        learning_rate=3e-4,
        weight_decay=0.01,
        noise=0.1,
        patience=10,
        random_state=0,
    )
    print(
        f"trained {len(fitted.train)} epochs in {time.perf_counter() - began:.0f} s; held out "
        f"{max(fitted.held_out):.1f} nats a digit",
        flush=True,
    )
    return flow


def images(path: Path) -> np.ndarray:
    content = gzip.decompress(path.read_bytes())
    return np.frombuffer(content, np.uint8, offset=16).reshape(-1, 28, 28).astype(np.float32)


def score(flow, digits) -> float:
    with torch.no_grad():
        return float(log_prob(flow, torch.as_tensor(digits).to(flow.flow.log_scale.device)).mean())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="directory of MNIST's IDX files")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--digits", type=int, default=20)
    parser.add_argument("--chains", type=int, default=32)
    parser.add_argument("--budget", type=int, default=12_000, help="flow passes per chain")
    parser.add_argument("--equal-seconds", action="store_true", help="not passes: the first's")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calibration-rows", type=int, default=256, help="0 leaves it out")
    parser.add_argument("--output", type=Path, help="directory for the numbers and a figure")
    # The default first: it says what is stationary.
    default = [name for name in METHODS if name not in ("auto", "data-ula")]
    parser.add_argument("--methods", nargs="+", default=default)
    return parser.parse_args()


if __name__ == "__main__":
    main()
