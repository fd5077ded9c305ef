"""Glow: charts of its latents, where it begins, its memory, and how well it undoes itself."""

import math

import pytest
import torch

from flow_cases import shaken
from plmcmc.flows import (
    Absolute,
    ChannelsFirst,
    Glow,
    Preprocessed,
    check_flow,
    log_prob,
    sample,
)

SHAPE = (3, 8, 8)


def images(rows=16, shape=SHAPE, seed=1, dtype=torch.float32):
    """Return smooth images with channels that differ in mean and spread."""
    source = torch.Generator().manual_seed(seed)
    small = torch.randn(rows, shape[0], shape[1] // 4, shape[2] // 4, generator=source)
    smooth = torch.nn.functional.interpolate(small, size=shape[1:], mode="bilinear")
    fine = 0.1 * torch.randn(rows, *shape, generator=source)
    channel = torch.arange(1.0, 1 + shape[0])[:, None, None]
    return (channel * (smooth + fine) + channel).to(dtype)


def glow(dtype=torch.float32, **options):
    options = {"levels": 2, "steps": 2, "width": 8, "random_state": 0} | options
    return shaken(Glow(SHAPE, **options), 0.1).to(dtype).eval()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("coupling", ["affine", "additive"])
def test_absolute_coordinates_keep_the_promises_too(coupling, dtype):
    flow = Absolute(glow(dtype, coupling=coupling))
    assert check_flow(flow, images(8, dtype=dtype)).skipped == ()


def test_both_charts_give_the_same_density_and_differ_by_the_priors():
    flow = glow(torch.float64)
    x = images(dtype=torch.float64)
    absolute = Absolute(flow)
    torch.testing.assert_close(log_prob(absolute, x), log_prob(flow, x))
    relative, z = flow.to_latent(x)[0], absolute.to_latent(x)[0]
    assert (relative != z).any(0).all()
    parts = zip(flow.split(z), flow.priors(z), strict=True)
    standard = [(part - p.mean) / p.log_deviation.exp() for part, p in parts]
    torch.testing.assert_close(torch.cat([part.flatten(1) for part in standard], 1), relative)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_samples_of_both_charts_are_the_same_images(temperature):
    flow = glow(torch.float64)
    charts = flow, Absolute(flow), Preprocessed([ChannelsFirst()], Absolute(flow))
    one, other, last = (
        sample(chart, 4, torch.Generator().manual_seed(0), temperature=temperature)
        for chart in charts
    )
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(last.movedim(-1, 1), other)


def test_a_first_batch_norms_every_layer():
    flow, x = Glow(SHAPE, levels=2, steps=3, width=8, random_state=0).eval(), images(64)
    before = log_prob(flow, x).mean()
    flow.meet(x)
    # Couplings and priors are still at zero: every level's output is its normed input, mixed.
    for part, _ in flow.climb(x)[0]:
        assert part.square().mean() < 2.0
    assert log_prob(flow, x).mean() > before + 100
    for level in flow.chain:
        for step in level.chain:
            for norm in (step.mixing.norm, step.coupling.first.norm, step.coupling.second.norm):
                assert bool((norm.log_scale != 0).all())
                assert not norm.waiting


def test_a_level_meets_what_the_norms_before_it_made():
    flow, x = Glow(SHAPE, levels=1, steps=1, width=8, random_state=0), images(64)
    flow.meet(x)
    mixed, _ = flow.chain[0].chain[0].mixing.to_latent(torch.nn.functional.pixel_unshuffle(x, 2))
    # A rotation of channels with mean 0 and deviation 1.
    torch.testing.assert_close(mixed.mean((0, 2, 3)), torch.zeros(12), atol=1e-4, rtol=0)
    torch.testing.assert_close(mixed.square().mean(), torch.tensor(1.0), atol=1e-3, rtol=0)


def test_spared_memory_changes_nothing():
    x, found = images(), []
    for spare in (False, True):
        flow = glow(spare_memory=spare).train()
        loss = -log_prob(flow, x).mean()
        loss.backward()
        found.append([loss.detach(), *(p.grad for p in flow.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("coupling", ["affine", "additive"])
def test_a_deep_glow_undoes_itself(coupling):
    """K = 32, L = 3 on 64 x 64, weights off zero and normed: under 1e-4 in float32."""
    shape = (3, 64, 64)
    flow = Glow(shape, steps=32, width=8, coupling=coupling, random_state=0)
    x = images(4, shape) / 4
    flow = shaken(flow, 0.02).eval()
    flow.meet(x)
    with torch.no_grad():
        z, log_det = flow.to_latent(x)
        back, other = flow.to_data(z)
    assert float((back - x).abs().max()) < 1e-4
    torch.testing.assert_close(other, -log_det, rtol=1e-5, atol=1e-2)
    assert (float(flow.climb(x)[1].detach().std()) > 1e-3) == (coupling == "affine")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": (3, 8)}, r"\(channels, height, width\)"),
        ({"shape": (3, 12, 8), "levels": 3}, "multiples of 8.*12 x 8"),
        ({"coupling": "spline"}, "one of .*'affine', 'additive'.*'spline'"),
        ({"activation": "step"}, "one of .*'relu', 'silu'.*'step'"),
        ({"steps": 0}, "at least 1"),
    ],
)
def test_settings_that_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        Glow(**({"shape": SHAPE} | options))
    with pytest.raises(TypeError, match="only Glow"):
        Absolute(torch.nn.Identity())


def test_an_additive_flow_starts_as_a_rotation():
    flow = Glow(SHAPE, levels=2, steps=2, width=8, coupling="additive", random_state=0).eval()
    x = torch.randn(32, *SHAPE, generator=torch.Generator().manual_seed(0))
    flat = x.flatten(1).double()
    normal = -0.5 * flat.square().sum(1) - 0.5 * math.log(2 * math.pi) * flat.shape[1]
    torch.testing.assert_close(log_prob(flow, x).detach(), normal, rtol=1e-5, atol=1e-3)
