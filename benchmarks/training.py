"""Training of the paper's NICE: steps a second, and what one cell of its Table 1 takes.

    python benchmarks/training.py --device cuda --digits train-images-idx3-ubyte.gz
    python benchmarks/training.py --width 60 --rows 2000

Steps of 200 rows: launched one by one in float32 by torch's plain optimizer (what a straightforward
port does), as `fit_flow` (AdamW, clipped) and the paper (RMSprop) train, in each precision,
compiled or not; and, in the same run, the limit: the bfloat16 matrix products of a step alone. With
`--digits`: Monte Carlo EM at the paper's settings (60,000 digits, 60% missing): an epoch and an
E-step of 2,000 proposals are timed, and a cell (1,000 epochs, 19 E-steps) is worked out from them.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import torch
from torch.optim import RMSprop

from plmcmc import NICE
from plmcmc.data import Independent, load_images
from plmcmc.flows import log_prob, record, rehearse
from plmcmc.flows.passes.lowered import PRECISIONS
from plmcmc.training import MonteCarloEM, paper_mnist
from plmcmc.training.ascent import Ascent
from plmcmc.training.maximise import maximise
from plmcmc.training.optimizers import optimizer_of

PIXELS, BATCH, WIDE = 784, 200, 128
EPOCHS, E_STEPS = 1000, 19
# Steps of a profile.
PROFILED = 30


def main() -> None:
    arguments = _arguments()
    source = torch.Generator(arguments.device).manual_seed(0)
    x = torch.randn(arguments.rows, PIXELS, generator=source, device=arguments.device)
    limit, naive = 1 / _products(arguments), _naive(x, arguments)
    print(f"bfloat16 products alone: {limit:,.0f} steps/s")
    print(f"float32, one by one, RMSprop: {naive:,.0f} steps/s, {naive / limit:.3f} of the limit")
    for name, options in (("adamw", {"clip": 10.0}), ("rmsprop", {"momentum": 0.9})):
        for precision, compiled in product(PRECISIONS, (False, True)):
            settings: dict[str, Any] = options | {"precision": precision, "compiled": compiled}
            found = _trained(name, x, source, arguments, **settings)
            words = f"{found / naive:.2f} times that, {found / limit:.3f} of the limit"
            also = ", compiled" if compiled else ""
            print(f"{name}, {precision}{also}: {found:,.0f} steps/s, {words}", flush=True)
    if arguments.profile:
        _profile(x, source, arguments)
    if arguments.digits is not None:
        _cell(arguments)


def _naive(x: torch.Tensor, arguments: argparse.Namespace) -> float:
    """Return steps a second of the plainest loop."""
    flow = _flow(arguments)
    optimizer = RMSprop(flow.parameters(), lr=1e-5, momentum=0.9)

    def work() -> None:
        for rows in x.split(BATCH):
            optimizer.zero_grad()
            loss = -log_prob(flow, rows).mean()
            loss.backward()
            optimizer.step()

    return len(x) / BATCH / _timed(work)


def _trained(
    name: str,
    x: torch.Tensor,
    source: torch.Generator,
    arguments: argparse.Namespace,
    *,
    precision: str,
    compiled: bool,
    clip: float | None = None,
    **options: Any,
) -> float:
    """Return steps a second of an epoch, as this package trains."""
    flow = _flow(arguments)
    optimizer = optimizer_of(name, list(flow.parameters()), 1e-5, **options)
    ascent = Ascent(flow, optimizer, clip=clip, precision=precision, compiled=compiled)
    seconds = _timed(lambda: maximise(ascent, x, batch_size=BATCH, generator=source))
    return len(x) / BATCH / seconds


def _profile(x: torch.Tensor, source: torch.Generator, arguments: argparse.Namespace) -> None:
    """Print the kernels of some compiled steps of RMSprop in bfloat16 by the time they take."""
    from torch.profiler import ProfilerActivity, profile

    flow = _flow(arguments)
    optimizer = optimizer_of("rmsprop", list(flow.parameters()), 1e-5, momentum=0.9)
    ascent = Ascent(flow, optimizer, precision="bfloat16", compiled=True)
    few = x[: PROFILED * BATCH]
    maximise(ascent, few, batch_size=BATCH, generator=source)
    cuda = torch.cuda.is_available()
    with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as found:
        maximise(ascent, few, batch_size=BATCH, generator=source)
        _wait()
    print(f"rmsprop, bfloat16, compiled, {PROFILED} steps:")
    order = "self_cuda_time_total" if cuda else "self_cpu_time_total"
    print(found.key_averages().table(order, row_limit=16, max_name_column_width=70))


def _products(arguments: argparse.Namespace) -> float:
    """Return the seconds of a step's products: ahead, and back for rows and for weights."""
    wide, half = -(-arguments.width // WIDE) * WIDE, PIXELS // 2
    sizes = [(half, wide)] + [(wide, wide)] * 4 + [(wide, half)]
    options = {"dtype": torch.bfloat16, "device": arguments.device}
    made = [
        (
            torch.randn(BATCH, a, **options),
            torch.randn(b, a, **options),
            torch.randn(BATCH, b, **options),
        )
        for a, b in sizes
    ]

    def work() -> tuple[()]:
        for _ in range(4):
            for x, weight, slope in made:
                _ = x @ weight.T, slope @ weight, slope.T @ x
        return ()

    if arguments.device == "cpu":
        return _timed(work)
    rehearse(work)
    replay = record(work)[1]
    return _timed(lambda: [replay() for _ in range(100)]) / 100


def _cell(arguments: argparse.Namespace) -> None:
    """Print the seconds of an epoch, of an E-step, and of a cell of Table 1."""
    digits = load_images(arguments.digits).reshape(-1, PIXELS).astype(np.float32)
    observed = Independent(0.6)(digits, 0)
    preset = paper_mnist()
    every = arguments.epochs
    settings = {"precision": arguments.precision, "compiled": arguments.compiled}
    schedule = replace(preset.schedule, every=every, **settings)

    def seconds(epochs: int) -> float:
        flow = preset.flow(0).to(arguments.device)
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            training = MonteCarloEM(replace(schedule, epochs=epochs))
            training.fit(flow, digits, observed, random_state=0)
        _wait()
        return time.perf_counter() - began

    # The first compiles what others find. E-steps come after every so many epochs, but not after
    # the last.
    seconds(1)
    one, few, more = seconds(1), seconds(every), seconds(every + 1)
    epoch = (few - one) / (every - 1)
    e_step = more - few - epoch
    whole = EPOCHS * epoch + E_STEPS * e_step
    words = f"an epoch {epoch:.3f} s, an E-step {e_step:.1f} s"
    print(f"{len(digits):,} digits, {arguments.precision}: {words}")
    print(f"a cell ({EPOCHS} epochs, {E_STEPS} E-steps): {whole / 60:.1f} minutes", flush=True)


def _flow(arguments: argparse.Namespace) -> NICE:
    flow = NICE(PIXELS, width=arguments.width, latent="logistic", random_state=0)
    return flow.to(arguments.device).train()


def _timed(work: Callable[[], object]) -> float:
    """Return the seconds of the second time."""
    work()
    _wait()
    began = time.perf_counter()
    work()
    _wait()
    return time.perf_counter() - began


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--width", type=int, default=1000, help="of the networks (%(default)s)")
    add("--rows", type=int, default=60_000, help="of an epoch that is timed (%(default)s)")
    add("--digits", help="an IDX file of digits, for Monte Carlo EM")
    add("--epochs", type=int, default=10, help="of Monte Carlo EM that are timed (%(default)s)")
    add("--precision", default="bfloat16", help="of Monte Carlo EM (%(default)s)")
    add("--compiled", action="store_true", help="compile its steps")
    add("--profile", action="store_true", help="show where the time goes")
    add("--device", default="cpu")
    return parser.parse_args()


if __name__ == "__main__":
    main()
