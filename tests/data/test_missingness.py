"""The mechanisms see the right share of the entries, in the right places."""

import numpy as np
import pytest
from scipy.ndimage import label

from plmcmc.data.missingness import (
    CentreSquare,
    Checkerboard,
    Independent,
    Mechanism,
    Patch,
    RightHalf,
    SquareObservation,
    _random_rectangles,
)
from plmcmc.data.table_missingness import MissingAtRandom, MissingNotAtRandom, _standardised

# Standard errors a sum of independent draws may be off; one correct test in 150,000 fails.
DEVIATIONS = 4.5

IMAGE_MECHANISMS: list[Mechanism] = [
    Patch(0.4),
    SquareObservation(0.6),
    Checkerboard(2, 1),
    CentreSquare(3),
    RightHalf(),
]
TABLE_MECHANISMS: list[Mechanism] = [MissingAtRandom(0.3), MissingNotAtRandom(0.3)]
RANDOM_MECHANISMS = [Independent(0.4), Patch(0.4), SquareObservation(0.6), *TABLE_MECHANISMS]


def name(mechanism: Mechanism) -> str:
    return type(mechanism).__name__


def data_for(mechanism: Mechanism) -> np.ndarray:
    shape = (40, 6) if mechanism in TABLE_MECHANISMS else (40, 8, 9)
    return np.random.default_rng(1).normal(size=shape)


def normal_table(rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(rows, columns))


def assert_share(missing: np.ndarray, rate: float) -> None:
    """The share lies within the binomial error; unequal probabilities only make it smaller."""
    error = np.sqrt(rate * (1 - rate) / missing.size)
    assert abs(missing.mean() - rate) <= DEVIATIONS * error


def difference_in_errors(values: np.ndarray, missing: np.ndarray) -> float:
    """Mean of the missing less mean of the seen values, in standard errors."""
    groups = values[missing], values[~missing]
    error = np.sqrt(sum(group.var() / group.size for group in groups))
    return float((groups[0].mean() - groups[1].mean()) / error)


def pieces(image: np.ndarray) -> int:
    """Number of connected pieces of True pixels."""
    labels = np.zeros(image.shape, dtype=int)
    label(image, output=labels)
    return int(labels.max())


def clipped_lengths(length: int) -> np.ndarray:
    """Probabilities of a rectangle's side within the image being 0, 1, ..., length."""
    probabilities = np.zeros(length + 1)
    longest = (length + 1) // 2
    for side in range(1, longest + 1):
        starts = np.arange(1 - side, length)
        inside = np.minimum(starts + side, length) - np.maximum(starts, 0)
        np.add.at(probabilities, inside, 1 / (longest * starts.size))
    return probabilities


@pytest.mark.parametrize("mechanism", RANDOM_MECHANISMS, ids=name)
def test_seed_fixes_the_pattern(mechanism):
    x = data_for(mechanism)
    observed = mechanism(x, 3)
    assert observed.dtype == bool
    assert observed.shape == x.shape
    np.testing.assert_array_equal(mechanism(x, 3), observed)
    np.testing.assert_array_equal(mechanism(x, np.random.default_rng(3)), observed)
    assert (mechanism(x, 4) != observed).any()
    assert (mechanism(x) != mechanism(x)).any()


def test_a_generator_moves_on():
    rng, x = np.random.default_rng(3), np.zeros((40, 6))
    assert (Independent(0.5)(x, rng) != Independent(0.5)(x, rng)).any()


@pytest.mark.parametrize("mechanism", IMAGE_MECHANISMS, ids=name)
def test_channels_go_together(mechanism):
    observed = mechanism(np.zeros((5, 3, 8, 9)), 0)
    assert observed.shape == (5, 3, 8, 9)
    for channel in range(3):
        np.testing.assert_array_equal(observed[:, channel], mechanism(np.zeros((5, 8, 9)), 0))
    last = mechanism(np.zeros((5, 8, 9, 3)), 0)
    np.testing.assert_array_equal(last.transpose(0, 3, 1, 2), observed)


@pytest.mark.parametrize("mechanism", IMAGE_MECHANISMS, ids=name)
def test_result_is_writable_and_no_rows_are_fine(mechanism):
    observed = mechanism(np.zeros((2, 8, 9)), 0)
    first = observed[0].copy()
    observed[1] = ~observed[1]
    np.testing.assert_array_equal(observed[0], first)
    assert mechanism(np.zeros((0, 8, 9)), 0).shape == (0, 8, 9)


@pytest.mark.parametrize("mechanism_class", [Independent, Patch, SquareObservation])
def test_rate_0_sees_all_and_rate_1_nothing(mechanism_class):
    x = np.zeros((10, 7, 7))
    assert mechanism_class(0)(x, 0).all()
    assert not mechanism_class(1)(x, 0).any()


