"""Calibration passes exact samplers and convicts others."""

import numpy as np
import pytest
import torch

import plmcmc
from exact import shaken
from plmcmc.cli import main
from plmcmc.data import DataError, Independent
from plmcmc.diagnostics import calibrate
from plmcmc.diagnostics.calibration import _drawn
from plmcmc.flows import sample
from plmcmc.posterior import methods
from plmcmc.statistics import rank_p_value, shared_rank_p_value
from toys import Bounded


def flow():
    return shaken(plmcmc.RealNVP(5, width=16, random_state=0), 0.7)


def test_the_default_sampler_is_calibrated():
    found = calibrate(flow(), Independent(0.5), rows=128, random_state=0)
    assert found.passed
    assert found.verdict.startswith("Calibrated")
    assert set(found.ranks) == {"log p", *(f"projection {i}" for i in range(1, 5)), "entries"}
    for ranks in found.ranks.values():
        assert ranks.min() >= 0
        assert ranks.max() <= found.draws


def test_a_biased_sampler_is_convicted():
    method = methods.DataLangevin(1.2, adjusted=False)
    found = calibrate(flow(), Independent(0.5), rows=128, method=method, random_state=0)
    assert not found.passed
    assert found.verdict.startswith("NOT calibrated")


def test_chains_that_still_sit_at_their_start_are_convicted():
    covariance = torch.full((4, 4), 0.95) + 0.05 * torch.eye(4)
    correlated = plmcmc.Linear.of_moments(torch.zeros(4), covariance)
    method = methods.Metropolis(perturb=1e-4, resample=None)
    found = calibrate(correlated, Independent(0.5), rows=128, method=method, random_state=0)
    assert not found.passed


def test_a_constant_density_ties_all_draws_and_convicts_nobody():
    found = calibrate(Bounded(), Independent(0.5), rows=128, random_state=0)
    assert found.passed
    # Ties are broken by lot, over the whole of the range.
    assert len(np.unique(found.ranks["log p"])) > 20


def test_rank_tests_hold_their_level_and_have_power():
    rng = np.random.default_rng(0)
    uniform = [rank_p_value(rng.integers(0, 64, 256), 63, 8) for _ in range(400)]
    # Binomial(400, .05): four standard deviations.
    assert abs(np.mean(np.array(uniform) < 0.05) - 0.05) < 4 * (0.05 * 0.95 / 400) ** 0.5 + 0.01
    assert rank_p_value(rng.binomial(63, 0.5, 256), 63, 8) < 1e-6


def test_dependent_ranks_of_a_group_count_once():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(200), 20)
    shared, naive = [], []
    for _ in range(200):
        # All ranks of a group are one and the same: 4,000 ranks are worth 200.
        ranks = np.repeat(rng.integers(0, 64, 200), 20)
        shared.append(shared_rank_p_value(ranks, groups, 63, 8))
        naive.append(rank_p_value(ranks, 63, 8))
    assert abs(np.mean(np.array(shared) < 0.05) - 0.05) < 4 * (0.05 * 0.95 / 200) ** 0.5
    assert np.mean(np.array(naive) < 0.05) > 0.5
    skewed = np.repeat(rng.binomial(63, 0.5, 200), 20)
    assert shared_rank_p_value(skewed, groups, 63, 8) < 1e-6


@pytest.mark.parametrize("count", [32, 128])
def test_few_groups_of_few_ranks_are_not_convicted_by_chance(count):
    rng, found = np.random.default_rng(0), []
    for _ in range(400):
        groups = np.repeat(np.arange(count), rng.integers(1, 5, count))
        ranks = rng.integers(0, 64, len(groups))
        found.append(shared_rank_p_value(ranks, groups, 63, 8))
    # Binomial(400, .05): four standard deviations, and a little for what is not normal.
    assert np.mean(np.array(found) < 0.05) < 0.05 + 4 * (0.05 * 0.95 / 400) ** 0.5 + 0.01


