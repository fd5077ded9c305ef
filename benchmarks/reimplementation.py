"""plmcmc beside the public reimplementation of PL-MCMC: proposals a second, passes, ESS a second.

    python benchmarks/reimplementation.py --peer PEER
    python benchmarks/reimplementation.py --peer PEER --flow DIR --images test.npy --device cuda

PEER: a clone of vsimkus/variational-gibbs-inference.
One NICE (the paper's kind, trained on scikit-learn's 8x8 digits, or `--flow`), one checkerboard of
missing pixels, one set of dispersed starts. In the units that the flow itself sees (whitened),

- the peer: `sample_imputations` of its `cdi/trainers/plmcmc.py`, and of `plmcmc_orig.py`, which
  stays closer to the authors' code. Both are imported from the clone; nothing of it is kept here;
- plmcmc's Metropolis at the same settings: the paper's, which are the peer's own, too, and wider
  ones, at which chains move;
- plmcmc's default.

Passes are counted by wrapping the flow, proposals are timed in turns, so that a busy machine slows
all alike. ESS is of the draws after the warm-up (half of the proposals; of the default its tuning),
seconds are of all, warm-up included. ESS of chains that have not converged is an upper bound.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn

from plmcmc import (
    NICE,
    Given,
    NormalAuxiliary,
    condition,
    fit_flow,
    load,
    load_images,
    methods,
    statistics,
)
from plmcmc.chains import Unconditional
from plmcmc.cli import demo
from plmcmc.cli.demo.digits import PIXEL_FLOOR
from plmcmc.data import Checkerboard, Incomplete, observed_moments
from plmcmc.flows import Flatten, Flow, Preprocessed, Whiten, full_precision, log_prob
from plmcmc.posterior import ConvergenceWarning, StuckWarning
from plmcmc.rng import Streams


class Settings(NamedTuple):
    """Deviations of small steps, of fresh draws (half of the proposals each), of the auxiliary."""

    perturb: float
    resample: float
    auxiliary: float

    def __str__(self) -> str:
        perturb, resample, auxiliary = self
        return f"sigma_p {perturb:g}, sigma_r {resample:g}, sigma_a {auxiliary:g}"


PAPER = Settings(0.01, 1.0, 1e-3)
# The best of some pairs tried on the digits with plmcmc's Metropolis (sigma_a up to 3).
WIDE = Settings(0.4, 1.0, 3.0)
PEERS = {"peer": ("plmcmc", "PLMCMC"), "peer, orig": ("plmcmc_orig", "PLMCMC_orig")}
OURS, DEFAULT = "plmcmc, Metropolis", "plmcmc, default"
# Completions that are kept of a Metropolis chain.
KEPT = 500
# Timings of each sampler, of which the median is told; each of this share of the proposals.
REPEATS, SHARE = 5, 0.1
# Proposals of which passes are counted, and twice as many: the start's passes cancel.
COUNTED = 20
CONVERGED = 1.05


class Problem(NamedTuple):
    """Flat rows with holes in a flow's own units; starts `(chains, rows, columns)`."""

    flow: Any
    rows: Tensor
    observed: Tensor
    starts: Tensor

    @property
    def places(self) -> int:
        return self.starts.shape[0] * self.starts.shape[1]

    def on_cpu(self, wrap: Callable[[Any], Any]) -> Problem:
        tensors = (tensor.cpu() for tensor in self[1:])
        return Problem(wrap(copy.deepcopy(self.flow).cpu()), *tensors)


class Schedule(NamedTuple):
    """Proposals of a chain: `warmup` to throw away, then one of every `thin` is kept."""

    warmup: int
    draws: int
    thin: int

    @property
    def proposals(self) -> int:
        return self.warmup + self.draws * self.thin


class Run(NamedTuple):
    """Completed rows `(chains, draws, rows, columns)`."""

    values: np.ndarray
    seconds: float
    acceptance: float


Sampler = Callable[[Problem, Schedule], Run]


def main() -> None:
    arguments = _arguments()
    problem = posed(arguments)
    print_speed(problem, arguments)
    print_efficiency(problem, arguments)


# --- the problem ----------------------------------------------------------------------------


