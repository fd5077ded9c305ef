"""R-hat and ESS are ArviZ's numbers, and convict chains that have not converged."""

import numpy as np
import pytest
from arviz_stats.base.array import array_stats
from scipy.stats import f, norm, rankdata

from plmcmc.statistics import convergence, ess, rhat

FALSE_ALARM = 1e-4
METHODS = ["bulk", "tail", "mean"]


def normals(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def walk(*shape: int) -> np.ndarray:
    """Chains that remember: autoregressive of order one."""
    values = normals(*shape)
    for draw in range(1, shape[1]):
        values[:, draw] += 0.9 * values[:, draw - 1]
    return values


CASES = {
    "normal": normals(4, 50, 3),
    "odd number of draws": normals(4, 51, 3),
    "fewest draws": normals(2, 4, 3),
    "five draws": normals(3, 5, 3),
    "two chains": normals(2, 30, 3),
    "images": normals(4, 20, 2, 3, 2),
    "one number": normals(4, 20),
    "ties": normals(4, 50, 3).round(),
    "two values": (normals(4, 50, 3) > 1).astype(float),
    # Folded around their median, these are all the same.
    "signs": np.where(np.arange(200).reshape(4, 50, 1) % 2, normals(1, 1, 3), -normals(1, 1, 3)),
    "memory": walk(4, 200, 3),
    "large offset": 1e6 + normals(4, 50, 3),
    "heavy tails": normals(4, 50, 3) / normals(4, 50, 3, seed=1),
    "shifted chain": normals(4, 50, 3) + np.array([0, 0, 0, 5.0])[:, None, None],
    "single precision": normals(4, 50, 3).astype(np.float32),
}


def converged_limit(values: np.ndarray) -> float:
    """Largest R-hat of independent normal draws, over all entries and the folding.

    Of m half chains of n draws, R-hat squared is (n - 1 + F) / n with F of m - 1 and m (n - 1)
    degrees of freedom.
    """
    chains, draws, entries = values.shape
    halves, length = 2 * chains, draws // 2
    quantile = f.isf(FALSE_ALARM / (2 * entries), halves - 1, halves * (length - 1))
    return float(np.sqrt((length - 1 + quantile) / length))


def rhat_by_definition(values: np.ndarray) -> float:
    """Split R-hat of one entry `(chains, draws)`, as Vehtari et al. (2021) write it."""
    half = values.shape[1] // 2
    halves = np.concatenate([values[:, :half], values[:, -half:]])
    results = []
    for numbers in (halves, np.abs(halves - np.median(halves))):
        ranks = rankdata(numbers).reshape(numbers.shape)
        scores = norm.ppf((ranks - 3 / 8) / (numbers.size + 1 / 4))
        between = half * scores.mean(1).var(ddof=1)
        within = scores.var(1, ddof=1).mean()
        results.append(np.sqrt(((half - 1) / half * within + between / half) / within))
    return max(results)


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_rhat_is_arviz_s(values):
    with np.errstate(invalid="ignore"):
        # In double precision: folded in single, more values would be tied.
        expected = array_stats.rhat(values.astype(float), chain_axis=0, draw_axis=1)
    found = rhat(values)
    assert found.shape == values.shape[2:]
    assert found.dtype == np.float64
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("at_once", [1, 7 * 24, 10**6])
def test_entries_may_be_ranked_in_parts(at_once, monkeypatch):
    values = np.random.default_rng(0).normal(size=(4, 6, 5, 4)).cumsum(1)
    expected = rhat(values)
    monkeypatch.setattr(convergence, "AT_ONCE", {"cpu": at_once, "cuda": at_once})
    np.testing.assert_allclose(rhat(values), expected, rtol=1e-12)


def test_one_chain_is_split_too():
    # ArviZ asks for two chains; a single one can still be compared with itself.
    values = normals(1, 60, 4)
    values[:, 30:, 3] += 3
    expected = [rhat_by_definition(values[..., entry]) for entry in range(4)]
    np.testing.assert_allclose(rhat(values), expected, rtol=1e-10)
    assert rhat(values)[3] > converged_limit(values) > rhat(values)[:3].max()


@pytest.mark.parametrize("draws", [4, 20, 98])
@pytest.mark.parametrize("chains", [2, 3, 4, 5])
def test_chains_that_stand_still_apart_have_infinite_rhat(chains, draws):
    # The mean of 49 equal numbers is not that number: chains may seem to move by rounding.
    places = np.arange(chains, dtype=float)[:, None, None]
    values = np.broadcast_to(0.1 + places, (chains, draws, 2))
    assert (rhat(values) == np.inf).all()


@pytest.mark.parametrize("chains", [1, 3, 4, 5])
def test_an_entry_that_never_moves_has_no_rhat_nor_ess(chains):
    values = normals(chains, 98, 3)
    values[:, :, 1] = 0.1
    for found in (rhat(values), *(ess(values, method) for method in METHODS)):
        np.testing.assert_array_equal(np.isnan(found), [False, True, False])
    assert np.isnan(ess(np.full((4, 20, 2), 0.1))).all()


def test_nan_among_the_draws_is_not_hidden():
    values = normals(4, 20, 3)
    values[2, 7, 0] = np.nan
    np.testing.assert_array_equal(np.isnan(rhat(values)), [True, False, False])


@pytest.mark.parametrize("draws", [1, 2, 3])
def test_too_few_draws_have_no_rhat_nor_ess(draws):
    values = normals(4, draws, 3, 2)
    for found in (rhat(values), ess(values)):
        assert found.shape == (3, 2)
        assert np.isnan(found).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_ess_is_arviz_s(values, method):
    options = {"prob": (0.05, 0.95)} if method == "tail" else {}
    expected = array_stats.ess(values, chain_axis=0, draw_axis=1, method=method, **options)
    found = ess(values, method)
    assert found.shape == values.shape[2:]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("draws", [4, 5, 6, 7, 8, 9, 10, 33])
@pytest.mark.parametrize("memory", [-0.9, 0.0, 1.0])
def test_wherever_the_sequence_of_correlations_ends(draws, memory):
    values = normals(2, draws, 60)
    for draw in range(1, draws):
        values[:, draw] += memory * values[:, draw - 1]
    np.testing.assert_allclose(ess(values), array_stats.ess(values, 0, 1), rtol=1e-10)


def test_what_moves_only_in_the_middle_has_the_ess_of_its_size():
    """The middle draw of an odd number is left out, and the others are all the same."""
    values = np.zeros((4, 5, 2))
    values[:, 2] = normals(4, 2)
    assert (ess(values) == array_stats.ess(values, 0, 1)).all()
    assert (ess(values) == 16).all()


def test_entries_are_taken_some_at_a_time(monkeypatch):
    values = normals(2, 20, 7)
    whole = rhat(values), ess(values)
    monkeypatch.setitem(convergence.AT_ONCE, "cpu", 2 * 2 * 20)
    monkeypatch.setitem(convergence.AT_ONCE, "cuda", 2 * 2 * 20)
    for own, expected in zip((rhat(values), ess(values)), whole, strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-12)


def test_memory_lowers_the_ess():
    # The sum of correlations of this walk is (1 + 0.9) / (1 - 0.9) = 19.
    draws = 4 * 2000
    assert 0.5 < np.median(ess(normals(4, 2000, 20))) / draws < 2
    assert 0.5 < np.median(ess(walk(4, 2000, 20))) / (draws / 19) < 2


def test_converged_chains_pass():
    values = normals(4, 500, 50)
    assert rhat(values).max() < converged_limit(values) < 1.05


@pytest.mark.parametrize(("chains", "draws", "entries"), [(4, 10, 20), (4, 20, 50), (1, 50, 20)])
def test_independent_draws_stay_below_what_chance_explains(chains, draws, entries):
    limit = convergence.rhat_by_chance(chains, draws, entries)
    worst = [rhat(normals(chains, draws, entries, seed=seed)).max() for seed in range(300)]
    # One in a hundred is meant to exceed it: four standard errors.
    assert np.mean(np.array(worst) > limit) < 0.01 + 4 * (0.01 * 0.99 / 300) ** 0.5
    # But chance does not explain all.
    assert rhat(walk(chains, 10 * draws, entries).cumsum(1)[:, ::10]).max() > limit


def shift(values: np.ndarray) -> None:
    values[0] += 1


def widen(values: np.ndarray) -> None:
    values[0] *= 3


def drift(values: np.ndarray) -> None:
    values += np.linspace(-1, 1, values.shape[1])[:, None]


@pytest.mark.parametrize("disturb", [shift, widen, drift])
def test_chains_that_disagree_are_convicted(disturb):
    values = normals(4, 500, 50)
    disturb(values)
    assert rhat(values).min() > 1.05 > converged_limit(values)