def test_independent_is_the_protocol_bit_for_bit():
    x = np.zeros((2000, 12))
    missing = np.random.default_rng(7).random(x.shape) < 0.3
    np.testing.assert_array_equal(Independent(0.3)(x, 7), ~missing)
    assert_share(missing, 0.3)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.6, 0.97])
@pytest.mark.parametrize("size", [(28, 28), (5, 11), (1, 9)])
def test_patch_misses_the_exact_number_of_pixels(rate, size):
    missing = ~Patch(rate)(np.zeros((5000, *size)), 0)
    assert set(missing.sum(axis=(1, 2))) == {round(rate * size[0] * size[1])}


def test_patch_removes_connected_pieces():
    count, rows = 5, 2000
    missing = ~Patch(count / 784)(np.zeros((rows, 28, 28)), 0)
    connected = np.mean([pieces(image) == 1 for image in missing])
    # A first rectangle of `count` pixels or more is trimmed, and must stay in one piece.
    sides = clipped_lengths(28)
    enough = np.outer(np.arange(29), np.arange(29)) >= count
    probability = np.outer(sides, sides)[enough].sum()
    error = np.sqrt(probability * (1 - probability) / rows)
    assert connected >= probability - DEVIATIONS * error


def test_rectangles_of_a_patch_have_the_sides_and_places_it_says():
    rows = 20_000
    inside = _random_rectangles((rows, 28, 28), np.random.default_rng(0))
    expected = clipped_lengths(28)
    # Of sides along one axis, as far as they lie within; both axes are alike and independent.
    for axis, other in ((1, 2), (2, 1)):
        lengths = np.bincount(inside.any(axis=other).sum(axis=1), minlength=29) / rows
        error = np.sqrt(expected * (1 - expected) / rows)
        assert (np.abs(lengths - expected) <= DEVIATIONS * error + 1e-12).all(), axis
    # It hits every pixel as often as any other.
    share = inside.mean(axis=0)
    probability = (expected @ np.arange(29) / 28) ** 2
    error = np.sqrt(probability * (1 - probability) / rows)
    assert np.abs(share - probability).max() <= DEVIATIONS * error


def test_patch_favours_neither_side():
    # Under symmetry the numbers of missing pixels in two opposite halves have the same mean.
    missing = ~Patch(0.1)(np.zeros((4000, 10, 10)), 0)
    for halves in (np.split(missing, 2, axis=1), np.split(missing, 2, axis=2)):
        difference = halves[0].sum(axis=(1, 2)) - halves[1].sum(axis=(1, 2))
        error = difference.std() / np.sqrt(difference.size)
        assert abs(difference.mean()) <= DEVIATIONS * error


@pytest.mark.parametrize("rate", [0.25, 0.6, 0.9, 0.999])
def test_square_observation_sees_one_full_square(rate):
    rows, height, width = 3000, 9, 11
    observed = SquareObservation(rate)(np.zeros((rows, height, width)), 0)
    tall, wide = observed.any(axis=2).sum(axis=1), observed.any(axis=1).sum(axis=1)
    np.testing.assert_array_equal(tall, wide)
    np.testing.assert_array_equal(observed.sum(axis=(1, 2)), tall * wide)
    assert all(pieces(image) <= 1 for image in observed)
    area = (1 - rate) * height * width
    smaller, larger = np.floor(np.sqrt(area)), np.floor(np.sqrt(area)) + 1
    assert set(tall) <= {smaller, larger}
    # The area has two values, `gap` apart, whose mean is to be exactly `area`.
    gap, excess = larger**2 - smaller**2, area - smaller**2
    error = np.sqrt(excess * (gap - excess) / rows)
    assert abs(observed.sum() / rows - area) <= DEVIATIONS * error


def test_square_observation_uses_every_place():
    observed = SquareObservation(1 - 9 / 30)(np.zeros((2000, 5, 6)), 0)
    # Each of 3 x 4 places is left out with probability (11 / 12)**2000.
    assert len(np.unique(observed.reshape(2000, -1), axis=0)) == 12


@pytest.mark.parametrize("exact", [True, False])
def test_square_observation_favours_no_place(exact):
    rows, side = 6000, 3
    observed = SquareObservation(1 - side**2 / 30, exact)(np.zeros((rows, 5, 6)), 0)
    top, left = observed.any(axis=2).argmax(axis=1), observed.any(axis=1).argmax(axis=1)
    places = np.bincount(4 * top + left, minlength=12)
    assert len(places) == 12
    error = np.sqrt(rows * (1 / 12) * (11 / 12))
    assert np.abs(places - rows / 12).max() <= DEVIATIONS * error


