"""plmcmc beside other exact samplers, on one small flow: ESS per pass and per second, R-hat, error.

    pip install mici blackjax
    python benchmarks/peers.py --task table
    python benchmarks/peers.py --task digits

Trains a RealNVP (smooth conditioners, normal latents, float64) on ten columns of scikit-learn's
breast cancer table or on its 8x8 digits, whitened; hides half of some held-out rows; and samples
the same conditionals with

- plmcmc: pullback HMC (the default), elliptical slice, the paper's Metropolis-Hastings at its own
  settings and tuned, latent HMC;
- mici: constrained HMC (no-U-turn) over latents on `{z: f(z)_O = x_O}`, whose density with
  respect to the manifold's area is `p0(z) |J_O J_O^T|^(-1/2)`;
- blackjax: NUTS with window adaptation, on the holes (`log p(y_M; x_O)`) with a diagonal and a
  dense mass matrix, and on the latents (the paper's target, auxiliary of scale `--auxiliary`)
  with a dense one: a diagonal one is several times slower there.

The peers compute with the same weights in JAX, compiled; compilation is not timed. All chains of
all methods begin at the same dispersed rows. One pass is one evaluation of the flow in either
direction for one chain; a gradient counts as two more, a forward-mode product as one. Warm-up is
counted apart. Errors are against long runs of two of the methods, pooled.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from plmcmc import statistics
from plmcmc.chains import Unconditional
from plmcmc.cli import demo
from plmcmc.data import Incomplete, observed_moments
from plmcmc.flows import RealNVP, log_prob
from plmcmc.posterior import METHODS, methods
from plmcmc.posterior.problem import problem_of
from plmcmc.rng import Streams
from plmcmc.training import fit_flow

DEFAULT = "plmcmc, default"
# Unconditional samples that plmcmc looks at once for a data set, before it tunes.
SURVEYED = 4096
# Kept draws of a chain at most; far more than gradient methods make of their budget.
KEPT = 10_000
KEYS = {"warmup": 1, "draws": 2}


class Problem(NamedTuple):
    """Rows with as many holes each, and a full row for every chain to begin at."""

    flow: RealNVP
    values: Tensor
    observed: Tensor
    starts: Tensor

    @property
    def holes(self) -> np.ndarray:
        """`(rows, holes)`, their columns."""
        return np.stack([np.flatnonzero(~row) for row in self.observed.numpy()])

    @property
    def seen(self) -> np.ndarray:
        """`(rows, columns - holes)`, the other columns."""
        return np.stack([np.flatnonzero(row) for row in self.observed.numpy()])

    @property
    def chains(self) -> int:
        return len(self.starts) // len(self.values)


class Cost(NamedTuple):
    passes: float
    seconds: float


class Run(NamedTuple):
    """Draws `(chains, draws, rows, holes)`, and what each chain cost."""

    values: np.ndarray
    warmup: Cost
    drawing: Cost
    note: str = ""


def main() -> None:
    arguments = _arguments()
    torch.set_default_dtype(torch.float64)
    problem = TASKS[arguments.task](arguments)
    check_jax_flow(problem)
    reference = Reference.of(problem, arguments)
    print(f"reference: its two halves differ by z {reference.apart:.2f} (rms)", flush=True)
    lines = []
    for name in arguments.methods or CANDIDATES:
        run = CANDIDATES[name](problem, arguments)
        lines.append({"task": arguments.task, "method": name} | judged(run, reference))
        print(json.dumps(lines[-1]), flush=True)
    if arguments.output:
        arguments.output.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    print(table(lines))


# --- the problems ---------------------------------------------------------------------------


def table_problem(arguments) -> Problem:
    from sklearn.datasets import load_breast_cancer

    # The ten means: radius, texture, perimeter, area, smoothness, ..., of 569 nuclei.
    x = torch.as_tensor(load_breast_cancer(return_X_y=True)[0][:, :10])
    order = np.random.default_rng(arguments.seed).permutation(len(x))
    train, test = x[order[arguments.rows :]], x[order[: arguments.rows]]
    mean, scale = observed_moments(Incomplete.of(train, dtype=train.dtype))
    flow = RealNVP(10, couplings=6, depth=2, width=48, random_state=arguments.seed)
    fitted = fit_flow(
        flow, (train - mean) / scale, epochs=300, noise=0.1, random_state=arguments.seed
    )
    return posed(fitted.flow, (test - mean) / scale, fitted.held_out, arguments)


def digits_problem(arguments) -> Problem:
    digits = demo.digits_of(arguments.seed)
    # The demo trains in float32; the inner flow's units are whitened pixels.
    torch.set_default_dtype(torch.float32)
    fitted = demo.trained_flow(digits.train, arguments.seed)
    torch.set_default_dtype(torch.float64)
    flow = fitted.flow.double()
    rows = torch.as_tensor(digits.test[: arguments.rows]).double()
    for step in flow.chain:
        rows = step.to_latent(rows)[0]
    return posed(flow.flow, rows, fitted.held_out, arguments)


def posed(flow: RealNVP, rows: Tensor, held_out: list[float], arguments) -> Problem:
    """Hide half of every row, other columns in each, and choose the starts."""
    flow = flow.requires_grad_(False)
    ranks = torch.as_tensor(np.random.default_rng(arguments.seed + 1).random(rows.shape))
    observed = ranks.argsort(1).argsort(1) >= rows.shape[1] // 2
    data = Incomplete.of(rows, observed, dtype=rows.dtype).repeat(arguments.chains)
    streams = Streams.of_rows(arguments.seed, "start", len(rows), chains=arguments.chains)
    starts = Unconditional()(flow, data, streams)
    print(
        f"{arguments.task}: {len(rows)} rows of {rows.shape[1]} columns, "
        f"{rows.shape[1] // 2} missing, {arguments.chains} chains; "
        f"held-out log-likelihood {max(held_out):.2f} nats",
        flush=True,
    )
    return Problem(flow, rows, observed, data.project(starts))


TASKS: dict[str, Callable[..., Problem]] = {"table": table_problem, "digits": digits_problem}


# --- plmcmc ---------------------------------------------------------------------------------


def run_plmcmc(problem, arguments, *, method, seed=0, times=1) -> Run:
    """Run a method for `--budget` passes per chain, after its own warm-up or half as many."""
    rows, chains = torch.arange(len(problem.values)), problem.chains
    streams = {p: Streams.of_rows(seed, p, len(rows), chains=chains) for p in ("w", "r")}
    batch = problem_of(problem.flow, problem.values, problem.observed).batch(rows, chains)
    with torch.no_grad():
        began = time.perf_counter()
        kernel, state, spent = method.begin(batch, problem.starts, None, streams["w"])
        if spent:
            spent += SURVEYED / len(problem.starts)
        if method.burn_in(None, 1):
            state, _, burnt = stepped(kernel, state, streams["r"], arguments.budget / 2)
            spent += burnt
        warmup = Cost(spent, time.perf_counter() - began)
        began = time.perf_counter()
        _, kept, spent = stepped(kernel, state, streams["r"], times * arguments.budget)
        drawing = Cost(spent, time.perf_counter() - began)
    kept = kept[:: -(-len(kept) // (times * KEPT))]
    values = torch.stack(kept)[:, ~batch.data.observed]
    values = values.reshape(len(kept), len(rows), chains, -1).permute(2, 0, 1, 3)
    return Run(values.numpy(), warmup, drawing)


def stepped(kernel, state, streams, budget) -> tuple[Any, list[Tensor], int]:
    kept, spent = [], 0
    while spent < budget:
        state, info = kernel.step(state, streams)
        spent += info.passes
        kept.append(state.completion)
    return state, kept, spent


# --- the same flow in JAX -------------------------------------------------------------------


def peer(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SystemExit(f"{name} is missing: pip install mici blackjax") from error


def jax_modules() -> tuple[Any, Any]:
    jax = peer("jax")
    jax.config.update("jax_enable_x64", True)
    return jax, peer("jax.numpy")


class JaxFlow:
    """A RealNVP's weights as pure functions of one row."""

    def __init__(self, flow: Any) -> None:
        self.jax, self.jnp = jax_modules()
        self.silu, self.bound = self.jax.nn.silu, flow.bound
        self.orders = flow.orders.numpy()
        self.sizes = [flow.halves[index % 2] for index in range(len(self.orders))]
        self.layers = [
            [(m.weight.numpy(), m.bias.numpy()) for m in net if hasattr(m, "weight")]
            for net in flow.conditioners
        ]
        self.shift, self.log_scale = flow.shift.numpy(), flow.log_scale.numpy()

    def encode(self, x) -> tuple[Any, Any]:
        log_det = self.log_scale.sum()
        for index, order in enumerate(self.orders):
            fixed, moved = self.jnp.split(x[order], [self.sizes[index]])
            shift, log_scale = self._affine(index, fixed)
            x = self._restored(order, fixed, (moved + shift) * self.jnp.exp(log_scale))
            log_det = log_det + log_scale.sum()
        return (x + self.shift) * np.exp(self.log_scale), log_det

    def decode(self, z) -> tuple[Any, Any]:
        log_det = -self.log_scale.sum()
        x = z * np.exp(-self.log_scale) - self.shift
        for index in reversed(range(len(self.orders))):
            order = self.orders[index]
            fixed, moved = self.jnp.split(x[order], [self.sizes[index]])
            shift, log_scale = self._affine(index, fixed)
            x = self._restored(order, fixed, moved * self.jnp.exp(-log_scale) - shift)
            log_det = log_det - log_scale.sum()
        return x, log_det

    def log_prob(self, x) -> Any:
        z, log_det = self.encode(x)
        return log_det - 0.5 * (z @ z + len(z) * np.log(2 * np.pi))

    def _affine(self, index, hidden) -> tuple[Any, Any]:
        *inner, (weight, bias) = self.layers[index]
        for inner_weight, inner_bias in inner:
            hidden = self.silu(inner_weight @ hidden + inner_bias)
        shift, raw = self.jnp.split(weight @ hidden + bias, 2)
        return shift, self.bound * self.jnp.tanh(raw / self.bound)

    def _restored(self, order, fixed, moved) -> Any:
        return self.jnp.concatenate((fixed, moved))[np.argsort(order)]


