"""What a flow says of itself: information of its latents, warps of its marginals."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from exact import FLOWS
from plmcmc.adaptation import latent_information, marginal_warp, survey
from plmcmc.flows import NICE
from plmcmc.target import Warp


def generators(count=64):
    return [torch.Generator().manual_seed(seed) for seed in range(count)]


@pytest.mark.parametrize(("latent", "expected"), [("normal", 1.0), ("logistic", 1 / 3)])
def test_information_of_the_latents(latent, expected):
    found = latent_information(NICE(4, latent=latent, random_state=0), 64, generators())
    # Squared scores vary by less than 1.5 times their mean: 4,096 of them leave 2.4%.
    torch.testing.assert_close(found, torch.full((4,), expected).double(), rtol=0.1, atol=0)


def test_a_uniform_base_has_no_information_and_gets_ones():
    class Uniform:
        def latent_sample(self, rows, generator):
            return torch.rand(rows, 3, generator=generator)

        def latent_log_prob(self, z):
            return 0.0 * z.sum(1)

    assert latent_information(Uniform(), 64, generators(2)).tolist() == [1.0, 1.0, 1.0]


def warp():
    numbers = ([0.5, -1.0], [2.0, 0.3], [0.4, -0.7], [0.6, 1.5])
    return Warp(*(torch.tensor(n).double() for n in numbers))


def test_a_warp_goes_there_and_back_with_its_slope():
    v = torch.randn(50, 2, generator=torch.Generator().manual_seed(0)).double().requires_grad_()
    y, log_slope = warp().outward(v)
    torch.testing.assert_close(warp().inward(y), v)
    (slope,) = torch.autograd.grad(y.sum(), v)
    torch.testing.assert_close(slope.log(), log_slope)


def test_marginals_are_made_nearly_normal():
    rng = np.random.default_rng(0)
    skewed = rng.exponential(3.0, 2000)
    spike = np.where(rng.random(2000) < 0.8, rng.normal(0, 0.2, 2000), rng.normal(5, 2, 2000))
    samples = torch.tensor(np.stack([skewed, spike], 1))
    found = marginal_warp(samples).inward(samples).numpy()
    plain = ((samples - samples.mean(0)) / samples.std(0)).numpy()
    for column in range(2):
        before, after = (kstest(v[:, column], "norm").statistic for v in (plain, found))
        assert after < 0.85 * before


def test_what_is_normal_already_is_only_shifted_and_scaled():
    samples = torch.randn(512, 3, generator=torch.Generator().manual_seed(0)) * 5 + 2
    found = marginal_warp(samples)
    assert found.skew.tolist() == [0, 0, 0]
    assert found.tail.tolist() == [1, 1, 1]
    torch.testing.assert_close(found.scale, samples.double().std(0))


def test_a_constant_entry_and_a_row_that_overflows_do_no_harm():
    samples = torch.randn(512, 2, generator=torch.Generator().manual_seed(0))
    samples[:, 1] = 3.0
    samples[7, 0] = torch.inf
    found = marginal_warp(samples)
    for part in (found.shift, found.scale, found.skew, found.tail):
        assert bool(torch.isfinite(part).all())
    assert bool((found.scale > 0).all())


def test_a_survey_is_the_same_twice():
    flow = FLOWS["realnvp"]()
    one, two = (survey(flow, 64, torch.Generator().manual_seed(0)) for _ in range(2))
    assert torch.equal(one.information, two.information)
    assert torch.equal(one.warp.shift, two.warp.shift)
