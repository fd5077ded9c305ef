"""Metropolis-Hastings on the paper's NICE (784 pixels): proposals a second, and rounding's cost.

    python benchmarks/metropolis.py --device cuda
    python benchmarks/metropolis.py --device cuda --flow DIR
    python benchmarks/metropolis.py --device cuda --family realnvp
    python benchmarks/metropolis.py --chains 64 --width 100 --steps 20

The flow is the paper's (4 couplings, 5 x 1000 ReLU, logistic latents), with weights shaken off
zero, or a trained one. Half of the pixels is missing, one chain a row; the kernel perturbs or draws
anew, half of the time each. Timed: its steps launched one by one in float32 (what a straightforward
port does), and replayed whole in each precision; and, in the same run, the limit: the bfloat16
matrix products of two passes alone, hidden layers widened to 1024, replayed as well.

Rounding: a proposal is decoded, and its density is that of the encoding. `off` says how many rows
come back by more than 1e-4 from a round trip, `log p` how far log p of what was decoded is from
what the latents say: its mean, cut at 1, bounds the change of an acceptance probability.

Last, in bfloat16, `condition(...).sample(method=...)` itself: seconds of many proposals less those
of few, so that what is done once (compiling, starts, judging) does not count.

`--profile` prints where the time of the first number of chains goes, kernel by kernel (compiled
ones, with `--compiled`).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from plmcmc import NICE, RealNVP, condition, load, methods
from plmcmc.chains import CompiledSteps, Replayed
from plmcmc.data import Incomplete
from plmcmc.flows import Compiled, log_prob, lowered, record, rehearse, sample, while_sampling
from plmcmc.flows.passes.lowered import PRECISIONS
from plmcmc.kernels import Metropolis, Mixture, Perturb, Resample
from plmcmc.rng import Streams, blocks_of, rows_of_a_block
from plmcmc.target import NormalAuxiliary, ProjectedLatentTarget

PIXELS = 784
# Each with what its weights are shaken off zero by, and options: affine couplings as large as the
# paper's additive ones, shaken less, since they blow up where those only wander.
FAMILIES = {
    "nice": (NICE, 0.05, {}),
    "realnvp": (RealNVP, 0.02, {"depth": 5, "activation": "relu"}),
}
PERTURB, AUXILIARY = 0.01, 0.1
WARM = 10
# Times the steps, of proposals that a user asks for.
MANY = 20


@torch.no_grad()
def main() -> None:
    arguments = _arguments()
    flow = _flow(arguments)
    with while_sampling():
        for precision in PRECISIONS:
            _rounding(precision, flow, arguments)
        for chains in arguments.chains:
            _speed(flow, chains, arguments)
        if arguments.profile:
            for precision in ("float32", "bfloat16"):
                _profile(flow, precision, arguments)


def _speed(flow: Any, chains: int, arguments: argparse.Namespace) -> None:
    """Print proposals a second, beside those of the naive version and of the limit."""
    limit = chains / _products(chains, arguments)
    naive = chains / _seconds(flow, chains, arguments, replay=False)
    print(f"{chains:,} chains; bfloat16 products alone: {limit:,.0f} proposals/s")
    print(f"  float32, one by one: {naive:,.0f} proposals/s, {naive / limit:.3f} of the limit")
    for precision in PRECISIONS:
        own = lowered(flow, precision)
        found = chains / _seconds(own, chains, arguments, replay=True)
        words = f"{found / naive:.2f} times that, {found / limit:.3f} of the limit"
        print(f"  {precision}, replayed: {found:,.0f} proposals/s, {words}", flush=True)
        if arguments.compiled:
            found = chains / _seconds(Compiled(own), chains, arguments, replay=True)
            words = f"{found / naive:.2f} times that, {found / limit:.3f} of the limit"
            print(f"    compiled, too: {found:,.0f} proposals/s, {words}", flush=True)
    found = chains / _asked_for(flow, chains, arguments)
    words = f"{found / naive:.2f} times that, {found / limit:.3f} of the limit"
    print(f"  bfloat16, condition(...).sample: {found:,.0f} proposals/s, {words}", flush=True)


def _asked_for(flow: Any, chains: int, arguments: argparse.Namespace) -> float:
    """Return the seconds of one proposal of all chains, as a user asks for them."""
    source = torch.Generator(arguments.device).manual_seed(0)
    x = sample(flow, chains, source)
    observed = torch.rand(x.shape, generator=source, device=x.device) < 0.5
    options = {"precision": "bfloat16", "compiled": arguments.compiled, "check": False}
    posterior = condition(flow, x.cpu(), observed.cpu(), **options)
    method = methods.Metropolis(PERTURB, 1.0, NormalAuxiliary(AUXILIARY))

    def seconds(proposals: int) -> float:
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior.sample(
                2, chains=1, warmup=proposals - 2, method=method, random_state=0, progress=False
            )
        return time.perf_counter() - began

    few, many = arguments.steps, MANY * arguments.steps
    seconds(few)
    return (seconds(many) - seconds(few)) / (many - few)


def _seconds(flow: Any, chains: int, arguments: argparse.Namespace, *, replay: bool) -> float:
    """Return the seconds of one step of all chains."""
    return _timed(_stepping(flow, chains, arguments, replay=replay), arguments.steps)


def _profile(flow: Any, precision: str, arguments: argparse.Namespace) -> None:
    """Print the kernels of replayed steps by the time they take."""
    from torch.profiler import ProfilerActivity, profile

    own = lowered(flow, precision)
    own = Compiled(own) if arguments.compiled else own
    step = _stepping(own, arguments.chains[0], arguments, replay=True)
    _timed(step, 1)
    device = ProfilerActivity.CUDA if torch.cuda.is_available() else ProfilerActivity.CPU
    with profile(activities=[device]) as found:
        _timed(step, 10)
    print(f"{precision}, 20 steps:")
    order = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    print(found.key_averages().table(order, row_limit=16, max_name_column_width=70))


def _stepping(
    flow: Any, chains: int, arguments: argparse.Namespace, *, replay: bool
) -> Callable[[], None]:
    """Return what steps all chains once."""
    source = torch.Generator(arguments.device).manual_seed(0)
    x = sample(flow, chains, source)
    observed = torch.rand(x.shape, generator=source, device=x.device) < 0.5
    target = ProjectedLatentTarget(flow, Incomplete(x, observed), NormalAuxiliary(AUXILIARY))
    kernel: Any = Metropolis(target, Mixture((Perturb(PERTURB), Resample(1.0)), (0.5, 0.5)))
    state = kernel.init(x)
    streams = Streams.of_blocks(
        0, "steps", blocks_of(chains, rows_of_a_block(x.device, 8 * PIXELS)), device=x.device
    )
    stepper = CompiledSteps(kernel) if isinstance(flow, Compiled) else kernel
    stepper = Replayed(stepper) if replay and x.is_cuda else stepper

    def step() -> None:
        nonlocal state
        state, _ = stepper.step(state, streams)

    return step


def _products(chains: int, arguments: argparse.Namespace) -> float:
    """Return the seconds of the matrix products of two passes."""
    wide = -(-arguments.width // 128) * 128
    sizes = [(PIXELS // 2, wide)] + [(wide, wide)] * 4 + [(wide, PIXELS // 2)]
    options = {"dtype": torch.bfloat16, "device": arguments.device}
    pairs = [
        (torch.randn(chains, before, **options), torch.randn(before, after, **options))
        for before, after in sizes
    ]

    def work() -> tuple[()]:
        for _ in range(8):
            for x, weight in pairs:
                torch.matmul(x, weight)
        return ()

    if arguments.device == "cpu":
        return _timed(work, arguments.steps)
    rehearse(work)
    return _timed(record(work)[1], arguments.steps)


def _timed(work: Callable[[], object], steps: int) -> float:
    for _ in range(WARM):
        work()
    _wait()
    began = time.perf_counter()
    for _ in range(steps):
        work()
    _wait()
    return (time.perf_counter() - began) / steps


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _rounding(precision: str, flow: Any, arguments: argparse.Namespace) -> None:
    own = lowered(flow, precision)
    source = torch.Generator(arguments.device).manual_seed(0)
    z = own.latent_sample(min(2000, max(arguments.chains)), source)
    x, log_det = own.to_data(z)
    back = (own.to_latent(x)[0] - z).abs().amax(1)
    wrong = (log_prob(own, x) - own.latent_log_prob(z) + log_det).abs()
    share, bound = float((back > 1e-4).double().mean()), float(wrong.clamp(max=1).mean())
    _say(f"{precision}: off {share:.4f} of rows, {float(back.max()):.1e} at most", wrong, bound)


def _say(words: str, wrong: Tensor, bound: float) -> None:
    middle, worst = float(wrong.median()), float(wrong.max())
    print(f"{words}; log p {middle:.1e} (median), {worst:.1e} (largest); acceptance {bound:.1e}")


def _flow(arguments: argparse.Namespace) -> Any:
    if arguments.flow is not None:
        loaded: Any = load(arguments.flow)
        return getattr(loaded, "flow", loaded).to(arguments.device)
    family, shake, own = FAMILIES[arguments.family]
    flow = family(PIXELS, width=arguments.width, latent="logistic", random_state=0, **own)
    source = torch.Generator().manual_seed(0)
    for weight in flow.parameters():
        weight.add_(shake * torch.randn(weight.shape, generator=source))
    return flow.eval().to(arguments.device)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--flow", help="directory of a trained NICE of 784 pixels")
    add("--family", default="nice", choices=tuple(FAMILIES), help="without --flow (%(default)s)")
    add("--width", type=int, default=1000, help="of the networks, without --flow (%(default)s)")
    add("--chains", type=int, nargs="+", default=[10_000, 1_000])
    add("--steps", type=int, default=200, help="to time (%(default)s)")
    add("--compiled", action="store_true", help="time compiled steps, too")
    add("--profile", action="store_true", help="show where the time goes")
    add("--device", default="cpu")
    return parser.parse_args()


if __name__ == "__main__":
    main()