def check_jax_flow(problem: Problem) -> None:
    """Refuse to compare samplers of two different flows."""
    flow = JaxFlow(problem.flow)
    starts = problem.starts.numpy()
    ours = log_prob(problem.flow, problem.starts).numpy()
    theirs = flow.jax.vmap(flow.log_prob)(starts)
    back = flow.jax.vmap(lambda x: flow.decode(flow.encode(x)[0])[0])(starts)
    worst = max(np.abs(ours - theirs).max(), np.abs(back - starts).max())
    if not worst < 1e-6:
        raise SystemExit(f"the flow in JAX differs from the one in torch by {worst:.2g}")
    print(f"the flow in JAX agrees with torch's to {worst:.1g}", flush=True)


# --- mici -----------------------------------------------------------------------------------


class Constraint:
    """`f(z)_O - x_O` of one row with its derivatives, counting passes."""

    def __init__(self, flow: JaxFlow, functions: dict[str, Any], seen, values) -> None:
        self.functions, self.seen, self.values = functions, seen, values
        self.columns, self.passes = flow.orders.shape[1], 0

    def __deepcopy__(self, memo) -> Constraint:
        """Stay one: mici copies its system for every chain, and the count is of all."""
        return self

    @staticmethod
    def compiled(flow: JaxFlow) -> dict[str, Any]:
        jax = flow.jax

        def off(z, seen, values):
            return flow.decode(z)[0][seen] - values

        def jacobian(z, seen, values):
            return jax.jacfwd(off)(z, seen, values), off(z, seen, values)

        def slope(z, seen, values, matrix):
            """The sum of `matrix` times the Jacobian, a forward product for each of its rows."""

            def product(row, tangent):
                return jax.jvp(lambda at: off(at, seen, values), (z,), (tangent,))[1][row]

            return jax.vmap(product)(np.arange(len(seen)), matrix).sum()

        found = {"off": off, "jacobian": jacobian, "hessian product": jax.grad(slope)}
        return {name: jax.jit(function) for name, function in found.items()}

    def off(self, z) -> np.ndarray:
        self.passes += 1
        return np.asarray(self.functions["off"](z, self.seen, self.values))

    def jacobian(self, z) -> tuple[np.ndarray, np.ndarray]:
        # By columns or by rows, whichever is cheaper: a forward product is 1, a backward one 2.
        self.passes += 1 + min(self.columns, 2 * len(self.seen))
        matrix, off = self.functions["jacobian"](z, self.seen, self.values)
        return np.asarray(matrix), np.asarray(off)

    def hessian_product(self, z) -> Callable[[np.ndarray], np.ndarray]:
        def product(matrix) -> np.ndarray:
            # A pass, a forward product for every constraint, and the gradient of all of them.
            self.passes += 3 * (1 + len(self.seen))
            found = self.functions["hessian product"](z, self.seen, self.values, matrix)
            return np.asarray(found)

        return product


