"""Latents are drawn from the density that they are given."""

import pytest
import torch
from scipy.stats import kstest, logistic, norm

from plmcmc.flows import Linear, row_sum
from plmcmc.flows.latents import LATENTS
from plmcmc.flows.rows import in_parts

LAWS = {"normal": norm, "logistic": logistic}
FALSE_ALARM = 1e-4


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("latent", LAWS)
def test_densities_are_scipys(latent):
    z = 4 * torch.randn(50, 3, generator=generator(0), dtype=torch.float64)
    expected = torch.as_tensor(LAWS[latent].logpdf(z.numpy()).sum(1))
    torch.testing.assert_close(LATENTS[latent].log_prob(z), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("latent", LAWS)
def test_draws_have_their_density(latent, dtype):
    draws = LATENTS[latent].sample((20_000, 2), generator(0), dtype)
    assert draws.dtype == dtype
    assert kstest(draws.flatten().numpy(), LAWS[latent].cdf).pvalue > FALSE_ALARM
    assert abs(torch.corrcoef(draws.T)[0, 1]) < norm.isf(FALSE_ALARM / 2) / 20_000**0.5


def test_draws_of_the_other_density_are_noticed():
    draws = LATENTS["normal"].sample((20_000, 1), generator(0), torch.float64)
    assert kstest(draws.flatten().numpy(), logistic.cdf).pvalue < FALSE_ALARM


@pytest.mark.parametrize("latent", LAWS)
def test_a_flow_draws_the_latents_it_names(latent):
    flow = Linear(2, latent)
    drawn = flow.latent_sample(5, generator(1))
    assert torch.equal(drawn, LATENTS[latent].sample((5, 2), generator(1), torch.float32))
    assert torch.equal(flow.latent_log_prob(drawn), LATENTS[latent].log_prob(drawn))


@pytest.mark.parametrize("latent", LAWS)
def test_far_out_the_density_is_finite_and_sums_in_double(latent):
    z = torch.full((1, 1000), 80.0)
    found = LATENTS[latent].log_prob(torch.cat((z, -z)))
    expected = LAWS[latent].logpdf(80.0) * 1000
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx([expected] * 2, rel=1e-6)


@pytest.mark.parametrize("count", [3, 64, 97, 784])
def test_rows_summed_in_parts_have_the_same_sums(count):
    terms = torch.randn(5, count, generator=torch.Generator().manual_seed(0))
    parts = in_parts(terms)
    assert (parts.shape[1] < count) == (count in (64, 784))
    torch.testing.assert_close(row_sum(parts), row_sum(terms), rtol=0, atol=1e-5)
