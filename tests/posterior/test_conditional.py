"""The front door: shapes, the observed cells, and draws that depend on the seed alone."""

import math
import os
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch

import plmcmc
from exact import shaken
from plmcmc import methods
from plmcmc.chains import CheckpointError, Given
from plmcmc.data import DataError
from plmcmc.flows import NICE, Linear, Preprocessed, RealNVP
from plmcmc.flows.preprocessing import Flatten
from plmcmc.posterior import METHODS
from plmcmc.target import NormalAuxiliary
from toys import DEVIATIONS, Killed, Watched, correlated, quiet, same_bits

LATENT = ["metropolis", "pcn", "elliptical", "mala"]
EXACT = [*LATENT, "data-hmc", "data-mala", "data-metropolis", "gibbs", "auto"]
GRADIENT_FREE = ["metropolis", "pcn", "elliptical", "data-metropolis", "gibbs"]


def curved(features=4, dtype=torch.float64, **options):
    """A flow that is no Gaussian, and whose volume varies."""
    options = {"couplings": 2, "width": 8, "random_state": 0} | options
    return shaken(RealNVP(features, **options)).to(dtype)


def with_holes(rows, *event, rate=0.5, seed=0, dtype=np.float64):
    source = np.random.default_rng(seed)
    x = source.normal(size=(rows, *event)).astype(dtype)
    x[source.random(x.shape) < rate] = np.nan
    return x


# Nothing is left to tune.
SETTLED = methods.CrankNicolson(step=0.5, auxiliary=NormalAuxiliary(0.5))


def sample(flow, x, *, draws=4, chains=2, warmup=2, random_state=0, context=None, **options):
    """Draw a few completions, not asking whether they have converged."""
    with quiet():
        return plmcmc.condition(flow, x, context=context).sample(
            draws, chains=chains, warmup=warmup, random_state=random_state, **options
        )


class TestShapes:
    def test_a_table(self):
        draws = sample(curved(), with_holes(7, 4), draws=5, chains=3, method="metropolis")
        assert draws.values.shape == (3, 5, 7, 4)
        assert draws.observed.shape == (7, 4)
        assert draws.acceptance.shape == (3, 7)
        assert draws.mean().shape == draws.rhat().shape == draws.ess().shape == (7, 4)
        assert draws.quantile(0.5).shape == (7, 4)
        assert draws.quantile([0.1, 0.5, 0.9]).shape == (3, 7, 4)

    @pytest.mark.parametrize("event", [(2, 3), (3, 2, 2)])
    def test_images(self, event):
        size = int(np.prod(event))
        flow = Preprocessed([Flatten(event)], curved(size))
        x = with_holes(5, *event)
        draws = sample(flow, x, method="data-mala")
        flat = sample(flow.flow, x.reshape(5, size), method="data-mala")
        assert draws.values.shape == (2, 4, 5, *event)
        assert draws.rhat().shape == (5, *event)
        assert np.array_equal(draws.values.reshape(2, 4, 5, size), flat.values)

    @pytest.mark.parametrize("method", EXACT)
    def test_one_row(self, method):
        draws = sample(curved(), with_holes(1, 4, rate=0.4), method=method)
        assert draws.values.shape == (2, 4, 1, 4)
        assert np.isfinite(draws.values).all()

    @pytest.mark.parametrize("method", EXACT)
    def test_one_column(self, method):
        x = np.array([[np.nan], [2.0], [np.nan]])
        draws = sample(Linear(1), x, method=method)
        assert draws.values.shape == (2, 4, 3, 1)
        assert (draws.values[:, :, 1] == 2).all()
        assert len(np.unique(draws.values[:, :, [0, 2]])) > 4

    def test_one_draw_of_one_chain(self):
        draws = sample(curved(), with_holes(3, 4), draws=1, chains=1, method="pcn")
        assert draws.values.shape == (1, 1, 3, 4)

    @pytest.mark.parametrize(
        "convert", [torch.as_tensor, np.ndarray.tolist, np.asfortranarray], ids=lambda f: f.__name__
    )
    def test_arrays_of_all_kinds_give_the_same(self, convert):
        x = with_holes(6, 4)
        expected = sample(curved(), x, method="pcn").values
        assert np.array_equal(sample(curved(), convert(x), method="pcn").values, expected)

    def test_observed_says_what_nan_would(self):
        x = with_holes(6, 4)
        seen = ~np.isnan(x)
        filled = np.where(seen, x, 77.0)
        with quiet():
            posterior = plmcmc.condition(curved(), filled, observed=seen)
            draws = posterior.sample(4, chains=2, warmup=2, method="pcn", random_state=0)
        assert same_bits(draws.values, sample(curved(), x, method="pcn").values)

    def test_warmup_is_as_long_as_the_rest_by_default(self):
        x = with_holes(3, 4)
        default = sample(curved(), x, draws=5, thin=2, warmup=None, method=SETTLED)
        stated = sample(curved(), x, draws=5, thin=2, warmup=10, method=SETTLED)
        assert same_bits(default.values, stated.values)
        assert default.passes == 2 * 20

    def test_thinning_and_warmup_pick_from_the_same_chain(self):
        x = with_holes(3, 4)
        every = sample(curved(), x, draws=12, warmup=0, method="pcn").values
        some = sample(curved(), x, draws=3, warmup=3, thin=3, method="pcn").values
        assert same_bits(some, every[:, [5, 8, 11]])