def run_mici(problem, arguments) -> Run:
    """Constrained HMC: mici adds the Gram determinant, so the prior alone is handed to it."""
    flow = JaxFlow(problem.flow)
    functions = Constraint.compiled(flow)
    encode, decode = (flow.jax.jit(flow.jax.vmap(f)) for f in (flow.encode, flow.decode))
    # Latents of completed rows are on the manifold; mici has no way to get there.
    latents = np.asarray(encode(problem.starts.numpy())[0])
    latents = latents.reshape(len(problem.values), problem.chains, -1)
    values, costs = [], []
    for row, (seen, holes) in enumerate(zip(problem.seen, problem.holes, strict=True)):
        constraint = Constraint(flow, functions, seen, problem.values[row].numpy()[seen])
        drawn, cost = constrained_row(constraint, latents[row], arguments.seed + row, arguments)
        x = np.asarray(decode(drawn.reshape(-1, drawn.shape[-1]))[0])
        values.append(x[:, holes].reshape(*drawn.shape[:2], -1))
        costs.append(cost)
    # Passes of all rows and chains, by stage; seconds likewise.
    passes, seconds = np.sum(costs, 0).T
    warmup, drawing = map(Cost, passes / len(problem.starts), seconds)
    return Run(np.stack(values, 2), warmup, drawing)


