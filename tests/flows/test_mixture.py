"""Mixtures as flows: densities, slopes and samples of the textbook; members take turns."""

import pytest
import torch
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

from plmcmc.flows import Beside, GaussianMixture, TabularFlow, log_prob
from plmcmc.flows.mixture import Components

MEMBERS, COMPONENTS, COLUMNS = 3, 4, 2


def components(seed=0):
    source = torch.Generator().manual_seed(seed)
    root = torch.randn(COMPONENTS, COLUMNS, COLUMNS, generator=source, dtype=torch.float64)
    eye = torch.eye(COLUMNS, dtype=torch.float64)
    mean = 2 * torch.randn(COMPONENTS, COLUMNS, generator=source, dtype=torch.float64)
    weight = torch.rand(COMPONENTS, generator=source, dtype=torch.float64).softmax(0)
    return Components(weight, mean, root @ root.mT + 0.3 * eye)


def mixtures(members=MEMBERS):
    flow = GaussianMixture(COLUMNS, members=members, components=COMPONENTS).double()
    parts = [components(seed) for seed in range(members)]
    for own, found in zip(
        flow.buffers(), GaussianMixture.of(parts).double().buffers(), strict=True
    ):
        own.copy_(found)
    return flow, parts


def textbook(part):
    return MixtureSameFamily(
        Categorical(part.weight), MultivariateNormal(part.mean, part.covariance)
    )


def rows(count=30):
    source = torch.Generator().manual_seed(9)
    return 2 * torch.randn(count, COLUMNS, generator=source, dtype=torch.float64)


def test_members_take_turns_and_have_the_densities_of_the_textbook():
    flow, parts = mixtures()
    x = rows()
    found = log_prob(flow, x)
    assert found.dtype == torch.float64
    for member, part in enumerate(parts):
        own = x[member::MEMBERS]
        expected = textbook(part).log_prob(own)
        torch.testing.assert_close(found[member::MEMBERS], expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(flow.member_log_prob(member, own), found[member::MEMBERS])


def test_slopes_are_those_of_differences():
    flow, _ = mixtures()
    assert torch.autograd.gradcheck(
        lambda x: log_prob(flow, x), rows(6).requires_grad_(), eps=1e-6, atol=1e-6
    )


def test_samples_have_the_moments_of_each_member():
    flow, parts = mixtures()
    count = 30_000
    drawn = flow.latent_sample(count * MEMBERS, torch.Generator().manual_seed(0))
    for member, part in enumerate(parts):
        own, expected = drawn[member::MEMBERS], textbook(part)
        error = expected.variance.sqrt() / count**0.5
        # Six numbers: five errors of one are never seen.
        assert bool(((own.mean(0) - expected.mean).abs() < 5 * error).all())


def test_rows_that_cannot_take_turns_are_refused():
    flow, _ = mixtures()
    with pytest.raises(ValueError, match="4 rows cannot be shared equally among 3 members"):
        log_prob(flow, rows(4))
    with pytest.raises(ValueError, match="components must be at least 1; got 0"):
        GaussianMixture(2, components=0)
    with pytest.raises(ValueError, match="4 rows cannot be shared equally among 5 members"):
        log_prob(beside()[0], rows(4))


def beside():
    flow = TabularFlow(COLUMNS, members=2, couplings=2, width=4, random_state=0).double()
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(0.1)
    mixture, _ = mixtures()
    return Beside([flow, mixture]), flow, mixture


def test_flows_beside_each_other_have_their_own_rows():
    both, flow, mixture = beside()
    x = rows(20)
    found = log_prob(both, x).reshape(4, 5)
    torch.testing.assert_close(
        found[:, :2].flatten(), log_prob(flow, x.reshape(4, 5, 2)[:, :2].flatten(0, 1))
    )
    torch.testing.assert_close(
        found[:, 2:].flatten(), log_prob(mixture, x.reshape(4, 5, 2)[:, 2:].flatten(0, 1))
    )
    z, there = both.to_latent(x)
    again, back = both.to_data(z)
    torch.testing.assert_close(again, x)
    torch.testing.assert_close(there, -back)


def test_latents_of_flows_beside_each_other_are_of_their_members():
    both, flow, mixture = beside()
    drawn = both.latent_sample(5, torch.Generator().manual_seed(1))
    source = torch.Generator().manual_seed(1)
    expected = torch.cat([flow.latent_sample(2, source), mixture.latent_sample(3, source)])
    torch.testing.assert_close(drawn, expected)
