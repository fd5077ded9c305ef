"""Training Glow: norms that begin at the data, likelihoods that grow, less precision, resuming."""

import numpy as np
import pytest
import torch

from plmcmc.flows import ChannelsFirst, Dequantise, Glow, Preprocessed, load, save
from plmcmc.training import TrainingError, fit_flow
from plmcmc.training.fit import bits_per_value


def images(rows=128, seed=0):
    """Return smooth 8x8 pictures of integers 0 to 255."""
    rng = np.random.default_rng(seed)
    slope = rng.normal(size=(rows, 2, 1, 1, 3))
    grid = np.mgrid[-1:1:8j, -1:1:8j][None, ..., None]
    smooth = 128 + 40 * (slope * grid).sum(1) + 8 * rng.normal(size=(rows, 8, 8, 3))
    return np.clip(smooth, 0, 255).round()


def flow():
    inner = Glow((3, 8, 8), levels=2, steps=2, width=16, random_state=0)
    return Preprocessed([Dequantise(256), ChannelsFirst()], inner)


OPTIONS = {"epochs": 12, "batch_size": 32, "noise": 0.0, "random_state": 0}


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_glow_learns(precision):
    found = fit_flow(flow(), images(), precision=precision, **OPTIONS)
    first, best = (bits_per_value(nats, 192) for nats in (found.held_out[0], max(found.held_out)))
    # 8 bits say nothing of a picture; noise of deviation 8 costs log2(8 sqrt(2 pi e)) = 5.05.
    assert first < 7.5
    assert 5.0 < best < first - 0.2


def test_training_is_the_same_after_it_was_stopped(tmp_path, capsys):
    whole = fit_flow(flow(), images(), **OPTIONS)
    place = tmp_path / "checkpoint"
    half = flow()
    original, calls = half.flow.to_latent, []

    def some(x):
        calls.append(1)
        if len(calls) > 40:
            raise KeyboardInterrupt
        return original(x)

    half.flow.to_latent = some
    with pytest.raises(KeyboardInterrupt):
        fit_flow(half, images(), checkpoint=place, **OPTIONS)
    again = fit_flow(flow(), images(), checkpoint=place, progress=True, **OPTIONS)
    assert "Training: resuming at epoch" in capsys.readouterr().err
    assert again.held_out == whole.held_out


def test_what_was_trained_does_not_begin_anew(tmp_path):
    trained = fit_flow(flow(), images(), **OPTIONS)
    save(trained.flow, tmp_path / "flow")
    more = fit_flow(load(tmp_path / "flow"), images(), **OPTIONS | {"epochs": 1})
    assert more.held_out[0] > trained.held_out[0] + 20


def test_a_flow_with_weights_set_by_hand_is_normed_once():
    own, rows = flow(), []
    meet = own.flow.meet
    own.flow.meet = lambda x: (rows.append(len(x)), meet(x))
    assert not own.flow.met
    fit_flow(own, images(), **OPTIONS | {"epochs": 3})
    assert own.flow.met
    assert len(rows) == 1
    norm = own.flow.chain[0].chain[0].mixing.norm
    assert bool((norm.log_scale != 0).all())


def test_precisions_that_are_none():
    with pytest.raises(TrainingError, match=r"one of .*'float32', 'tf32', 'bfloat16'.*'half'"):
        fit_flow(flow(), images(), precision="half", **OPTIONS)


def test_a_row_of_full_bytes_costs_eight_bits_a_value():
    uniform = torch.tensor(1 / 256.0).log() * 192
    assert bits_per_value(float(uniform), 192) == pytest.approx(8.0)
