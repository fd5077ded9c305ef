"""The demo writes what it says it writes; its numbers are CI's to see."""

import numpy as np

import plmcmc
from plmcmc.cli import demo, main
from plmcmc.posterior import Draws
from plmcmc.training import Fitted


def test_it_writes_a_picture_a_model_and_the_draws(tmp_path, monkeypatch, capsys):
    def untrained(images, seed):
        steps = [plmcmc.flows.Flatten((8, 8))]
        flow = plmcmc.Preprocessed(steps, plmcmc.RealNVP(64, random_state=seed))
        return Fitted(flow, [0.0], [0.0], 1)

    def sampled(fitted, truth, observed, seed):
        values = np.broadcast_to(truth, (8, 6, *truth.shape)).copy()
        values += np.random.default_rng(seed).random(values.shape) * ~observed
        acceptance = np.full((8, len(truth)), 0.8)
        return Draws(values, observed, acceptance, 1, True, "auto", seed), ["a warning in words"]

    monkeypatch.setattr(demo, "trained_flow", untrained)
    monkeypatch.setattr(demo, "_sampled", sampled)
    assert main(["demo", "--output", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "R-hat, worst" in printed
    assert "a warning in words" in printed
    assert (tmp_path / "out" / "digits.png").read_bytes().startswith(b"\x89PNG")
    assert plmcmc.load(tmp_path / "out" / "digits-flow").flow.features == 64
    assert Draws.load(tmp_path / "out" / "digits-draws.safetensors").values.shape[0] == 8
