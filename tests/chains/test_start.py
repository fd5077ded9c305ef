"""Where chains begin."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm

import plmcmc
from flow_cases import shaken
from plmcmc.chains import FromObserved, Given, Unconditional
from plmcmc.data import DataError, Incomplete
from plmcmc.flows import Absolute, Glow, Linear, log_prob
from plmcmc.rng import Streams
from toys import DEVIATIONS, Bounded, Watched, correlated, quiet


def streams(rows, seed=0, chains=1):
    return Streams.of_rows(seed, "start", rows, chains=chains)


def half_seen(rows, *event):
    """Rows whose values name their place, half of them seen."""
    values = torch.arange(rows * int(np.prod(event)), dtype=torch.float64).reshape(rows, *event)
    observed = torch.rand(values.shape, generator=torch.Generator().manual_seed(0)) < 0.5
    return Incomplete(values, observed)


class Overflowing:
    """Decodes no latents beyond 1.5."""

    def to_data(self, z):
        return torch.where(z.abs() > 1.5, torch.nan, z), torch.zeros(len(z))

    def latent_sample(self, rows, generator):
        return torch.randn(rows, 2, generator=generator)


class TestUnconditional:
    ROWS = 4000

    def hidden(self):
        return Incomplete(torch.zeros(self.ROWS, 3).double(), torch.zeros(self.ROWS, 3).bool())

    @pytest.mark.parametrize("temperature", [1.0, 0.5, 0.1])
    def test_deviation_is_the_flows_times_the_temperature(self, temperature):
        flow = correlated()
        y = Unconditional(temperature)(flow, self.hidden(), streams(self.ROWS)).detach().numpy()
        scale = (flow.factor() @ flow.factor().T).diagonal().sqrt().detach().numpy() * temperature
        # Of n normals, the mean has error scale / sqrt(n), and the deviation scale / sqrt(2 n).
        off = np.abs(y.mean(0) - flow.shift.detach().numpy()) / (scale / np.sqrt(self.ROWS))
        spread = np.abs(y.std(0) - scale) / (scale / np.sqrt(2 * self.ROWS))
        assert np.maximum(off, spread).max() < DEVIATIONS

    def test_latents_without_a_centre_are_cooled_about_their_own(self):
        glow = shaken(Glow((1, 4, 4), levels=2, steps=1, width=4, random_state=0), 0.2).eval()
        data = Incomplete(torch.zeros(8, 1, 4, 4), torch.zeros(8, 1, 4, 4).bool())
        cooled = (Unconditional(0.5)(chart, data, streams(8)) for chart in (glow, Absolute(glow)))
        torch.testing.assert_close(*cooled)

    def test_projected_puts_the_observed_values_in(self):
        data, flow = half_seen(20, 3), correlated()
        y = Unconditional()(flow, data, streams(20))
        raw = Unconditional(projected=False)(flow, data, streams(20))
        assert torch.equal(y[data.observed], data.values[data.observed])
        assert torch.equal(y[~data.observed], raw[~data.observed])
        assert not torch.isclose(raw, data.values).any()

    def test_every_place_has_its_own(self):
        data = half_seen(70, 3).repeat(2)
        y = Unconditional(projected=False)(correlated(), data, streams(70, chains=2))
        assert len(y.unique()) == y.numel()

    def test_one_pass_each_way_whatever_the_number_of_blocks(self):
        flow = Watched(correlated())
        Unconditional()(flow, half_seen(300, 3), streams(300))
        assert flow.calls == {"to_data": 1, "to_latent": 1}
        assert flow.rows == [300, 300]

    def test_places_without_density_are_drawn_again(self):
        flow, data = Bounded(), Bounded.seen(torch.linspace(-1.2, 1.2, 300).double())
        y = Unconditional()(flow, data, streams(300))
        assert torch.equal(y[:, 1], data.values[:, 1])
        assert bool(torch.isfinite(log_prob(flow, y)).all())
        # Where the density is constant, what is left of the samples is the conditional.
        low, high = ((y[:, 1] + side).clamp(-1, 1) for side in (-Bounded.width, Bounded.width))
        assert kstest(((y[:, 0] - low) / (high - low)).numpy(), "uniform").pvalue > 1e-4
        # What a block gets does not depend on what others lack.
        assert torch.equal(Unconditional()(flow, data.select(slice(64)), streams(64)), y[:64])

    def test_where_there_is_no_density_the_start_ends_all_the_same(self):
        data = Bounded.seen(torch.full((5,), 2.0).double())
        y = Unconditional()(Bounded(), data, streams(5))
        assert bool((y[:, 1] == 2).all())

    def test_samples_that_overflow_are_drawn_again_closer_in(self):
        flow, data = Overflowing(), Incomplete(torch.zeros(200, 2), torch.zeros(200, 2).bool())
        start = Unconditional(projected=False)
        y = start(flow, data, streams(200))
        plain = flow.to_data(streams(200).draw(flow.latent_sample))[0]
        lost = plain.isnan().any(1)
        # Of two normals, one is beyond 1.5 in a quarter of the rows.
        assert 20 < int(lost.sum()) < 90
        assert torch.equal(y[~lost], plain[~lost])
        assert bool((y[lost].abs() <= 1.5).all())
        # Drawn again at half the temperature, or less, where hardly any is lost again.
        assert float(y[lost].std()) < 0.55
        # What a block gets does not depend on whether others overflow.
        first = Incomplete(data.values[:64], data.observed[:64])
        assert torch.equal(start(flow, first, streams(64)), y[:64])

    def test_rows_of_later_blocks_meet_their_own_contexts(self):
        """A flow with contexts knows its rows by their place in the batch."""

        class Shifted:
            context = torch.arange(300.0)[:, None]

            def to_data(self, z):
                return z + self.context[: len(z)], torch.zeros(len(z))

            def latent_sample(self, rows, generator):
                return torch.zeros(rows, 1)

        data = Incomplete(torch.zeros(300, 1), torch.zeros(300, 1).bool())
        y = Unconditional(projected=False)(Shifted(), data, streams(300))
        assert torch.equal(y, Shifted.context)


class TestFromObserved:
    @pytest.mark.parametrize("event", [(6,), (3, 4)])
    def test_holes_hold_values_that_the_row_has_seen(self, event):
        data = half_seen(50, *event)
        data = Incomplete(data.values, data.observed | (torch.arange(event[-1]) == 0))
        y = FromObserved()(Linear(1), data, streams(50))
        for row in range(50):
            seen = data.values[row][data.observed[row]].tolist()
            assert set(y[row][~data.observed[row]].tolist()) <= set(seen)
        assert torch.equal(y[data.observed], data.values[data.observed])

    def test_every_seen_value_is_as_likely(self):
        rows, seen = 3000, 3
        values = torch.arange(5.0).expand(rows, 5)
        observed = torch.tensor([True, False, True, True, False]).expand(rows, 5)
        y = FromObserved()(Linear(1), Incomplete(values, observed), streams(rows))
        filled = y[:, 1]
        for value in (0, 2, 3):
            share = float((filled == value).double().mean())
            error = np.sqrt(1 / seen * (1 - 1 / seen) / rows)
            assert abs(share - 1 / seen) < norm.isf(1e-5) * error

    def test_holes_of_a_row_are_filled_apart(self):
        values = torch.arange(20.0).expand(40, 20)
        observed = (torch.arange(20) < 10).expand(40, 20)
        y = FromObserved()(Linear(1), Incomplete(values, observed), streams(40))
        assert min(len(row.unique()) for row in y[:, 10:]) > 1
        assert not torch.equal(y[0], y[1])

    def test_images_copy_whole_pixels(self):
        rows, channels, side = 30, 3, 4
        # The channels of one pixel differ by exactly 100 and 200.
        pixels = torch.arange(side * side, dtype=torch.float64).reshape(1, 1, side, side)
        offsets = 100.0 * torch.arange(channels).reshape(1, -1, 1, 1)
        values = (pixels + offsets).expand(rows, channels, side, side)
        pixel_seen = torch.rand(rows, 1, side, side, generator=torch.Generator().manual_seed(1))
        observed = (pixel_seen < 0.4).expand_as(values)
        y = FromObserved()(Linear(1), Incomplete(values, observed), streams(rows))
        assert torch.equal(y - y[:, :1], offsets.expand_as(y))
        for row in range(rows):
            seen = set(values[row, 0][observed[row, 0]].tolist())
            assert set(y[row, 0].flatten().tolist()) <= seen
        last = Incomplete(values.movedim(1, -1), observed.movedim(1, -1))
        again = FromObserved()(Linear(1), last, streams(rows))
        assert torch.equal(again.movedim(-1, 1), y)

    def test_a_pixel_seen_in_part_is_not_copied_and_keeps_what_was_seen(self):
        values = torch.tensor([[1.0, 2.0], [10.0, 20.0]]).reshape(1, 2, 1, 2)
        observed = torch.tensor([[True, True], [True, False]]).reshape(1, 2, 1, 2)
        y = FromObserved()(Linear(1), Incomplete(values, observed), streams(1))
        assert y.flatten().tolist() == [1, 2, 10, 10]

    def test_refuses_a_row_that_has_seen_nothing(self):
        data = half_seen(4, 3)
        observed = data.observed.clone()
        observed[2] = False
        with pytest.raises(DataError, match="a row has none: start from Unconditional"):
            FromObserved()(Linear(1), Incomplete(data.values, observed), streams(4))


def close(found, expected):
    # Coordinates are warped, and a start goes there and back.
    return np.allclose(found, expected, rtol=1e-12, atol=1e-12)


class TestGiven:
    X = np.array([[1.0, np.nan, np.nan], [np.nan, 2.0, np.nan], [1.0, 2.0, 3.0], [np.nan, 0, 0]])

    def started(self, completion, chains=2, x=X, **options):
        """Where a chain that cannot move starts."""
        frozen = plmcmc.methods.DataMetropolis(step=1e-300)
        posterior = plmcmc.condition(correlated(), x)
        with quiet():
            return posterior.sample(
                4, chains=chains, method=frozen, start=Given(completion), warmup=0, **options
            ).values[:, 0]

    def test_one_per_row(self):
        given = torch.arange(12.0).reshape(4, 3).double()
        expected = np.where(np.isnan(self.X), given.numpy(), self.X)
        assert close(self.started(given), np.stack([expected] * 2))

    def test_one_per_row_and_chain(self):
        given = torch.arange(24.0).reshape(2, 4, 3).double()
        expected = np.where(np.isnan(self.X), given.numpy(), self.X)
        assert close(self.started(given), expected)

    def test_rows_keep_their_starts_in_later_chunks(self):
        x = np.full((150, 3), np.nan)
        x[::7] = 1.0
        given = torch.arange(450.0).reshape(150, 3).double() / 100
        expected = np.where(np.isnan(x), given.numpy(), x)
        assert close(self.started(given, x=x, chunk_rows=64)[1], expected)

    def test_arrays_of_numpy(self, tmp_path):
        given = np.arange(12.0).reshape(4, 3)
        expected = np.where(np.isnan(self.X), given, self.X)
        assert close(self.started(given, checkpoint=tmp_path / "run")[0], expected)

    def test_what_it_says_of_observed_entries_is_not_read(self):
        given = torch.where(torch.as_tensor(self.X).isnan(), 1.0, torch.nan)
        assert np.isfinite(self.started(given)).all()

    @pytest.mark.parametrize(
        ("shape", "message"),
        [
            ((4, 2), r"event \(3,\); got \(4, 2\)"),
            ((3,), r"event \(3,\); got \(3,\)"),
            ((1, 2, 4, 3), r"event \(3,\); got \(1, 2, 4, 3\)"),
            ((3, 4, 3), "a start for 3 chains was given, but 2 are to run"),
            ((3, 3), "a row for every row of x"),
            ((2, 3, 3), "a row for every row of x"),
            ((5, 3), "a row for every row of x"),
            ((2, 5, 3), "a row for every row of x"),
        ],
    )
    def test_refuses_other_shapes(self, shape, message):
        with pytest.raises(DataError, match=message):
            self.started(torch.zeros(shape))

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_refuses_what_is_not_finite(self, value):
        given = torch.zeros(4, 3)
        given[3, 0] = value
        with pytest.raises(DataError, match="must be finite"):
            self.started(given)

    def test_refuses_a_batch_of_another_size(self):
        with pytest.raises(DataError, match=r"must have shape \(4, 3\); got \(2, 3\)"):
            Given(torch.zeros(2, 3))(Linear(3), half_seen(4, 3), streams(4))
