"""Kernels side by side on the paper's MNIST task: passes, R-hat, ESS per pass and per second.

    python benchmarks/efficiency.py --data DIR/mnist --device cuda

Trains the paper's NICE (4 couplings, 5x1000 ReLU, logistic latents, random partition) with noise,
on the 60,000 training digits, stopped by held-out likelihood; hides a checkerboard of 4x4 blocks of
test digits; runs every method from dispersed starts to the same number of flow passes per chain. A
gradient counts as two passes more, a forward-mode product as one. R-hat and ESS are
rank-normalised, over the draws after the warm-up; of methods that are not tuned, half is warm-up.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path

import numpy as np
import torch

from plmcmc.adaptation import Warmup
from plmcmc.chains import Unconditional
from plmcmc.data import Checkerboard, Incomplete, observed_moments
from plmcmc.flows import NICE, Dequantise, Flatten, Preprocessed, Whiten, log_prob
from plmcmc.posterior import METHODS, condition
from plmcmc.posterior.methods import Pullback
from plmcmc.rng import Streams
from plmcmc.training import fit_flow

STRETCHED = Pullback(Warmup(windows=(10, 15), stretches=(15, 15), acceptance=0.65))
CANDIDATES = METHODS | {
    "pullback, stretched": STRETCHED,
    "pullback, accept .65": Pullback(Warmup(acceptance=0.65)),
}


def main() -> None:
    arguments = _arguments()
    flow = trained(arguments)
    digits = images(arguments.data / "t10k-images-idx3-ubyte.gz")[: arguments.digits]
    observed = Checkerboard(4)(digits)
    print(f"test log-likelihood {score(flow, digits):.1f} nats a digit", flush=True)
    lines = []
    for name in arguments.methods:
        line = {"method": name} | measured(flow, digits, observed, name, arguments)
        lines.append(line)
        print(json.dumps(line), flush=True)
    if arguments.output:
        arguments.output.write_text("\n".join(json.dumps(line) for line in lines) + "\n")


def measured(flow, digits, observed, name, arguments) -> dict[str, float]:
    """Run one method to the budget and judge its chains."""
    chains, rows = arguments.chains, torch.arange(len(digits), device=arguments.device)
    batch = condition(flow, digits, observed).batch(rows, chains)
    options = {"chains": chains, "device": rows.device}
    streams = {p: Streams.of_rows(arguments.seed, p, len(rows), **options) for p in ("s", "w", "r")}
    began = time.perf_counter()
    values, heights, steps = [], [], 0
    with torch.no_grad():
        y = Unconditional()(batch.flow, batch.data, streams["s"])
        kernel, state, passes = CANDIDATES[name].begin(batch, y, None, streams["w"])
        warmup = passes or arguments.budget // 2
        while passes < arguments.budget:
            state, info = kernel.step(state, streams["r"])
            passes += info.passes
            steps += 1
            # Of cheap steps, a thousand draws are as good as ten thousand.
            if passes > warmup and (info.passes > 4 or steps % 4 == 0):
                values.append(state.completion[~batch.data.observed].cpu())
                # A target's own density has an auxiliary or a slope in it: not this one.
                heights.append(log_prob(batch.flow, state.completion))
    seconds = time.perf_counter() - began
    count = int((~batch.data.observed[0]).sum())
    found = torch.stack(values).reshape(len(values), len(rows), chains, count).movedim(2, 0)
    judged = judge(found.to(rows.device).flatten(2), torch.stack(heights), len(rows), chains)
    drawn = passes - warmup
    return judged | {
        "passes": f"{warmup}+{drawn}",
        "ess per 1000 passes, median": round(judged["ess, median"] / chains / drawn * 1000, 2),
        "ess per 1000 passes, least": round(judged["ess, least"] / chains / drawn * 1000, 2),
        "ess per second, median": round(judged["ess, median"] / seconds, 1),
        "mean log p": round(float(torch.stack(heights)[-1].mean()), 1),
        "seconds": round(seconds, 1),
    }


def judge(values, heights, rows, chains) -> dict[str, float]:
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
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="write JSON lines here")
    default = ["pullback", "pullback, stretched", "metropolis", "elliptical", "mala", "gibbs"]
    parser.add_argument("--methods", nargs="+", default=default)
    return parser.parse_args()


if __name__ == "__main__":
    main()
