"""What a metric is worth: the default sampler beside Hamiltonian moves without one.

    python benchmarks/metric.py --data DIR/mnist --width 256 --epochs 12

Trains a NICE on smoothed digits, hides 60% of the pixels of some test digits (at random, then in
patches), and draws by both: passes, seconds, R-hat, and effective draws a second, tuning included.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from plmcmc import fit_flow
from plmcmc.adaptation import Warmup
from plmcmc.data import Incomplete, Independent, Patch, load_images, observed_moments
from plmcmc.flows import NICE, Preprocessed, Whiten
from plmcmc.posterior import condition
from plmcmc.posterior.methods import DataHamiltonian, Pullback

RATE, FLOOR, NOISE = 0.6, 0.05, 0.1
METHODS: dict[str, dict[str, Any]] = {
    "default": {"method": Pullback()},
    "default, tuned for half as long": {
        "method": Pullback(Warmup(windows=(10,), stretches=(15,))),
    },
    "data-hmc": {"method": DataHamiltonian(turns=12), "warmup": 120, "thin": 2},
}


def main() -> None:
    arguments = _arguments()
    flow = _trained(arguments)
    digits = _digits(arguments.data / "t10k-images-idx3-ubyte.gz")[: arguments.digits]
    for hide in (Independent(RATE), Patch(RATE)):
        observed = hide(digits, 0).reshape(len(digits), -1)
        print(f"{hide}: {int((~observed).sum(1).mean())} of {observed.shape[1]} pixels missing")
        for name, options in METHODS.items():
            print(_measured(name, flow, digits, observed, options, arguments), flush=True)


def _measured(
    name: str, flow: Any, digits: Any, observed: Any, options: dict[str, Any], arguments: Any
) -> str:
    began = time.perf_counter()
    with warnings.catch_warnings():
        # Convergence is told below.
        warnings.simplefilter("ignore")
        draws = condition(flow, digits.reshape(len(digits), -1), observed).sample(
            arguments.draws, chains=arguments.chains, random_state=0, **options
        )
    seconds = time.perf_counter() - began
    rhat, ess = draws.rhat()[~observed], draws.ess()[~observed]
    return (
        f"  {name}: {draws.passes:,} passes of a chain, {seconds:.1f} s; R-hat 1.1 or less "
        f"{(rhat <= 1.1).mean():.3f}, median {np.median(rhat):.3f}, largest {rhat.max():.3f}; "
        f"ESS of the median pixel {np.median(ess):.0f}, a second {np.median(ess) / seconds:.1f}"
    )


def _trained(arguments: argparse.Namespace) -> Preprocessed:
    digits = _digits(arguments.data / "train-images-idx3-ubyte.gz")
    rows = digits.reshape(len(digits), -1)
    moments = observed_moments(Incomplete.of(rows), floor=FLOOR)
    options = {"couplings": 4, "depth": 5, "width": arguments.width, "latent": "logistic"}
    flow = Preprocessed([Whiten(*moments)], NICE(rows.shape[1], random_state=0, **options))
    began = time.perf_counter()
    fit_flow(
        flow.to(arguments.device),
        rows,
        epochs=arguments.epochs,
        batch_size=500,
        noise=NOISE,
        random_state=0,
        progress=False,
    )
    print(f"trained in {time.perf_counter() - began:.0f} s")
    return flow.eval()


def _digits(path: Path) -> Any:
    return (load_images(path)[..., 0] / 255).astype(np.float32)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="directory of MNIST's IDX files")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--width", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--digits", type=int, default=12)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--draws", type=int, default=40)
    return parser.parse_args()


if __name__ == "__main__":
    main()