def posed(arguments) -> Problem:
    """Return a flow without its preprocessing, and rows of it with pixels hidden."""
    flow, images = loaded(arguments) if arguments.flow else trained(arguments.seed)
    flow = flow.to(arguments.device).requires_grad_(False).eval()
    images = images[: arguments.rows]
    rows = torch.as_tensor(images, device=arguments.device)
    for step in flow.chain:
        rows = step.to_latent(rows)[0]
    observed = torch.as_tensor(Checkerboard(arguments.block)(images)).reshape(rows.shape)
    data = Incomplete.of(rows.cpu(), observed, dtype=rows.dtype, device=arguments.device)
    options = {"chains": arguments.chains, "device": arguments.device}
    streams = Streams.of_rows(arguments.seed, "start", len(rows), **options)
    starts = Unconditional()(flow.flow, data.repeat(arguments.chains), streams)
    starts = starts.unflatten(0, (len(rows), arguments.chains)).movedim(1, 0).contiguous()
    print(
        f"{len(rows)} rows of {rows.shape[1]} values, {int((~observed[0]).sum())} missing, "
        f"{arguments.chains} chains a row; {rows.device}, {torch.get_num_threads()} threads\n",
        flush=True,
    )
    return Problem(flow.flow, rows, observed.to(rows.device), starts)


def trained(seed: int) -> tuple[Any, np.ndarray]:
    digits = demo.digits_of(seed)
    moments = observed_moments(Incomplete.of(digits.train), floor=PIXEL_FLOOR)
    nice = NICE(64, couplings=4, depth=2, width=128, latent="logistic", random_state=seed)
    flow = Preprocessed([Whiten(*moments), Flatten((8, 8))], nice)
    fitted = fit_flow(flow, digits.train, epochs=60, noise=0.2, random_state=seed)
    print(f"NICE on 8x8 digits: held out {max(fitted.held_out):.1f} nats a digit", flush=True)
    return fitted.flow, digits.test


def loaded(arguments) -> tuple[Any, np.ndarray]:
    flow, images = load(arguments.flow), load_images(arguments.images)
    shapes = [step.shape for step in getattr(flow, "chain", ()) if isinstance(step, Flatten)]
    # The peer takes flat rows only. Files of grey images may or may not have an axis for that.
    if not shapes or images.shape[1:] not in (shapes[0], (*shapes[0], 1)):
        raise SystemExit(f"{arguments.flow} is no flow of {images.shape[1:]} images made flat")
    return flow, images.reshape(-1, *shapes[0]).astype(np.float32)


# --- the samplers ---------------------------------------------------------------------------


class PeerFlow(NamedTuple):
    """A flow as the peer's `NormFlow` shows its own: log terms of the values' own precision."""

    flow: Flow

    def transform_to_noise_and_logabsdetJ(self, y: Tensor) -> tuple[Tensor, Tensor]:
        z, log_det = self.flow.to_latent(y)
        # A copy: the peer negates it in place, and a constant's rows may share their memory.
        return z, log_det.to(y.dtype, copy=True)

    def transform_from_noise_and_logabsdetJ(self, z: Tensor) -> tuple[Tensor, Tensor]:
        y, log_det = self.flow.to_data(z)
        return y, log_det.to(z.dtype)

    def log_prob(self, y: Tensor) -> Tensor:
        return log_prob(self.flow, y).to(y.dtype)