class Overflowing(plmcmc.RealNVP):
    """Decodes no latents whose first coordinate is above 2."""

    limit = 2.0

    def to_data(self, z):
        x, log_det = super().to_data(z)
        return torch.where(z[:, :1] > self.limit, torch.nan, x), log_det


def test_samples_in_which_a_flow_overflows_are_no_data():
    overflowing = Overflowing(3, width=4, random_state=0).eval()
    source = torch.Generator().manual_seed(0)
    with torch.no_grad():
        assert not bool(torch.isfinite(sample(overflowing, 2000, source)).all())
        drawn = _drawn(overflowing, 2000, source)
        # The same rows once more, and which of them had been lost.
        again = [torch.Generator().manual_seed(1) for _ in range(2)]
        lost = ~torch.isfinite(sample(overflowing, 20_000, again[0])).all(1)
        redrawn = _drawn(overflowing, 20_000, again[1])[lost][:, 0]
    assert bool(torch.isfinite(drawn).all())
    # An untrained flow's samples are its latents: normals, the first below 2, of which the mean is
    # -.0553 and the deviation .9415.
    first = drawn[:, 0]
    assert abs(float(first.mean()) + 0.0553) < 4 * 0.9415 / 2000**0.5
    assert abs(float(first.std()) - 0.9415) < 4 * 0.9415 / 4000**0.5
    assert abs(float(redrawn.std()) - 0.9415) < 4 * 0.9415 / (2 * len(redrawn)) ** 0.5
    overflowing.limit = 1.0
    with pytest.raises(DataError, match=r"overflows on \d+ of 256 of its own samples"):
        calibrate(overflowing, Independent(0.5), random_state=0)


def test_bad_arguments():
    with pytest.raises(ValueError, match="at least 16 rows and 7 draws"):
        calibrate(flow(), Independent(0.5), draws=3)
    with pytest.raises(DataError, match="nothing was hidden"):
        calibrate(flow(), Independent(0.0), rows=16)
    with pytest.raises(DataError, match=r"16 rows with hidden values .* of 20 rows, 6 have any"):
        calibrate(flow(), lambda x, rng: np.arange(len(x))[:, None] + 0 * x >= 6, rows=20)
    for wrong in (0.5, "mcar", Independent):
        with pytest.raises(TypeError, match="missing must be a mechanism"):
            calibrate(flow(), wrong)


def test_what_is_printed_is_the_verdict_and_every_p_value():
    found = calibrate(flow(), Independent(0.5), rows=32, random_state=0)
    assert repr(found) == str(found)
    first, *rest = str(found).splitlines()
    assert first == found.verdict
    assert len(rest) == len(found.p_values)


def test_the_verdict_counts_rows_with_something_hidden():
    def some(x, rng):
        return np.arange(len(x))[:, None] + 0 * x >= 20

    found = calibrate(flow(), some, rows=64, draws=7, random_state=0)
    assert "as far as 20 rows with hidden values can tell" in found.verdict


def test_the_command(tmp_path, capsys):
    saved = plmcmc.save(flow(), tmp_path / "flow")
    picture = tmp_path / "ranks.png"
    code = main(["calibrate", str(saved), "--rows", "32", "--picture", str(picture)])
    assert code == 0
    assert "Calibrated" in capsys.readouterr().out
    assert picture.stat().st_size > 0
    assert main(["calibrate", str(tmp_path / "nothing")]) == 2


def test_the_command_looks_at_the_picture_s_place_first(tmp_path, monkeypatch, capsys):
    saved = plmcmc.save(flow(), tmp_path / "flow")
    argv = ["calibrate", str(saved), "--rows", "32", "--draws", "7", "--picture"]
    assert main([*argv, str(tmp_path / "new" / "ranks.png")]) in (0, 1)
    assert (tmp_path / "new" / "ranks.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("plmcmc.diagnostics.calibrate", None)
    assert main([*argv, str(tmp_path / "file" / "ranks.png")]) == 2
    assert "expected a directory to write to" in capsys.readouterr().err
