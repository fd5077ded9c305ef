"""MIWAE: its weights are those of the model, and it finds what columns know of each other."""

from copy import deepcopy
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm, t
from torch.distributions import Normal

from plmcmc.baselines import GaussianImputer, MeanImputer, Miwae, MiwaeImputer
from plmcmc.baselines.autoencoder import Autoencoder, bound
from plmcmc.baselines.miwae import Units
from plmcmc.data import DataError
from plmcmc.statistics import nmse
from plmcmc.training import TrainingError

NAN = np.nan
FALSE_ALARM = 1e-4
ROWS = 500
CENTRE = np.array([1.0, -20.0, 0.3, 400.0])
UNITS = np.array([1.0, 10.0, 0.1, 50.0])
LOADINGS = np.array([[1.0, 0.0], [0.9, 0.4], [0.8, -0.5], [0.7, 0.6]])
COVARIANCE = (LOADINGS @ LOADINGS.T + 0.1 * np.eye(4)) * np.outer(UNITS, UNITS)


def small(**changes) -> MiwaeImputer:
    sizes = {"latent": 2, "width": 32, "layers": 2, "training_samples": 10, "samples": 500}
    pace = {"epochs": 40, "learning_rate": 5e-3, "random_state": 0}
    return MiwaeImputer(**(sizes | pace | changes))


def tiny(**changes) -> MiwaeImputer:
    sizes = {"width": 8, "training_samples": 2, "samples": 20, "epochs": 2}
    return small(**(sizes | changes))


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    return np.random.default_rng(0).multivariate_normal(CENTRE, COVARIANCE, ROWS)


@pytest.fixture(scope="module")
def missing() -> np.ndarray:
    return np.random.default_rng(1).random((ROWS, 4)) < 0.3


@pytest.fixture(scope="module")
def holed(table, missing) -> np.ndarray:
    return np.where(missing, NAN, table)


@pytest.fixture(scope="module")
def trained(holed) -> Miwae:
    return small().fit(holed)


@pytest.fixture(scope="module")
def filled(trained, holed) -> np.ndarray:
    return trained.fill(holed)


def conditional_means(holed: np.ndarray) -> np.ndarray:
    """Return the table filled by the Gaussian that it was drawn from."""
    filled = holed.copy()
    for row in filled:
        hole = np.isnan(row)
        slopes = np.linalg.solve(COVARIANCE[np.ix_(~hole, ~hole)], COVARIANCE[np.ix_(~hole, hole)])
        row[hole] = CENTRE[hole] + (row[~hole] - CENTRE[~hole]) @ slopes
    return filled