def peer(name: str, settings: Settings, arguments) -> Sampler:
    """Return a sampler of the clone."""
    sample_imputations = peer_class(arguments.peer, *PEERS[name]).sample_imputations
    # What the peer calls them: r_prob and r_std are probability and deviation of the fresh draws
    # (sigma_r), p_std of the small steps (sigma_p), q_std of the auxiliary (sigma_a; the orig has
    # 1e-3 written into it). perturb_std is noise on the observed values that the paper does not
    # have; 0 leaves it out. Its approximate_kernel is True unless told otherwise: a proposal is
    # corrected for the kernel that was picked, as here.
    options = {
        "r_prob": 0.5,
        "r_std": settings.resample,
        "p_std": settings.perturb,
        "q_std": settings.auxiliary,
        "perturb_std": 0.0,
    }

    def sample(problem: Problem, schedule: Schedule) -> Run:
        torch.manual_seed(arguments.seed)
        model, chains = SimpleNamespace(fa_model=PeerFlow(problem.flow)), len(problem.starts)
        observed = problem.observed.repeat(chains, 1)
        # X is the completion and Y the chain's own row; the peer writes to both.
        x = torch.where(observed, problem.rows.repeat(chains, 1), problem.starts.flatten(0, 1))
        batch = (x, x.clone(), observed, torch.arange(len(x)))
        kept, accepted, tried = [], 0.0, 0.0
        began = time.perf_counter()
        with full_precision():
            if schedule.warmup:
                sample_imputations(model, batch, schedule.warmup, **options)
            for _ in range(schedule.draws):
                counts = sample_imputations(model, batch, schedule.thin, **options)
                accepted, tried = accepted + counts[0], tried + counts[1]
                kept.append(x.cpu().clone())
        seconds = time.perf_counter() - began
        values = torch.stack(kept, 1).unflatten(0, problem.starts.shape[:2]).movedim(1, 2)
        return Run(values.numpy(), seconds, accepted / tried)

    return sample


def peer_class(directory: Path, module: str, name: str) -> Any:
    if not (directory / "cdi" / "trainers" / f"{module}.py").is_file():
        raise SystemExit(f"{directory} is no clone of vsimkus/variational-gibbs-inference")
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    # The trainer that the sampler is a method of needs PyTorch Lightning, data sets and other
    # models; the sampler itself needs nothing of it.
    base = ModuleType("cdi.trainers.complete_mle")
    vars(base)["CompleteMLE"] = object
    sys.modules[base.__name__] = base
    return getattr(importlib.import_module(f"cdi.trainers.{module}"), name)


def ours(settings: Settings, seed: int) -> Sampler:
    """Return plmcmc's Metropolis; its mixture picks either proposal half of the time."""
    auxiliary = NormalAuxiliary(settings.auxiliary)
    method = methods.Metropolis(settings.perturb, settings.resample, auxiliary)

    def sample(problem: Problem, schedule: Schedule) -> Run:
        options = {"warmup": schedule.warmup, "thin": schedule.thin, "method": method}
        return sampled(problem, schedule.draws, seed, **options)

    return sample


def sampled(problem: Problem, draws: int, seed: int, **options: Any) -> Run:
    posterior = condition(problem.flow, problem.rows.cpu(), problem.observed.cpu(), check=False)
    start, chains = Given(problem.starts), len(problem.starts)
    began = time.perf_counter()
    with warnings.catch_warnings():
        # Convergence is what is measured here.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", StuckWarning)
        found = posterior.sample(
            draws, chains=chains, start=start, random_state=seed, progress=False, **options
        )
    seconds = time.perf_counter() - began
    return Run(found.values, seconds, float(found.acceptance.mean()))


# --- proposals a second, and passes ---------------------------------------------------------


class Counted(nn.Module):
    """A flow that counts the rows that pass through it, either way."""

    def __init__(self, flow: Any) -> None:
        super().__init__()
        self.flow, self.passed = flow, 0

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.passed += len(x)
        return self.flow.to_latent(x)

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        self.passed += len(z)
        return self.flow.to_data(z)

    def latent_log_prob(self, z: Tensor) -> Tensor:
        return self.flow.latent_log_prob(z)

    def latent_sample(self, rows: int, generator: Generator) -> Tensor:
        return self.flow.latent_sample(rows, generator)


def print_speed(problem: Problem, arguments) -> None:
    """Time the samplers in turns, and count their passes."""
    samplers = {name: peer(name, PAPER, arguments) for name in PEERS}
    samplers |= {OURS: ours(PAPER, arguments.seed)}
    schedule = Schedule(0, 1, max(1, round(SHARE * arguments.proposals)))
    seconds: dict[str, list[float]] = {name: [] for name in samplers}
    for _ in range(REPEATS):
        for name, sampler in samplers.items():
            seconds[name].append(sampler(problem, schedule).seconds)
    first = np.array(seconds["peer"])
    print(f"{'':20}{'passes a proposal':>18}{'proposals/s':>13}{'times the peer':>16}{'range':>15}")
    for name, sampler in samplers.items():
        ratios = first / seconds[name]
        rate = problem.places * schedule.proposals / np.median(seconds[name])
        print(
            f"{name:20}{passes(problem, sampler):18.2f}{rate:13,.0f}{np.median(ratios):16.2f}"
            f"{f'{ratios.min():.2f} to {ratios.max():.2f}':>15}",
            flush=True,
        )
    print(f"(all chains together; {REPEATS} timings of {schedule.thin} proposals a chain)\n")