@pytest.mark.parametrize(("rate", "side"), [(0.3, 23), (0.6, 18), (0.8, 13), (0.9, 9)])
def test_an_inexact_square_has_the_nearest_side(rate, side):
    observed = SquareObservation(rate, exact=False)(np.zeros((50, 28, 28)), 0)
    assert set(observed.any(axis=2).sum(axis=1)) == {side}
    assert set(observed.sum(axis=(1, 2))) == {side**2}


def test_square_observation_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"4 x 8 pixels, got 0\.3; use a rate of at least 0\.5"):
        SquareObservation(0.3)(np.zeros((2, 4, 8)), 0)
    observed = SquareObservation(0.5)(np.zeros((20, 4, 8)), 0)
    assert set(observed.sum(axis=(1, 2))) == {16}


def test_checkerboard_blocks_alternate():
    x = np.zeros((2, 4, 5))
    expected = np.array([[1, 1, 0, 0, 1], [1, 1, 0, 0, 1], [0, 0, 1, 1, 0], [0, 0, 1, 1, 0]])
    np.testing.assert_array_equal(Checkerboard(2)(x), np.stack([expected == 1] * 2))
    np.testing.assert_array_equal(Checkerboard(2, phase=1)(x), np.stack([expected == 0] * 2))


def test_centre_square_is_in_the_middle():
    missing = ~CentreSquare(2)(np.zeros((2, 4, 6)))
    expected = np.zeros((2, 4, 6), dtype=bool)
    expected[:, 1:3, 2:4] = True
    np.testing.assert_array_equal(missing, expected)
    with pytest.raises(ValueError, match=r"fit into 4 x 6 pixels, got 5; use a smaller"):
        CentreSquare(5)(np.zeros((2, 4, 6)))


def test_right_half_starts_in_the_middle():
    observed = RightHalf()(np.zeros((2, 3, 7)))
    assert observed[:, :, :3].all()
    assert not observed[:, :, 3:].any()


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.6])
def test_missing_at_random_has_its_rate_and_seen_columns(rate):
    missing = ~MissingAtRandom(rate, always_seen=0.3)(normal_table(5000, 10), 0)
    hit = missing.any(axis=0)
    assert hit.sum() == 7
    for column in np.flatnonzero(hit):
        assert_share(missing[:, column], rate * 10 / 7)


def test_missing_at_random_depends_on_the_seen_column_only():
    x = normal_table(20_000, 4)
    missing = ~MissingAtRandom(0.3, always_seen=0.25)(x, 0)
    (seen,) = np.flatnonzero(~missing.any(axis=0))
    for column in np.flatnonzero(missing.any(axis=0)):
        # Independent missingness would stay below this with near certainty.
        assert abs(difference_in_errors(x[:, seen], missing[:, column])) > 2 * DEVIATIONS
        # The columns are independent, so a column's own values must not matter.
        assert abs(difference_in_errors(x[:, column], missing[:, column])) < DEVIATIONS


def test_missing_at_random_columns_have_their_own_scores():
    x = normal_table(20_000, 6)
    missing = ~MissingAtRandom(0.25, always_seen=0.5)(x, 0)
    seen, other = np.flatnonzero(~missing.any(axis=0)), np.flatnonzero(missing.any(axis=0))
    effects = [[difference_in_errors(x[:, s], missing[:, o]) for s in seen] for o in other]
    directions = np.array(effects) / np.linalg.norm(effects, axis=1, keepdims=True)
    assert np.abs(directions @ directions.T)[np.triu_indices(3, 1)].max() < 0.99


def test_missing_at_random_strength_0_is_independent_of_the_seen_column():
    x = normal_table(20_000, 2)
    missing = ~MissingAtRandom(0.3, strength=0)(x, 0)
    (seen,) = np.flatnonzero(~missing.any(axis=0))
    assert abs(difference_in_errors(x[:, seen], missing[:, 1 - seen])) < DEVIATIONS


@pytest.mark.parametrize("columns", range(2, 20))
def test_missing_at_random_reaches_its_largest_rate(columns):
    seen = max(1, round(0.3 * columns))
    observed = MissingAtRandom(1 - seen / columns)(normal_table(50, columns), 0)
    assert observed.all(axis=0).sum() == seen
    assert observed.any(axis=0).sum() == seen