class TestFill:
    def test_it_comes_close_to_the_exact_means(self, table, missing, holed, filled):
        exact = nmse(table, conditional_means(holed), missing, by="entry")
        assert nmse(table, filled, missing, by="entry") < 1.15 * exact

    def test_it_is_far_better_than_the_columns_means(self, table, missing, holed, filled):
        assert nmse(table, filled, missing) < 0.5 * nmse(table, MeanImputer().fill(holed), missing)

    def test_it_is_not_where_columns_know_nothing_of_each_other(self, table, missing):
        """Negative control: the same columns, each in an order of its own."""
        shuffled = np.random.default_rng(2).permuted(table, axis=0)
        found = small(epochs=10).fill(np.where(missing, NAN, shuffled))
        assert nmse(shuffled, found, missing) > 0.9

    def test_what_is_seen_stays_to_the_last_bit(self, table, missing, filled):
        np.testing.assert_array_equal(filled[~missing], table[~missing])
        assert np.isfinite(filled).all()

    def test_the_table_handed_over_is_not_written_to(self, trained, missing, holed):
        trained.fill(holed)
        np.testing.assert_array_equal(np.isnan(holed), missing)

    def test_new_rows_are_filled_by_what_was_trained(self, trained):
        fresh = np.random.default_rng(3).multivariate_normal(CENTRE, COVARIANCE, 300)
        hidden = np.where(np.arange(4) == 1, NAN, fresh)
        missing = np.isnan(hidden)
        exact = nmse(fresh, conditional_means(hidden), missing)
        assert nmse(fresh, trained.fill(hidden), missing) < 0.5 * (1 + exact)

    def test_the_bound_grows(self, trained):
        assert len(trained.bounds) == 40
        assert np.mean(trained.bounds[-5:]) > trained.bounds[0] + 1

    def test_every_epoch_takes_all_rows_in_an_order_of_its_own(self, monkeypatch):
        taken, weighted = [], Autoencoder.weighted

        def watched(self, x, observed, noise):
            taken.extend(x[:, 0].tolist())
            return weighted(self, x, observed, noise)

        monkeypatch.setattr(Autoencoder, "weighted", watched)
        tiny(epochs=4, batch_size=16).fit(np.arange(50.0)[:, None] * [1, 2])
        epochs = [tuple(taken[start : start + 50]) for start in range(0, 200, 50)]
        assert len(taken) == 200
        rows = sorted(epochs[0])
        assert len({*rows}) == 50
        # The table's own order is one of 50!.
        assert len({*epochs, tuple(rows)}) == 5
        for epoch in epochs:
            assert sorted(epoch) == rows

    def test_pandas_is_taken(self, trained, holed, filled):
        np.testing.assert_array_equal(trained.fill(pd.DataFrame(holed)), filled)

    def test_fill_trains_and_fills(self, holed):
        assert tiny().fill(holed[:50]).shape == (50, 4)


class TestSample:
    def test_draws_have_the_means_and_spread_around_them(self, trained, table, missing, holed):
        draws = trained.sample(holed, 200, random_state=0)
        assert draws.shape == (200, ROWS, 4)
        error = (draws.mean(0) - trained.fill(holed))[missing]
        spread = draws.std(0)[missing]
        # Two estimates of the same mean, of 200 draws from 500 weighted latents; most weights are
        # small, so that the latter count for less.
        assert np.sqrt(np.mean((error / spread) ** 2)) < 0.3
        inside = np.abs(table[missing] - draws.mean(0)[missing]) < norm.ppf(0.95) * spread
        assert abs(inside.mean() - 0.9) < 0.05

    def test_what_is_seen_is_in_every_draw(self, trained, table, missing, holed):
        draws = trained.sample(holed, 3, random_state=0)
        assert (draws[:, ~missing] == table[~missing]).all()
        assert (draws[0][missing] != draws[1][missing]).all()

    def test_a_seed_repeats_itself(self, trained, holed):
        one, two, other = (trained.sample(holed, 2, random_state=seed) for seed in (0, 0, 1))
        np.testing.assert_array_equal(one, two)
        assert (one != other).any()

    def test_no_draws_are_refused(self, trained, holed):
        with pytest.raises(ValueError, match="draws must be at least 1; got 0"):
            trained.sample(holed, 0)


@pytest.fixture(scope="module")
def network() -> Autoencoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = Autoencoder(columns=3, latent=1, width=16, layers=2).double()
    with torch.no_grad():
        for weight in network.decoder.parameters():
            # Untrained networks say nearly the same whatever the latent.
            weight.mul_(3)
        # A proposal wider than the prior: weights have a variance.
        network.encoder[-1].bias[1] = 2.0
    return network.requires_grad_(False)


@pytest.fixture(scope="module")
def rows() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.tensor([[0.5, -1.0, 0.3], [1.5, 0.0, 0.0], [0.0, 0.0, 0.0]]).double()
    seen = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0]]).bool()
    return x, seen


@pytest.fixture(scope="module")
def weighted(network, rows):
    source = torch.Generator().manual_seed(1)
    noise = torch.randn(20_000, 3, 1, generator=source, dtype=torch.float64)
    return network.weighted(*rows, noise)


