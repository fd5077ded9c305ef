"""The critics' loss: its penalty is that of slopes worked out by hand."""

import pytest
import torch
from torch import nn

from plmcmc.baselines.misgan_networks import Critic
from plmcmc.baselines.wasserstein import critic_loss, gradient_penalty


def source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(rows: int = 5, seed: int = 0) -> torch.Tensor:
    return torch.rand(rows, 1, 4, 4, generator=source(seed), dtype=torch.float64)


@pytest.fixture
def critic() -> Critic:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Critic((4, 4), 2).double()


class TestPenalty:
    def test_of_a_plane_it_is_that_of_its_steepness(self):
        normal = torch.full((1, 1, 4, 4), 0.5, dtype=torch.float64)
        found = gradient_penalty(
            lambda x: (normal * x).flatten(1).sum(1),
            images(),
            images(seed=1),
            torch.tensor(0.3).double(),
        )
        # Sixteen slopes of a half: steepness 2.
        assert float(found) == pytest.approx((2 - 1) ** 2)

    def test_of_a_bowl_it_is_taken_where_it_should_be(self):
        """Slopes of half the square are the point itself: its length says where it was."""
        real, fake = images(), images(seed=1)
        share = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0], dtype=torch.float64)[:, None, None, None]
        found = gradient_penalty(lambda x: x.square().flatten(1).sum(1) / 2, real, fake, share)
        between = share * real + (1 - share) * fake
        expected = (between.flatten(1).norm(dim=1) - 1).square().mean()
        torch.testing.assert_close(found, expected)
        # Negative control: a bug that takes slopes at the real rows would be seen.
        wrong = (real.flatten(1).norm(dim=1) - 1).square().mean()
        assert not torch.isclose(found, wrong, rtol=1e-3)

    def test_of_a_network_it_is_that_of_differences(self, critic):
        real, fake, share = images(), images(seed=1), torch.tensor(0.6, dtype=torch.float64)
        between, step = 0.6 * real + 0.4 * fake, 1e-6
        slopes = torch.zeros(5, 16, dtype=torch.float64)
        for pixel in range(16):
            moved = torch.zeros(16, dtype=torch.float64)
            moved[pixel] = step
            up, down = (critic(between + sign * moved.view(1, 1, 4, 4)) for sign in (1, -1))
            slopes[:, pixel] = (up - down).detach() / (2 * step)
        expected = (slopes.norm(dim=1) - 1).square().mean()
        found = gradient_penalty(critic, real, fake, share)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)

    def test_its_own_slopes_reach_the_weights(self, critic):
        """Against differences of the penalty, along one direction of all weights."""
        real, fake, share = images(), images(seed=1), torch.tensor(0.5, dtype=torch.float64)
        weights = list(critic.parameters())
        slopes = torch.autograd.grad(
            gradient_penalty(critic, real, fake, share), weights, allow_unused=True
        )
        way = [torch.randn(w.shape, generator=source(2), dtype=w.dtype) for w in weights]
        expected = sum((s * d).sum() for s, d in zip(slopes, way, strict=True) if s is not None)
        found, step = [], 1e-6
        for sign in (1, -2):
            with torch.no_grad():
                for weight, d in zip(weights, way, strict=True):
                    weight += sign * step * d
            found.append(gradient_penalty(critic, real, fake, share).detach())
        torch.testing.assert_close((found[0] - found[1]) / (2 * step), expected, rtol=1e-4, atol=0)

    def test_a_flat_critic_has_one_and_no_nan(self):
        flat = nn.Sequential(nn.Flatten(), nn.Linear(16, 1), nn.Flatten(0)).double()
        nn.init.zeros_(flat[1].weight)
        half = torch.tensor(0.5, dtype=torch.float64)
        found = gradient_penalty(flat, images(), images(seed=1), half)
        found.backward()
        assert float(found.detach()) == 1
        assert torch.isfinite(flat[1].weight.grad).all()


class TestLoss:
    def test_it_is_scores_and_penalty(self, critic):
        real, fake = images(), images(seed=1)
        share = torch.rand((5, 1, 1, 1), generator=source(3), dtype=torch.float64)
        expected = critic(fake).mean() - critic(real).mean()
        expected = expected + 7.0 * gradient_penalty(critic, real, fake, share)
        torch.testing.assert_close(critic_loss(critic, real, fake, 7.0, source(3)), expected)


def test_scores_of_a_row_hang_on_it_alone(critic):
    x = images(6)
    torch.testing.assert_close(critic(x)[:2], critic(x[:2]))