class TestObserved:
    """What was seen comes back in its last bit, whatever the flow computes in."""

    @pytest.mark.parametrize("flow_dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("method", ["metropolis", "elliptical", "data-mala"])
    def test_bytes(self, method, dtype, flow_dtype):
        x = with_holes(9, 4, dtype=dtype)
        x[0] = [-0.0, np.pi, 1 / 3, np.nan]
        draws = sample(curved(dtype=flow_dtype), x, method=method)
        seen = ~np.isnan(x)
        everything = [*draws.values.reshape(-1, 9, 4), draws.mean(), *draws.quantile([0.1, 0.9])]
        for values in everything:
            assert same_bits(values[seen], x[seen])
            assert np.isfinite(values).all()

    def test_the_float32_rounding_would_be_seen(self):
        """Negative control: the comparison tells 1/3 from its float32."""
        x = np.array([1 / 3])
        assert not same_bits(x.astype(np.float32).astype(np.float64), x)

    def test_a_callers_array_is_not_touched_and_not_needed_later(self):
        x = with_holes(5, 4)
        kept = x.copy()
        posterior = plmcmc.condition(curved(), x)
        x[:] = 99.0
        with quiet():
            draws = posterior.sample(4, method="pcn", random_state=0)
        seen = ~np.isnan(kept)
        assert same_bits(draws.mean()[seen], kept[seen])
        assert (x == 99).all()


class TestChunks:
    """How the rows are cut changes nothing, bit for bit."""

    # Rows with nothing missing among them move the blocks' borders; 300 leaves a remainder.
    X = with_holes(300, 4, rate=0.4)
    X[::11] = 1.0

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("method", EXACT)
    def test_every_method(self, method, dtype):
        flow = curved(dtype=dtype)
        whole, *cut = (
            sample(flow, self.X, method=method, chunk_rows=rows).values for rows in (1000, 64, 128)
        )
        assert all(same_bits(values, whole) for values in cut)

    @pytest.mark.parametrize("chunk_rows", [1, 63, 65, 200])
    def test_chunks_hold_whole_blocks_whatever_is_asked(self, chunk_rows):
        flow = shaken(NICE(4, depth=2, width=8, random_state=0))
        whole = sample(flow, self.X, method="pcn")
        cut = sample(flow, self.X, method="pcn", chunk_rows=chunk_rows)
        assert same_bits(cut.values, whole.values)
        assert same_bits(cut.acceptance, whole.acceptance)
        assert cut.passes == whole.passes
        assert cut.warmup_passes == whole.warmup_passes > 0

    def test_a_flow_with_contexts(self):
        flow = contextual()
        context = np.random.default_rng(1).normal(size=(300, 2))
        whole, cut = (
            sample(
                flow, self.X[:, :3], context=context, method="elliptical", chunk_rows=rows
            ).values
            for rows in (1000, 64)
        )
        assert same_bits(cut, whole)

    @pytest.mark.parametrize("threads", [1, 2])
    @pytest.mark.parametrize("rest", [0, 2, 7, 31])
    def test_solves_shared_among_threads(self, rest, threads):
        """MKL cuts a triangular solve into one part a thread; rows at a cut round otherwise."""
        x = np.full((64 * 5 + rest, 13), np.nan)
        x[:, ::2] = 0.5
        flow, before = correlated(13), torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            # One step: threads that wait for each other on a busy core take seconds for many.
            whole, cut = (
                sample(flow, x, method=SETTLED, draws=1, chains=1, warmup=0, chunk_rows=rows).values
                for rows in (1000, 64)
            )
        finally:
            torch.set_num_threads(before)
        assert same_bits(cut, whole)

    def test_batches_really_differ(self):
        """Negative control: the flow sees other batches."""
        flow = Watched(curved())
        seen = []
        for chunk_rows in (64, 1000):
            flow.forget()
            sample(flow, self.X, method="pcn", chunk_rows=chunk_rows)
            seen.append(max(flow.rows))
        assert seen[0] < seen[1] == 2 * np.isnan(self.X).any(1).sum()


class TestSeed:
    X = with_holes(70, 4)

    @pytest.mark.parametrize("method", EXACT)
    def test_same_seed_same_draws(self, method):
        one, two = (sample(curved(), self.X, method=method, random_state=3) for _ in range(2))
        assert same_bits(one.values, two.values)
        assert one.seed == two.seed == 3

    @pytest.mark.parametrize("method", EXACT)
    def test_other_seed_other_draws(self, method):
        one, two = (sample(curved(), self.X, method=method, random_state=s) for s in (3, 4))
        hidden = np.isnan(self.X)
        assert (one.values[:, :, hidden] != two.values[:, :, hidden]).all()

    def test_no_seed_is_a_new_one_that_repeats_the_run(self):
        one, two = (sample(curved(), self.X, method="pcn", random_state=None) for _ in range(2))
        assert one.seed != two.seed
        again = sample(curved(), self.X, method="pcn", random_state=one.seed)
        assert same_bits(again.values, one.values)

    def test_a_numpy_generator_gives_the_seed(self):
        one = sample(curved(), self.X, method="pcn", random_state=np.random.default_rng(1))
        two = sample(curved(), self.X, method="pcn", random_state=np.random.default_rng(1))
        assert one.seed == two.seed

    def test_chains_and_rows_differ(self):
        x = np.full((130, 4), np.nan)
        values = sample(curved(), x, method="pcn").values
        assert len(np.unique(values[:, 0, :, 0])) == 2 * 130

    @pytest.mark.parametrize("method", EXACT)
    def test_torchs_own_generator_is_left_alone(self, method):
        before = torch.get_rng_state()
        sample(curved(), self.X, method=method, random_state=None)
        assert torch.equal(torch.get_rng_state(), before)

    def test_nor_by_a_flow_that_draws_from_it(self):
        flow, context = contextual(), np.ones((70, 2))
        before = torch.get_rng_state()
        one, two = (
            sample(flow, self.X[:, :3], context=context, method="pcn", random_state=3)
            for _ in range(2)
        )
        assert torch.equal(torch.get_rng_state(), before)
        assert same_bits(one.values, two.values)


class TestNothingMissing:
    def test_full_rows_cost_nothing_and_come_back(self):
        flow = Watched(curved())
        x = with_holes(10, 4)
        x[[1, 2, 5]] = 0.25
        x[[0, 3, 4, 6, 7, 8, 9], 1] = np.nan
        posterior = plmcmc.condition(flow, x)
        flow.forget()
        with quiet():
            draws = posterior.sample(4, chains=3, method=SETTLED, random_state=0)
        assert set(flow.rows) == {3 * 7}
        assert (draws.values[:, :, [1, 2, 5]] == 0.25).all()
        assert (np.isnan(draws.acceptance) == np.isin(np.arange(10), [1, 2, 5])).all()

    def test_their_number_does_not_change_the_others(self):
        x = with_holes(20, 4)
        x[:, 0] = np.nan
        padded = np.concatenate([np.ones((5, 4)), x[:7], np.ones((90, 4)), x[7:]])
        kept = np.isnan(padded).any(1)
        alone, among = (sample(curved(), a, method="mala").values for a in (x, padded))
        assert same_bits(np.ascontiguousarray(among[:, :, kept]), alone)

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("method", ["auto", "elliptical"])
    def test_nothing_missing_at_all(self, method):
        flow = Watched(curved())
        x = np.random.default_rng(0).normal(size=(5, 4))
        posterior = plmcmc.condition(flow, x)
        flow.forget()
        draws = posterior.sample(6, method=method)
        assert not flow.calls
        assert draws.passes == 0
        assert same_bits(draws.values, np.broadcast_to(x, (4, 6, 5, 4)).copy())
        assert same_bits(draws.mean(), x)
        assert np.isnan(draws.rhat()).all()
        assert np.isnan(draws.acceptance).all()
        assert len(draws.summary()) == 0


class TestEverythingMissing:
    """Then the chain samples the flow itself, whose moments are known."""

    ROWS, CHAINS = 1500, 2
    X = np.full((ROWS, 3), np.nan)

    def last_draws(self, method, warmup):
        flow = correlated()
        # Far off: what remains of the start after the warm-up is what is tested.
        start = Given(flow.to_data(torch.full((self.ROWS, 3), 5.0).double())[0].detach())
        draws = sample(flow, self.X, method=method, draws=4, warmup=warmup, start=start)
        return draws.values[:, -1].reshape(-1, 3)

    def worst(self, values, flow):
        """Largest error of a mean or a covariance, in standard errors of `rows * chains` draws."""
        mean = flow.shift.detach().numpy()
        covariance = (flow.factor() @ flow.factor().T).detach().numpy()
        variance = covariance.diagonal()
        means = (values.mean(0) - mean) / np.sqrt(variance / len(values))
        off = np.cov(values.T, bias=True) - covariance
        error = np.sqrt((np.outer(variance, variance) + covariance**2) / len(values))
        return max(np.abs(means).max(), np.abs(off / error).max())

    # Without a likelihood an elliptical step is a turn by a uniform angle: the mean is forgotten
    # at once, and the second moment halves its error each step. A Crank-Nicolson step keeps
    # sqrt(1 - .64) = .6 of the start. After 30 steps nothing of it is left to be seen.
    @pytest.mark.parametrize("method", ["elliptical", methods.CrankNicolson(step=0.8)])
    def test_moments_are_the_flows(self, method):
        values = self.last_draws(method, warmup=30)
        assert self.worst(values, correlated()) < DEVIATIONS

    def test_negative_control_another_flow(self):
        values = self.last_draws("elliptical", warmup=30)
        flow = correlated()
        with torch.no_grad():
            flow.log_diagonal[1] += 0.1
        assert self.worst(values, flow) > DEVIATIONS

    def test_negative_control_no_warmup(self):
        values = self.last_draws(methods.CrankNicolson(step=0.1), warmup=0)
        assert self.worst(values, correlated()) > DEVIATIONS

    @pytest.mark.parametrize("method", EXACT)
    def test_every_method_moves(self, method):
        values = sample(correlated(), self.X[:20], method=method, draws=20).values
        assert (np.ptp(values, axis=1) > 0).mean() > 0.5


def contextual(dtype=torch.float64):
    """A zuko flow of 3 columns and a context of 2."""
    zuko = pytest.importorskip("zuko")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return zuko.flows.MAF(3, 2, transforms=2, hidden_features=(16,)).to(dtype)


class Shifted:
    """Toy family of flows: a standard normal around the row's context."""

    def given(self, context):
        return _ShiftedBy(context)


class _ShiftedBy:
    def __init__(self, context):
        self.context = context

    def to_latent(self, x):
        return x - self.context[: len(x)], torch.zeros(len(x))

    def to_data(self, z):
        return z + self.context[: len(z)], torch.zeros(len(z))

    def latent_log_prob(self, z):
        return -0.5 * z.double().square().sum(1)

    def latent_sample(self, rows, generator):
        return torch.randn(rows, self.context.shape[1], generator=generator)


class TestContext:
    X = with_holes(8, 3)
    X[:, 1] = np.nan
    CONTEXT = np.random.default_rng(5).normal(size=(8, 2))

    @pytest.mark.parametrize("method", [*EXACT, SETTLED])
    def test_a_row_gets_its_own_context(self, method):
        one = sample(contextual(), self.X, context=self.CONTEXT, method=method)
        changed = self.CONTEXT.copy()
        changed[3] += 1.0
        other = sample(contextual(), self.X, context=changed, method=method)
        same = (one.values == other.values).all((0, 1, 3))
        assert not same[3]
        if method in ("metropolis", SETTLED):
            # The others ask the flow about its contexts before they start.
            assert same.tolist() == [row != 3 for row in range(8)]

    def test_means_follow_the_contexts(self):
        """Row i is N(context_i, 1): from its mean, a mean of n draws is off by 1 / sqrt(n)."""
        rows, chains = 200, 4
        context = np.linspace(-300, 300, rows)[:, None] * [1.0, 1.0]
        x = np.full((rows, 2), np.nan)
        x[:, 0] = context[:, 0] + 1.0
        draws = sample(Shifted(), x, context=context, method="elliptical", draws=4, chains=chains)
        # Each chain's last draw: chains start in their target here, and are independent.
        last = draws.values[:, -1, :, 1].mean(0) - context[:, 1]
        assert np.abs(last).max() * np.sqrt(chains) < DEVIATIONS + 1

    def test_missing(self):
        with pytest.raises(DataError, match=r"needs a context: pass context=\.\.\., one per row"):
            plmcmc.condition(contextual(), self.X)

    def test_superfluous(self):
        with pytest.raises(DataError, match="takes no context: leave context out"):
            plmcmc.condition(correlated(), self.X, context=self.CONTEXT)

    @pytest.mark.parametrize("count", [1, 7, 9])
    def test_wrong_number(self, count):
        with pytest.raises(DataError, match=rf"one row per row of x: 8, got shape \({count}, 2\)"):
            plmcmc.condition(contextual(), self.X, context=np.zeros((count, 2)))

    def test_not_finite_names_the_row(self):
        wrong = self.CONTEXT.copy()
        wrong[6, 1] = np.nan
        with pytest.raises(DataError, match="NaN or infinite at row 6"):
            plmcmc.condition(contextual(), self.X, context=wrong)

    @pytest.mark.parametrize(
        "kind",
        [
            lambda c: torch.tensor(c, requires_grad=True),
            lambda c: torch.tensor(c, dtype=torch.bfloat16),
            lambda c: pd.DataFrame(c).astype("Float64"),
            np.ndarray.tolist,
        ],
    )
    def test_any_kind_of_array(self, kind):
        context = np.round(8 * self.CONTEXT) / 8
        found = plmcmc.condition(contextual(), self.X, context=kind(context)).context
        assert np.array_equal(found.numpy(), context)

    def test_what_is_no_number(self):
        with pytest.raises(DataError, match="context must hold numbers, one row per row of x"):
            plmcmc.condition(contextual(), self.X, context=[["a", "b"]] * 8)
        frame = pd.DataFrame({"a": 1.0, "site": ["x"] * 8})
        with pytest.raises(DataError, match="context must hold numbers; column 'site'"):
            plmcmc.condition(contextual(), self.X, context=frame)

    @pytest.mark.parametrize("rows", [2, 3])
    def test_numbers_where_the_flow_wants_rows(self, rows):
        """zuko takes two numbers for one context of all rows."""
        with pytest.raises(DataError, match=rf"cannot take contexts of shape \({rows},\)"):
            plmcmc.condition(contextual(), self.X[:rows], context=self.CONTEXT[:rows, 0])

    @pytest.mark.parametrize("flow", [NICE(4, random_state=0), RealNVP(4, random_state=0)])
    def test_plain_flows_need_none(self, flow):
        assert plmcmc.condition(flow, with_holes(2, 4)).context is None


class TestPasses:
    """What a step costs is what the flow was asked, and what is reported."""

    X = with_holes(6, 4)
    X[:, 1] = np.nan

    def calls(self, method, draws):
        flow = Watched(curved())
        return flow, sample(flow, self.X, draws=draws, warmup=0, method=method)

    @pytest.mark.parametrize("method", GRADIENT_FREE)
    def test_reported_passes_are_the_flows(self, method):
        (short, few), (long, many) = (self.calls(method, draws) for draws in (4, 9))
        assert sum(long.calls.values()) - sum(short.calls.values()) == many.passes - few.passes > 0

    @pytest.mark.parametrize(
        ("method", "decoded", "encoded"),
        [
            ("metropolis", 1, 1),
            ("pcn", 1, 1),
            ("data-metropolis", 0, 1),
            ("gibbs", 0, 1),
            # The gradient comes from the same passes, run backwards.
            ("mala", 1, 1),
            ("data-mala", 0, 1),
        ],
    )
    def test_a_proposal_costs_two_passes_and_one_in_data_space(self, method, decoded, encoded):
        (short, _), (long, _) = (self.calls(method, draws) for draws in (4, 5))
        assert long.calls["to_data"] - short.calls["to_data"] == decoded
        assert long.calls["to_latent"] - short.calls["to_latent"] == encoded

    @pytest.mark.parametrize(("method", "cost"), [("mala", 6), ("data-mala", 3)])
    def test_a_gradient_counts_as_two_passes_more(self, method, cost):
        (_, few), (_, many) = (self.calls(method, draws) for draws in (4, 5))
        assert many.passes - few.passes == cost

    def test_warmup_is_counted(self):
        flow = curved()
        draws = sample(flow, self.X, draws=4, warmup=7, method=SETTLED)
        assert (draws.passes, draws.warmup_passes) == (2 * 11, 2 * 7)

    def test_tuning_is_counted(self):
        # Of 8 steps of warm-up, 2 choose the auxiliary at 3 passes each, and 2 the step.
        draws = sample(curved(), self.X, draws=4, warmup=8, method="pcn")
        assert draws.passes == 2 * 3 + 2 * 10
        assert draws.warmup_passes == draws.passes - 2 * 4
        # Without a step to tune, 6 are left; without anything, all.
        given = methods.CrankNicolson(step=0.5)
        assert sample(curved(), self.X, draws=4, warmup=8, method=given).passes == 2 * 3 + 2 * 10
        assert sample(curved(), self.X, draws=4, warmup=8, method=SETTLED).passes == 2 * 12


class TestArguments:
    @pytest.mark.parametrize("name", ["draws", "chains", "thin"])
    @pytest.mark.parametrize("number", [0, -1])
    def test_less_than_one(self, name, number):
        posterior = plmcmc.condition(curved(), with_holes(2, 4))
        with pytest.raises(ValueError, match=f"{name} must be at least 1; got {number}"):
            posterior.sample(**{"method": "pcn", name: number})

    def test_negative_warmup(self):
        posterior = plmcmc.condition(curved(), with_holes(2, 4))
        with pytest.raises(ValueError, match="warmup must not be negative; got -1"):
            posterior.sample(4, method="pcn", warmup=-1)

    def test_unknown_method_lists_the_known(self):
        posterior = plmcmc.condition(curved(), with_holes(2, 4))
        with pytest.raises(
            ValueError, match=r"method must be one of .*metropolis.*'nuts'"
        ) as error:
            posterior.sample(4, method="nuts")
        assert all(name in str(error.value) for name in METHODS)

    def test_a_configured_method_names_itself(self):
        method = methods.Metropolis(perturb=0.2, auxiliary=NormalAuxiliary(0.5))
        draws = sample(curved(), with_holes(2, 4), method=method)
        assert draws.method == repr(method)
        assert "perturb=0.2" in repr(draws)

    def test_a_name_is_its_defaults(self):
        x = with_holes(5, 4)
        named, configured = (
            sample(curved(), x, method=method) for method in ("mala", methods.Langevin())
        )
        assert same_bits(named.values, configured.values)

    def test_what_is_no_flow(self):
        with pytest.raises(TypeError, match="is not a flow that plmcmc knows"):
            plmcmc.condition(object(), with_holes(2, 4))

    @pytest.mark.parametrize("random_state", [-1, "seed", 1.5, True])
    def test_what_is_no_seed(self, random_state):
        posterior = plmcmc.condition(curved(), with_holes(2, 4))
        with pytest.raises((TypeError, ValueError), match="random_state must"):
            posterior.sample(4, method="pcn", random_state=random_state)


class TestCheckpoint:
    """A killed call, called again, gives what an undisturbed one would have."""

    X = with_holes(200, 4, rate=0.4)
    OPTIONS: ClassVar = {"draws": 6, "warmup": 4, "chunk_rows": 64, "checkpoint_every": 3}

    def flow(self):
        """As a new process would load it."""
        return Watched(curved(dtype=torch.float32))

    def killed(self, directory, after, **options):
        flow = self.flow()
        posterior = plmcmc.condition(flow, self.X)
        flow.left = after
        with pytest.raises(Killed), quiet():
            posterior.sample(chains=2, checkpoint=directory, **self.OPTIONS | options)

    # A chunk takes 4 passes to start and 20 to run: killed in the first and in the second.
    @pytest.mark.parametrize("after", [2, 15, 23, 40])
    @pytest.mark.parametrize("method", ["metropolis", "pcn"])
    def test_rerun_equals_the_uninterrupted_run(self, method, after, tmp_path):
        straight = sample(self.flow(), self.X, method=method, **self.OPTIONS)
        self.killed(tmp_path / "run", after, method=method, random_state=0)
        flow = self.flow()
        resumed = sample(flow, self.X, method=method, checkpoint=tmp_path / "run", **self.OPTIONS)
        assert same_bits(resumed.values, straight.values)
        assert same_bits(resumed.acceptance, straight.acceptance)
        assert resumed.passes == straight.passes
        assert resumed.warmup_passes == straight.warmup_passes

    @pytest.mark.parametrize("method", ["elliptical", "mala", "auto"])
    def test_kernels_of_other_states_and_costs(self, method, tmp_path):
        flow = self.flow()
        posterior = plmcmc.condition(flow, self.X)
        flow.forget()
        with quiet():
            straight = posterior.sample(chains=2, random_state=0, method=method, **self.OPTIONS)
        # Killed in the last steps of the last chunk.
        self.killed(tmp_path / "run", len(flow.rows) - 4, method=method, random_state=0)
        assert len(list((tmp_path / "run").iterdir())) == 2
        resumed = sample(
            self.flow(), self.X, method=method, checkpoint=tmp_path / "run", **self.OPTIONS
        )
        assert same_bits(resumed.values, straight.values)
        assert resumed.passes == straight.passes
        assert resumed.warmup_passes == straight.warmup_passes

    def test_without_a_seed_the_saved_one_goes_on(self, tmp_path):
        self.killed(tmp_path / "run", 40, method="pcn", random_state=None)
        options = self.OPTIONS | {"method": "pcn"}
        resumed = sample(
            self.flow(), self.X, random_state=None, checkpoint=tmp_path / "run", **options
        )
        straight = sample(self.flow(), self.X, random_state=resumed.seed, **options)
        assert same_bits(resumed.values, straight.values)

    def test_work_is_not_done_twice(self, tmp_path):
        self.killed(tmp_path / "run", 36, method=SETTLED, random_state=0)
        flow, undisturbed = self.flow(), self.flow()
        sample(undisturbed, self.X, method=SETTLED, **self.OPTIONS)
        sample(flow, self.X, method=SETTLED, checkpoint=tmp_path / "run", **self.OPTIONS)
        # The 10 steps of the first chunk, and of the second the 3 before its one save.
        assert undisturbed.calls["to_latent"] - flow.calls["to_latent"] == 10 + 3

    def test_a_finished_run_is_only_read(self, tmp_path):
        options = self.OPTIONS | {"method": "pcn", "checkpoint": tmp_path / "run"}
        first = sample(self.flow(), self.X, **options)
        assert same_bits(sample(self.flow(), self.X, **options).values, first.values)

    @pytest.mark.parametrize(
        ("field", "change"),
        [
            ("seed", {"random_state": 1}),
            ("method", {"method": "elliptical"}),
            ("schedule", {"draws": 7}),
            ("chains", {"chains": 3}),
            ("start", {"start": plmcmc.Unconditional(0.5)}),
        ],
    )
    def test_another_run_is_refused_by_name(self, field, change, tmp_path):
        options = self.OPTIONS | {"method": "pcn", "checkpoint": tmp_path / "run"}
        sample(self.flow(), self.X, **options)
        with pytest.raises(CheckpointError, match=rf"a different run \({field}: "):
            sample(self.flow(), self.X, **options | change)

    def test_a_place_that_cannot_be_written_to_is_refused_before_any_work(
        self, tmp_path, monkeypatch
    ):
        monkeypatch.setattr(os, "access", lambda *given: False)
        watched = Watched(correlated())
        posterior = plmcmc.condition(watched, with_holes(5, 3))
        watched.forget()
        with pytest.raises(PermissionError, match="is not writable"):
            posterior.sample(4, method="pcn", checkpoint=tmp_path / "run")
        assert not watched.calls

    def test_another_flow_and_other_data_are_refused(self, tmp_path):
        options = self.OPTIONS | {"method": "pcn", "checkpoint": tmp_path / "run"}
        sample(self.flow(), self.X, **options)
        other = self.flow()
        with torch.no_grad():
            next(other.parameters()).add_(1e-3)
        with pytest.raises(CheckpointError, match=r"a different run \(flow: "):
            sample(other, self.X, **options)
        changed = self.X.copy()
        changed[~np.isnan(changed)] += 1e-3
        with pytest.raises(CheckpointError, match=r"a different run \(data: "):
            sample(self.flow(), changed, **options)


class Plain:
    """A flow that is no torch module, as a user may write one: `x = scale z`."""

    def __init__(self, scale):
        self.scale = scale

    def to_latent(self, x):
        return x / self.scale, torch.full((len(x),), -x.shape[1] * math.log(self.scale))

    def to_data(self, z):
        return z * self.scale, torch.full((len(z),), z.shape[1] * math.log(self.scale))

    def latent_log_prob(self, z):
        return -0.5 * z.square().sum(1)

    def latent_sample(self, rows, generator):
        return torch.randn(rows, 2, generator=generator)


def test_the_checkpoint_of_another_plain_flow_is_refused(tmp_path):
    x = np.array([[0.5, np.nan]])
    options = {"method": "pcn", "random_state": 0, "checkpoint": tmp_path}
    with quiet():
        first = plmcmc.condition(Plain(1.0), x).sample(20, **options)
        again = plmcmc.condition(Plain(1.0), x).sample(20, **options)
        with pytest.raises(CheckpointError, match=r"a different run.*flow"):
            plmcmc.condition(Plain(10.0), x).sample(20, **options)
    assert same_bits(first.values, again.values)


class Noting(Linear):
    """Notes how a GPU would compute its convolutions."""

    def to_latent(self, x):
        self.rounded.add(torch.backends.cudnn.allow_tf32)
        return super().to_latent(x)


def test_nothing_is_rounded_while_a_flow_is_checked_sampled_and_judged():
    flow = Noting.of_moments(torch.zeros(2), torch.eye(2) + 0.5)
    flow.rounded = set()
    before = torch.backends.cudnn.allow_tf32
    posterior = plmcmc.condition(flow, [[1.0, float("nan")]])
    with quiet():
        posterior.sample(5, chains=2, warmup=4, random_state=0, progress=False)
    posterior.log_prob([[1.0, 0.5]], particles=4, stages=2, random_state=0)
    assert flow.rounded == {False}
    assert torch.backends.cudnn.allow_tf32 == before


def test_what_is_printed_fits_a_line():
    posterior = plmcmc.condition(correlated(), [[1.0, float("nan"), 0.0]] * 3)
    assert repr(posterior) == "Conditional(Linear, 3 rows of shape (3,), 3 missing entries)"


def test_the_tab_key_shows_what_is_for_users():
    posterior = plmcmc.condition(correlated(), [[1.0, float("nan"), 0.0]])
    shown = {name for name in dir(posterior) if not name.startswith("_")}
    assert shown == {
        *("sample", "log_evidence", "log_prob"),
        *("flow", "values", "data", "context"),
    }


def test_a_bar_says_that_chains_are_being_tuned(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with quiet():
        plmcmc.condition(correlated(), [[1.0, float("nan"), 0.0]]).sample(5, progress=True)
    assert "tuning" in capsys.readouterr().err