@pytest.fixture(scope="module")
def exact(network, rows) -> tuple[np.ndarray, np.ndarray]:
    """Likelihoods of the rows, and means of their columns given what is seen."""
    z = torch.linspace(-8, 8, 4001, dtype=torch.float64)
    columns = network.decoded(z[:, None, None].expand(-1, 3, 1))
    joint = torch.where(rows[1], columns.log_prob(rows[0]), 0.0).sum(-1)
    joint = (joint + Normal(0.0, 1.0).log_prob(z)[:, None]).exp() * (z[1] - z[0])
    means = (joint[..., None] * columns.mean).sum(0) / joint.sum(0)[:, None]
    return joint.sum(0).numpy(), means.numpy()


class TestWeights:
    """Of a network with one latent, against sums over a fine grid of it."""

    @staticmethod
    def deviations(log_weights, expected) -> np.ndarray:
        weights = log_weights.exp().numpy()
        return np.abs(weights.mean(0) - expected) / (weights.std(0) / len(weights) ** 0.5)

    def test_their_mean_is_the_likelihood(self, weighted, exact):
        limit = norm.isf(FALSE_ALARM / 2 / 3)
        assert (self.deviations(weighted.log_weights, exact[0]) < limit).all()

    def test_weights_without_the_proposal_would_be_convicted(self, network, rows, exact):
        """Negative control."""
        source = torch.Generator().manual_seed(1)
        noise = torch.randn(20_000, 3, 1, generator=source, dtype=torch.float64)
        proposal = network.encoded(*rows)
        z = proposal.mean + proposal.stddev * noise
        wrong = network.weighted(*rows, noise).log_weights + proposal.log_prob(z).sum(-1)
        assert (self.deviations(wrong, exact[0]) > norm.isf(FALSE_ALARM / 2 / 3)).any()

    def test_of_a_row_without_values_the_likelihood_is_one(self, exact):
        assert exact[0][2] == pytest.approx(1)

    def test_weighted_means_are_the_conditional_ones(self, network, rows, weighted, exact):
        units = Units(np.zeros(3), np.ones(3))
        model = Miwae(deepcopy(network).float(), units, [], samples=20_000, seed=0)
        missing = ~rows[1].numpy()
        found = model.fill(np.where(missing, NAN, rows[0].numpy()))
        share = weighted.log_weights.softmax(0)[..., None].numpy()
        off = weighted.columns.mean.numpy() - exact[1]
        error = np.sqrt(np.square(share * off).sum(0))
        limit = norm.isf(FALSE_ALARM / 2 / missing.sum())
        assert (np.abs(found - exact[1])[missing] < limit * error[missing]).all()
        # Negative control: without weights they would not be.
        plain = weighted.columns.mean.numpy().mean(0)
        assert (np.abs(plain - exact[1])[missing] > limit * error[missing]).any()

    def test_with_one_the_bound_is_the_evidence_lower_bound(self, network, rows):
        noise = torch.tensor([[[0.3], [-1.0], [0.5]]]).double()
        proposal = network.encoded(*rows)
        z = proposal.mean + proposal.stddev * noise[0]
        columns = network.decoded(z)
        seen = torch.stack([columns.log_prob(rows[0])[row][rows[1][row]].sum() for row in range(3)])
        expected = seen + (Normal(0.0, 1.0).log_prob(z) - proposal.log_prob(z))[:, 0]
        found = bound(network.weighted(*rows, noise).log_weights)
        torch.testing.assert_close(found, expected)

    def test_the_bound_grows_with_the_weights(self, weighted, exact):
        """By Jensen's inequality, for every set of weights and the means of its parts."""
        log_weights = weighted.log_weights[:19_200]
        bounds = [
            torch.stack([bound(part) for part in log_weights.split(size)]).mean(0)
            for size in (1, 4, 16, 64)
        ]
        for fewer, more in pairwise(bounds):
            assert (more > fewer).all()
        assert (bounds[-1].numpy() < np.log(exact[0]) + 0.01).all()

    def test_the_density_is_student_s(self, network):
        columns = network.decoded(torch.tensor([[0.7], [-1.2]]).double())
        x = torch.tensor([[0.0, 1.0, -30.0], [2.0, 0.1, 5.0]]).double()
        expected = t.logpdf(x, *columns)
        np.testing.assert_allclose(columns.log_prob(x), expected)

    def test_what_is_missing_does_not_matter(self, network, rows):
        noise = torch.ones(2, 3, 1).double()
        damaged = torch.where(rows[1], rows[0], 1e6)
        torch.testing.assert_close(
            network.weighted(damaged, rows[1], noise).log_weights,
            network.weighted(*rows, noise).log_weights,
        )


