"""What is kept of weights is never older than they are."""

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import plmcmc
from plmcmc.flows import Glow, constant_weights, glow_layers, log_prob
from plmcmc.flows.passes.weight_cache import Kept


class Asked:
    """Counts how often it is asked."""

    def __init__(self):
        self.times = 0

    def __call__(self):
        self.times += 1
        return self.times


def test_found_once_until_a_weight_or_a_buffer_or_the_key_changes():
    kept, find = Kept(), Asked()
    weight, buffer = nn.Parameter(torch.zeros(2), requires_grad=False), torch.zeros(2)
    with constant_weights():
        assert [kept.get("a", find, (weight,), (buffer,), 1) for _ in range(3)] == [1, 1, 1]
        weight.add_(1)
        assert kept.get("a", find, (weight,), (buffer,), 1) == 2
        buffer.add_(1)
        assert kept.get("a", find, (weight,), (buffer,), 1) == 3
        assert kept.get("a", find, (weight,), (buffer,), 2) == 4
        assert kept.get("b", find, (weight,), (buffer,), 2) == 5
        assert kept.get("a", find, (weight,), (buffer,), 2) == 4


def test_nothing_is_kept_while_a_slope_is_wanted():
    kept, find, weight = Kept(), Asked(), nn.Parameter(torch.zeros(2))
    with constant_weights():
        assert [kept.get("a", find, (weight,)) for _ in range(2)] == [1, 2]
        with torch.no_grad():
            assert [kept.get("a", find, (weight,)) for _ in range(2)] == [3, 3]
        assert kept.get("a", find, (weight,)) == 4


def test_nothing_is_kept_without_a_promise_or_longer_than_it_lasts():
    kept, find, weight = Kept(), Asked(), nn.Parameter(torch.zeros(2), requires_grad=False)
    assert [kept.get("a", find, (weight,)) for _ in range(2)] == [1, 2]
    for number in (3, 4):
        with constant_weights():
            assert kept.get("a", find, (weight,)) == number
            with constant_weights():
                assert kept.get("a", find, (weight,)) == number
            assert kept.get("a", find, (weight,)) == number


def test_nothing_of_inference_mode_is_kept():
    kept, find, weight = Kept(), Asked(), nn.Parameter(torch.zeros(2), requires_grad=False)
    with constant_weights():
        with torch.inference_mode():
            assert kept.get("a", find, (weight,)) == 1
        assert kept.get("a", find, (weight,)) == 2


def test_copies_begin_with_nothing():
    kept, find, weight = Kept(), Asked(), nn.Parameter(torch.zeros(2), requires_grad=False)
    with constant_weights():
        kept.get("a", find, (weight,))
        assert copy.deepcopy(kept).get("a", find, (weight,)) == 2


@pytest.mark.parametrize("way", ["fused", "data"])
def test_changes_that_leave_no_trace_are_seen(way):
    flow, x = built(), torch.randn(3, 4, 8, 8)
    with torch.no_grad(), constant_weights():
        log_prob(flow, x)
    if way == "fused":
        optimizer = torch.optim.AdamW(flow.parameters(), lr=0.01, fused=True)
        (-log_prob(flow, x).mean()).backward()
        optimizer.step()
    else:
        for weight in flow.parameters():
            weight.data.mul_(0.9)
    with torch.no_grad():
        expected = log_prob(built(flow.state_dict()), x)
        assert torch.equal(log_prob(flow, x), expected)
        with constant_weights():
            assert torch.equal(log_prob(flow, x), expected)


def built(state=None):
    flow = Glow((4, 8, 8), levels=2, steps=2, width=8, random_state=0).eval()
    if state is not None:
        flow.load_state_dict(state)
    return flow


@pytest.mark.parametrize("name", [name for name, _ in built().named_parameters()])
def test_a_glow_sees_every_weight_that_changes(name):
    flow, source = built(), torch.Generator().manual_seed(0)
    x = torch.randn(3, 4, 8, 8, generator=source)
    with torch.no_grad(), constant_weights():
        for parameter in flow.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=source))
        z, log_det = flow.to_latent(x)
        flow.to_data(z)
        changed = flow.get_parameter(name)
        changed.add_(0.1 * torch.randn(changed.shape, generator=source))
        fresh = built(flow.state_dict())
        again, again_det = flow.to_latent(x)
        assert torch.equal(again, fresh.to_latent(x)[0])
        assert torch.equal(again_det, fresh.to_latent(x)[1])
        assert torch.equal(flow.to_data(z)[0], fresh.to_data(z)[0])
        density = again_det + flow.latent_log_prob(again)
        assert not torch.equal(density, log_det + flow.latent_log_prob(z)), "nothing had changed"


def test_sampling_folds_weights_once(monkeypatch):
    """However many steps there are: a Glow's convolutions are the same all along."""
    folded, own = [], glow_layers._scaled
    monkeypatch.setattr(glow_layers, "_scaled", lambda *args: folded.append(1) or own(*args))
    counts, flow = [], built().requires_grad_(False)
    x = torch.randn(1, 4, 8, 8).numpy()
    observed = np.ones(x.shape, dtype=bool)
    observed[0, 0, 0, 0] = False
    posterior = plmcmc.condition(flow, x, observed)
    for draws in (4, 12):
        folded.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior.sample(draws, chains=2, method="mala", warmup=4, random_state=0)
        counts.append(len(folded))
    assert counts[0] == counts[1] > 0