def passes(problem: Problem, sampler: Sampler) -> float:
    """Return passes per proposal, on the CPU: a GPU may replay passes that nobody counts."""
    counts = []
    for proposals in (COUNTED, 2 * COUNTED):
        counted = problem.on_cpu(Counted)
        sampler(counted, Schedule(0, 1, proposals))
        counts.append(counted.flow.passed)
    return (counts[1] - counts[0]) / (COUNTED * problem.places)


# --- ESS a second ---------------------------------------------------------------------------


def print_efficiency(problem: Problem, arguments) -> None:
    """Run each sampler once, and judge its draws of the missing values."""
    half = arguments.proposals // 2
    draws = min(KEPT, half)
    schedule = Schedule(half, draws, half // draws)
    print(
        f"{schedule.proposals:,} proposals a chain, the first {half:,} thrown away; the default: "
        f"{arguments.draws} draws a chain after its tuning\n"
        f"{'':20}{'seconds':>9}{'accepted':>10}{'ESS':>9}{'ESS/s':>10}{'times the peer':>16}"
        f"{'R-hat, median and largest':>28}"
    )
    default = sampled(problem, arguments.draws, arguments.seed)
    for settings in (PAPER, WIDE):
        print(settings, flush=True)
        theirs = worth(peer("peer", settings, arguments)(problem, schedule), problem)
        print_line("peer", theirs, theirs)
        found = ours(settings, arguments.seed)(problem, schedule)
        print_line(OURS, worth(found, problem), theirs)
        print_line(DEFAULT, worth(default, problem), theirs)
    print(
        f"(ESS: bulk, of all chains of a row together, median of the missing values. It is an "
        f"upper bound, marked <,\nwhere the median R-hat exceeds {CONVERGED}: of chains that "
        f"stand still it is about their number, {arguments.chains}.\nA ratio to such a bound is "
        f"marked >, one of two bounds is in brackets and says little)"
    )


class Worth(NamedTuple):
    """What a run's draws of the missing values are worth."""

    run: Run
    ess: float
    rhat: float
    largest_rhat: float

    @property
    def rate(self) -> float:
        return self.ess / self.run.seconds

    @property
    def bound(self) -> bool:
        return not self.rhat <= CONVERGED


def worth(run: Run, problem: Problem) -> Worth:
    holes = run.values[:, :, ~problem.observed.cpu().numpy()]
    rhat, ess = statistics.rhat(holes), statistics.ess(holes)
    return Worth(run, *(float(x) for x in (np.nanmedian(ess), np.nanmedian(rhat), np.nanmax(rhat))))


def print_line(name: str, own: Worth, theirs: Worth) -> None:
    mark, ratio = "<" if own.bound else "", f"{own.rate / theirs.rate:.4g}"
    if theirs.bound:
        ratio = f"({ratio})" if own.bound else f">{ratio}"
    print(
        f"{name:20}{own.run.seconds:9.1f}{own.run.acceptance:10.3f}{f'{mark}{own.ess:.1f}':>9}"
        f"{f'{mark}{own.rate:.3g}':>10}{ratio:>16}"
        f"{f'{own.rhat:.3f}, {own.largest_rhat:.3f}':>28}",
        flush=True,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--peer", type=Path, required=True, help="clone of vsimkus/variational-gibbs-inference")
    add("--flow", help="directory of a saved flow of flat images, instead of the digits'")
    add("--images", help="file of images for it, in the units it was trained on")
    add("--rows", type=int, default=16, help="images to complete")
    add("--block", type=int, default=4, help="side of the checkerboard's squares")
    add("--chains", type=int, default=8)
    add("--proposals", type=int, default=20_000, help="of each Metropolis chain")
    add("--draws", type=int, default=200, help="of each chain of the default")
    add("--device", default="cpu")
    add("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if bool(arguments.flow) != bool(arguments.images):
        parser.error("--flow and --images go together")
    return arguments


if __name__ == "__main__":
    main()