class TestRandomness:
    def test_a_seed_repeats_itself_and_leaves_the_global_one(self, holed):
        before = torch.get_rng_state()
        one, two, other = (tiny(random_state=seed).fill(holed) for seed in (0, 0, 1))
        assert (torch.get_rng_state() == before).all()
        np.testing.assert_array_equal(one, two)
        assert (one != other).any()

    def test_filling_again_gives_the_same(self, trained, holed, filled):
        np.testing.assert_array_equal(trained.fill(holed), filled)


class TestLimits:
    def test_without_holes_nothing_changes(self, trained, table):
        np.testing.assert_array_equal(trained.fill(table), table)

    def test_rows_without_any_value_are_filled_too(self, trained):
        assert np.isfinite(trained.fill(np.full((2, 4), NAN))).all()

    def test_a_constant_column_stays_about_constant(self, holed):
        table = np.column_stack([holed, np.where(np.isnan(holed[:, 0]), NAN, 7.0)])
        assert np.abs(small(epochs=20).fill(table)[:, 4] - 7).max() < 0.5

    def test_units_do_not_matter(self, holed):
        # A power of two, so that no number is rounded differently.
        np.testing.assert_allclose(tiny().fill(1024 * holed), 1024 * tiny().fill(holed))

    def test_other_columns_are_refused(self, trained):
        with pytest.raises(DataError, match="3 columns; MIWAE was trained on 4"):
            trained.fill(np.zeros((2, 3)))

    def test_a_column_without_values_is_refused(self):
        with pytest.raises(DataError, match="column 1 has no observed value"):
            tiny().fill([[1.0, NAN], [2.0, NAN]])

    @pytest.mark.parametrize("name", ["latent", "layers", "samples", "epochs", "batch_size"])
    def test_none_at_all_is_refused(self, name):
        with pytest.raises(ValueError, match=f"{name} must be at least 1; got 0"):
            MiwaeImputer(**{name: 0})

    def test_a_rate_beyond_all_measure_is_reported(self, holed):
        with pytest.raises(TrainingError, match="lower learning_rate"):
            tiny(learning_rate=1e30).fit(holed)


def test_the_defaults_are_the_paper_s():
    own = MiwaeImputer()
    # Three layers with the last, linear one: two of them are hidden.
    assert (own.latent, own.width, own.layers) == (10, 128, 2)
    assert (own.training_samples, own.samples) == (20, 10_000)
    assert (own.epochs, own.batch_size, own.learning_rate) == (2000, 64, 1e-3)


def test_it_does_what_a_gaussian_cannot():
    """A parabola has no slope: the Gaussian is no better than means, and MIWAE is."""
    rng = np.random.default_rng(0)
    across = rng.uniform(-2, 2, 600)
    table = np.column_stack([across, across**2 + 0.1 * rng.normal(size=600)])
    hole = np.column_stack([np.zeros(600, bool), rng.random(600) < 0.3])
    holed = np.where(hole, NAN, table)
    found = nmse(table, small().fill(holed), hole)
    assert found < 0.3 < 0.9 < nmse(table, GaussianImputer().fill(holed), hole)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_fills_as_well(table, missing, holed):
    model = small(device="cuda").fit(holed)
    exact = nmse(table, conditional_means(holed), missing, by="entry")
    assert nmse(table, model.fill(holed), missing, by="entry") < 1.15 * exact
    assert np.isfinite(model.sample(holed, 2, random_state=0)).all()