def test_missing_at_random_refuses_a_rate_out_of_reach():
    message = r"at most 0\.7 with 3 of 10 columns seen, got 0\.8; lower rate or always_seen"
    with pytest.raises(ValueError, match=message):
        MissingAtRandom(0.8)(normal_table(20, 10))
    with pytest.raises(ValueError, match="at most 0 with 1 of 1 columns"):
        MissingAtRandom(0.1)(normal_table(20, 1))
    assert MissingAtRandom(0)(normal_table(20, 1)).all()


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
def test_missing_not_at_random_has_its_rate_and_prefers_large_values(rate):
    # The skewed scale and the shift must not matter.
    x = np.exp(normal_table(5000, 4)) * [1, 1e-6, 1e6, 1] - 5
    for strength, sign in ((2.0, 1), (-2.0, -1)):
        missing = ~MissingNotAtRandom(rate, strength)(x, 0)
        for column in range(4):
            assert_share(missing[:, column], rate)
            difference = difference_in_errors(x[:, column], missing[:, column])
            assert sign * difference > DEVIATIONS


@pytest.mark.parametrize("rate", [0.0, 1e-300, 1 - 1e-16, 1.0])
@pytest.mark.parametrize("mechanism_class", [MissingAtRandom, MissingNotAtRandom])
def test_extreme_rates_are_solved(rate, mechanism_class):
    x = normal_table(100, 4)
    if mechanism_class is MissingAtRandom:
        rate *= 0.75
    missing = ~mechanism_class(rate)(x, 0)
    assert missing.sum() == (0 if rate < 0.5 else round(rate * x.size))


@pytest.mark.parametrize("mechanism", TABLE_MECHANISMS, ids=name)
def test_constant_columns_are_missing_at_the_rate(mechanism):
    # 0.1 is not exact in binary: the column's mean is off by rounding.
    missing = ~mechanism(np.full((5000, 4), 0.1), 0)
    hit = missing.any(axis=0)
    for column in np.flatnonzero(hit):
        assert_share(missing[:, column], 0.3 * 4 / hit.sum())


def test_constant_columns_are_standardised_to_0():
    # The mean of these is not exactly 0.1, so that their computed spread is not 0.
    assert not _standardised(np.full((5000, 1), 0.1)).any()


@pytest.mark.parametrize("mechanism", TABLE_MECHANISMS, ids=name)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_tables_must_be_finite(mechanism, value):
    x = np.zeros((5, 3))
    x[3, 1] = x[4, 0] = value
    with pytest.raises(ValueError, match=rf"got {value} at row 3, column 1; start from complete"):
        mechanism(x)


@pytest.mark.parametrize("mechanism", TABLE_MECHANISMS, ids=name)
@pytest.mark.parametrize("shape", [(5,), (5, 3, 3), (0, 3), (5, 0)])
def test_tables_must_have_rows_and_columns(mechanism, shape):
    with pytest.raises(ValueError, match=r"shape \(rows, columns\).*got shape \(.*reshape"):
        mechanism(np.zeros(shape))


@pytest.mark.parametrize("mechanism", IMAGE_MECHANISMS, ids=name)
@pytest.mark.parametrize("shape", [(5,), (5, 784), (5, 1, 1, 8, 8), (5, 0, 8), (5, 8, 0)])
def test_images_must_have_height_and_width(mechanism, shape):
    message = r"images of shape.*got shape \(5,.*reshape first, e\.g\. digits to \(rows, 28, 28\)"
    with pytest.raises(ValueError, match=message):
        mechanism(np.zeros(shape))


@pytest.mark.parametrize("rate", [-0.1, 1.1, 30, np.nan, "0.3", None])
@pytest.mark.parametrize("mechanism_class", [type(known) for known in RANDOM_MECHANISMS])
def test_rate_must_be_a_share(mechanism_class, rate):
    with pytest.raises(
        ValueError, match=rf"expected rate in \[0, 1\], got {rate!r}; give a fraction"
    ):
        mechanism_class(rate)


@pytest.mark.parametrize(
    ("mechanism_class", "parameters", "message"),
    [
        (MissingAtRandom, {"rate": 0.1, "always_seen": 3}, r"always_seen in \[0, 1\], got 3"),
        (MissingAtRandom, {"rate": 0.1, "strength": np.inf}, "strength to be finite, got inf"),
        (MissingNotAtRandom, {"rate": 0.1, "strength": "2"}, "strength to be finite, got '2'"),
        (Checkerboard, {"block": 0}, "block to be a whole number >= 1, got 0"),
        (Checkerboard, {"block": 1.5}, r"block to be a whole number >= 1, got 1\.5"),
        (Checkerboard, {"phase": 2}, "phase to be 0 or 1, got 2; 0 means that the top left"),
        (CentreSquare, {"size": np.inf}, "size to be a whole number >= 1, got inf"),
        (CentreSquare, {"size": -1}, "size to be a whole number >= 1, got -1"),
    ],
)
def test_parameters_are_checked(mechanism_class, parameters, message):
    with pytest.raises(ValueError, match=message):
        mechanism_class(**parameters)