def constrained_row(constraint: Constraint, latents, seed, arguments) -> tuple[Any, list[Cost]]:
    """Return a row's draws `(chains, draws, columns)`, and the costs of its warm-up and draws."""
    constraint.hessian_product(latents[0])(constraint.jacobian(latents[0])[0])
    constraint.off(latents[0])
    sampler = constrained_sampler(constraint, seed, arguments)
    options = {"display_progress": False, "trace_funcs": [lambda state: {"z": state.pos}]}
    # A call that keeps nothing is refused: the warm-up keeps one draw, which is left out.
    stages = [(arguments.mici_draws // 2, 1, {}), (0, arguments.mici_draws, {"adapters": []})]
    states, traces, costs = list(latents), {}, []
    for tuning, kept, adapters in stages:
        began, constraint.passes = time.perf_counter(), 0
        states, traces, _ = sampler.sample_chains(tuning, kept, states, **options, **adapters)
        costs.append(Cost(constraint.passes, time.perf_counter() - began))
    return np.stack(traces["z"]), costs


def constrained_sampler(constraint: Constraint, seed: int, arguments) -> Any:
    mici = peer("mici")
    system = mici.systems.GaussianDenseConstrainedEuclideanMetricSystem(
        # Relative to the standard normal: the latents' own density.
        neg_log_dens=lambda z: 0.0,
        grad_neg_log_dens=np.zeros_like,
        constr=constraint.off,
        jacob_constr=constraint.jacobian,
        mhp_constr=constraint.hessian_product,
    )
    integrator = mici.integrators.ConstrainedLeapfrogIntegrator(
        system, projection_solver=getattr(mici.solvers, arguments.mici_solver)
    )
    return mici.samplers.DynamicMultinomialHMC(
        system, integrator, np.random.default_rng(seed), max_tree_depth=7
    )


# --- blackjax -------------------------------------------------------------------------------


def run_nuts(problem, arguments, *, latent=False, dense=False, seed=0, times=1) -> Run:
    flow, blackjax = JaxFlow(problem.flow), peer("blackjax")
    jax, jnp, scale = flow.jax, flow.jnp, arguments.auxiliary

    def on_holes(position, row):
        return flow.log_prob(row["values"].at[row["holes"]].set(position))

    def on_latents(position, row):
        y, log_det = flow.decode(position)
        off = y[row["seen"]] - row["values"][row["seen"]]
        return on_holes(y[row["holes"]], row) + log_det - 0.5 * (off @ off) / scale**2

    density = on_latents if latent else on_holes

    def tune(key, position, row):
        adaptation = blackjax.window_adaptation(
            blackjax.nuts, partial(density, row=row), is_mass_matrix_diagonal=not dense
        )
        (state, tuned), info = adaptation.run(key, position, arguments.tune)
        return state, tuned, info.info.num_integration_steps.sum()

    def draw(key, state, tuned, row):
        kernel = blackjax.nuts(partial(density, row=row), **tuned)

        def one(state, key):
            state, info = kernel.step(key, state)
            return state, (state.position, info.num_integration_steps, info.is_divergent)

        return jax.lax.scan(one, state, jax.random.split(key, times * arguments.draws))[1]

    rows, chains = len(problem.values), problem.chains
    row = {"values": problem.values.numpy(), "seen": problem.seen, "holes": problem.holes}
    row = {key: jnp.repeat(jnp.asarray(value), chains, 0) for key, value in row.items()}
    starts = jnp.asarray(problem.starts.numpy())
    begin = flow.encode if latent else (lambda y, holes: y[holes])
    positions = jax.vmap(begin)(*((starts,) if latent else (starts, row["holes"])))
    keys = {
        name: jax.random.split(jax.random.key(1000 * seed + number), len(starts))
        for name, number in KEYS.items()
    }
    # The value and the gradient of one pass on the holes, of two on the latents.
    cost = 6 if latent else 3
    inputs = (keys["warmup"], positions[0] if latent else positions, row)
    (state, tuned, steps), seconds = timed(jax, tune, *inputs)
    warmup = Cost(cost * float(steps.mean()), seconds)
    (found, steps, divergent), seconds = timed(jax, draw, keys["draws"], state, tuned, row)
    drawing = Cost(cost * float(steps.sum(1).mean()), seconds)
    if latent:
        found = jax.vmap(jax.vmap(lambda z, at: flow.decode(z)[0][at], (0, None)))(
            found, row["holes"]
        )
    values = np.asarray(found).reshape(rows, chains, -1, len(problem.holes[0]))
    note = f"{int(divergent.sum())} divergent of {divergent.size}"
    return Run(values.transpose(1, 2, 0, 3), warmup, drawing, note)


def timed(jax, function, *inputs) -> tuple[Any, float]:
    """Compile for all chains at once, run, and return what came out and the seconds of the run."""
    compiled = jax.jit(jax.vmap(function)).lower(*inputs).compile()
    began = time.perf_counter()
    found = jax.block_until_ready(compiled(*inputs))
    return found, time.perf_counter() - began


TUNED = methods.Metropolis(perturb=None, auxiliary=None)
CANDIDATES: dict[str, Callable[..., Run]] = {
    DEFAULT: partial(run_plmcmc, method=METHODS["auto"]),
    "plmcmc, elliptical": partial(run_plmcmc, method=METHODS["elliptical"]),
    "plmcmc, metropolis": partial(run_plmcmc, method=METHODS["metropolis"]),
    "plmcmc, metropolis, tuned": partial(run_plmcmc, method=TUNED),
    "plmcmc, latent HMC": partial(run_plmcmc, method=METHODS["hmc"]),
    "mici, constrained": run_mici,
    "NUTS, holes, diagonal": run_nuts,
    "NUTS, holes, dense": partial(run_nuts, dense=True),
    "NUTS, latents, dense": partial(run_nuts, latent=True, dense=True),
}


# --- judging --------------------------------------------------------------------------------


class Moments(NamedTuple):
    """Means of the entries and of their squares, with Monte Carlo errors: `(2, entries)` each."""

    mean: np.ndarray
    error: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, centre, spread) -> Moments:
        """Take the moments of standardised `(chains, draws, entries)`."""
        standard = (values - centre) / spread
        pair = np.stack([standard, standard**2], 2)
        ess = statistics.ess(pair, method="mean")
        # An entry that never moved is one draw.
        ess = np.where(np.isfinite(ess), ess, 1.0)
        return cls(pair.mean((0, 1)), pair.std((0, 1)) / np.sqrt(ess))


class Reference(NamedTuple):
    centre: np.ndarray
    spread: np.ndarray
    moments: Moments
    apart: float

    @classmethod
    def of(cls, problem: Problem, arguments) -> Reference:
        """Pool long runs of two methods that share nothing but the flow."""
        options = {"seed": arguments.seed + 7, "times": arguments.longer}
        long = [
            flat(run_plmcmc(problem, arguments, method=METHODS["auto"], **options).values),
            flat(run_nuts(problem, arguments, dense=True, **options).values),
        ]
        centre = np.mean([values.mean((0, 1)) for values in long], 0)
        spread = np.mean([values.std((0, 1)) for values in long], 0)
        one, other = (Moments.of(values, centre, spread) for values in long)
        weights = one.error**-2, other.error**-2
        total = weights[0] + weights[1]
        mean = (weights[0] * one.mean + weights[1] * other.mean) / total
        return cls(centre, spread, Moments(mean, total**-0.5), rms(z_scores(one, other)))


def judged(run: Run, reference: Reference) -> dict[str, Any]:
    values, chains = flat(run.values), len(run.values)
    rhat, ess = statistics.rhat(values), statistics.ess(values)
    # Chains that stand still have no spread to compare, and no R-hat.
    worst = round(float(rhat.max()), 3) if np.isfinite(rhat).all() else None
    ess = np.where(np.isfinite(ess), ess, chains)
    found = Moments.of(values, reference.centre, reference.spread)
    z = z_scores(found, reference.moments)
    per_pass = ess / chains / run.drawing.passes * 1000
    return {
        "ess per 1000 passes, median": significant(np.median(per_pass)),
        "ess per 1000 passes, least": significant(per_pass.min()),
        "ess per second, median": significant(np.median(ess) / run.drawing.seconds),
        "rhat, largest": worst,
        "warm-up passes": round(run.warmup.passes),
        "draw passes": round(run.drawing.passes),
        "draws": values.shape[1],
        "warm-up seconds": round(run.warmup.seconds, 1),
        "draw seconds": round(run.drawing.seconds, 1),
        "mean off, in deviations": round(rms(found.mean[0] - reference.moments.mean[0]), 3),
        "z of means": round(rms(z[0]), 2),
        "z of squares": round(rms(z[1]), 2),
        "note": run.note,
    }


def z_scores(one: Moments, other: Moments) -> np.ndarray:
    return (one.mean - other.mean) / np.hypot(one.error, other.error)


def flat(values: np.ndarray) -> np.ndarray:
    return values.reshape(*values.shape[:2], -1)


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def significant(number: float) -> float:
    return float(f"{number:.3g}")


def table(lines: list[dict[str, Any]]) -> str:
    """Write Markdown, with everyone's ESS per pass as a share of the default's."""
    columns = [
        "method",
        "ESS per 1,000 passes: median / least",
        "of the default's",
        "ESS a second",
        "R-hat, largest",
        "passes: warm-up + draws",
        "mean off, in deviations",
        "z of means / squares",
    ]
    rows = [columns, ["---"] * len(columns)]
    median = "ess per 1000 passes, median"
    base = next((line[median] for line in lines if line["method"] == DEFAULT), float("nan"))
    rows += [
        [
            line["method"],
            f"{line[median]:g} / {line['ess per 1000 passes, least']:g}",
            f"{line[median] / base:.2g}",
            f"{line['ess per second, median']:g}",
            f"{line['rhat, largest'] or 'stuck'}",
            f"{line['warm-up passes']:,} + {line['draw passes']:,}",
            f"{line['mean off, in deviations']:.3f}",
            f"{line['z of means']:.2f} / {line['z of squares']:.2f}",
        ]
        for line in lines
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", choices=TASKS, default="table")
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--chains", type=int, default=8)
    parser.add_argument("--budget", type=int, default=20_000, help="passes a chain for plmcmc")
    parser.add_argument("--tune", type=int, default=500, help="warm-up steps of NUTS")
    parser.add_argument("--draws", type=int, default=1000, help="draws of NUTS")
    parser.add_argument("--mici-draws", type=int, default=200)
    solver = "solve_projection_onto_manifold_quasi_newton"
    parser.add_argument("--mici-solver", default=solver)
    parser.add_argument("--auxiliary", type=float, default=0.3, help="sigma_a of NUTS on latents")
    parser.add_argument("--longer", type=int, default=8, help="the reference's length in runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="write JSON lines here")
    parser.add_argument("--methods", nargs="+", choices=list(CANDIDATES), metavar="METHOD")
    return parser.parse_args()


if __name__ == "__main__":
    main()
