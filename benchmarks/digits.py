"""All test digits of MNIST completed to convergence: seconds, passes and R-hat.

    plmcmc fit-flow train-images-idx3-ubyte.gz -o nice --flow nice --noise 0.1 --epochs 60 \\
      --batch-size 500 --learning-rate 3e-4 --precision tf32 --device cuda
    python benchmarks/digits.py --flow nice --images t10k-images-idx3-ubyte.gz --device cuda

Pixels are missing independently; every digit is sampled by a few chains of the default sampler.
Counted are the seconds of `sample`, in which R-hat of every missing pixel is worked out, too.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from typing import Any

import numpy as np
import torch

from plmcmc import condition, load
from plmcmc.data import Independent, load_images
from plmcmc.posterior import ConvergenceWarning


def main() -> None:
    options = _arguments()
    flow: Any = load(options.flow)
    flow = flow.to(options.device)
    images = load_images(options.images)[: options.rows].astype(np.float32)
    observed = Independent(options.missing)(images, options.seed)
    began = time.perf_counter()
    posterior = condition(flow, images, observed, precision=options.precision)
    with warnings.catch_warnings():
        # What it would say is what is measured here.
        warnings.simplefilter("ignore", ConvergenceWarning)
        draws = posterior.sample(options.draws, chains=options.chains, random_state=options.seed)
    seconds = time.perf_counter() - began
    rhat = draws.rhat()[~observed]
    found = {
        "digits": len(images),
        "missing pixels": int((~observed).sum()),
        "precision": options.precision,
        "seconds": round(seconds, 1),
        "passes of a chain": draws.passes,
        "of the warm-up": draws.warmup_passes,
        "acceptance": round(float(np.nanmean(draws.acceptance)), 3),
        "share of pixels at R-hat 1.1 or less": round(float((rhat <= 1.1).mean()), 4),
        "at 1.05 or less": round(float((rhat <= 1.05).mean()), 4),
        "R-hat, median and largest": [round(float(r), 3) for r in (np.median(rhat), rhat.max())],
    }
    if options.device != "cpu":
        found["gigabytes of the GPU"] = round(torch.cuda.max_memory_allocated() / 2**30, 1)
    print(json.dumps(found, indent=1))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--flow", required=True, help="directory that plmcmc fit-flow wrote")
    add("--images", required=True, help="an IDX file")
    add("--rows", type=int, default=10_000, help="digits to complete (%(default)s)")
    add("--missing", type=float, default=0.6, help="share of the pixels (%(default)s)")
    add("--chains", type=int, default=4)
    add("--draws", type=int, default=60, help="of each chain (%(default)s)")
    add("--precision", default="tf32", help="float32, tf32 or bfloat16 (%(default)s)")
    add("--device", default="cpu")
    add("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
