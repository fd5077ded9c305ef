"""MisGAN: each generator descends its own loss, the imputer learns, and what is seen stays."""

import numpy as np
import pytest
import torch
from torch import nn

from plmcmc.baselines import Misgan, MisganImputer, misgan_game, wasserstein
from plmcmc.baselines.misgan_game import Game
from plmcmc.baselines.misgan_networks import Players
from plmcmc.data import DataError
from plmcmc.training import TrainingError

SIZE = (4, 4)
NOISE = 0.1
RATES = {"learning_rate": 1e-3, "imputer_learning_rate": 3e-3}


def stripes(rows: int, seed: int, phase: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return images of light and dark rows of pixels with a little noise, and what is seen."""
    rng = np.random.default_rng(seed)
    level = np.where((np.arange(4) + phase) % 2, 0.1, 0.9)[:, None]
    return level + rng.uniform(-NOISE, NOISE, (rows, *SIZE)), rng.random((rows, *SIZE)) < 0.5


def small(**changes) -> MisganImputer:
    sizes = {"latent": 16, "channels": 16, "width": 32, "batch_size": 32}
    pace = {"epochs": 40, "learning_rate": 4e-3, "imputer_learning_rate": 4e-3, "random_state": 0}
    return MisganImputer(**(sizes | pace | changes))


def tiny(**changes) -> MisganImputer:
    return small(**({"channels": 2, "epochs": 1, "critic_steps": 2, "batch_size": 8} | changes))


@pytest.fixture(scope="module")
def trained() -> Misgan:
    return small().fit(*stripes(256, seed=0))


def error(filled: np.ndarray, truth: np.ndarray, observed: np.ndarray) -> float:
    return float(np.sqrt(np.mean((filled - truth)[~observed] ** 2)))


class TestFill:
    def test_it_learns_what_images_look_like(self, trained):
        truth, observed = stripes(200, seed=1)
        filled = trained.fill(truth, observed)
        grey = np.full_like(truth, truth[observed].mean())
        noise = np.random.default_rng(2).random(truth.shape)
        assert error(filled, truth, observed) < 0.5 * error(grey, truth, observed)
        assert error(filled, truth, observed) < 0.5 * error(noise, truth, observed)

    def test_of_what_it_has_not_seen_it_knows_nothing(self, trained):
        """Negative control: stripes of the other phase are filled worse than by grey."""
        truth, observed = stripes(200, seed=1, phase=1)
        grey = np.full_like(truth, truth[observed].mean())
        filled = trained.fill(truth, observed)
        assert error(filled, truth, observed) > error(grey, truth, observed)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_what_is_seen_stays_to_the_last_bit(self, trained, dtype):
        truth, observed = stripes(50, seed=3)
        truth = truth.astype(dtype)
        filled = trained.fill(truth, observed)
        assert filled.dtype == dtype
        np.testing.assert_array_equal(filled[observed], truth[observed])
        assert ((filled >= 0) & (filled <= 1)).all()

    def test_what_lies_under_holes_does_not_matter(self, trained):
        truth, observed = stripes(50, seed=3)
        damaged = np.where(observed, truth, np.nan)
        np.testing.assert_array_equal(trained.fill(damaged), trained.fill(truth, observed))
        np.testing.assert_array_equal(np.isnan(damaged), ~observed)

    def test_without_holes_nothing_changes(self, trained):
        truth, _ = stripes(5, seed=3)
        np.testing.assert_array_equal(trained.fill(truth), truth)

    def test_tensors_are_taken(self, trained):
        truth, observed = stripes(5, seed=3)
        found = trained.fill(torch.as_tensor(truth), torch.as_tensor(observed))
        np.testing.assert_array_equal(found, trained.fill(truth, observed))

    def test_arrays_that_must_not_be_written_to_are_taken(self):
        images, observed = stripes(20, seed=3)
        images.flags.writeable = observed.flags.writeable = False
        found = tiny().fill(images, observed)
        np.testing.assert_array_equal(found[observed], images[observed])

    def test_other_sizes_are_refused(self, trained):
        with pytest.raises(DataError, match="trained on images of 4 x 4 pixels"):
            trained.fill(np.zeros((2, 8, 8)))


class TestGenerators:
    def test_masks_are_as_often_seen_as_the_data(self, trained):
        masks = trained.players.masks(500, torch.Generator().manual_seed(0))
        assert masks.shape == (500, 1, *SIZE)
        # A coarse match: training was short. Masks of a net that knows nothing are all a half.
        assert abs(float(masks.mean()) - 0.5) < 0.15
        assert float(masks.std()) > 0.2
        knows_nothing = Players(SIZE, latent=16, channels=16, width=32)
        masks = knows_nothing.masks(500, torch.Generator().manual_seed(0))
        assert float(masks.detach().std()) < 0.1

    def test_images_have_the_stripes(self, trained):
        images = trained.players.images(200, torch.Generator().manual_seed(0))
        rows = images.mean((0, 1, 3))
        assert (rows[::2] > 0.7).all()
        assert (rows[1::2] < 0.3).all()


class TestLosses:
    """The slopes of one number, against those of each generator's own loss, written out."""

    ALPHA, BETA, TAU = 0.3, 0.7, 0.2

    def game(self, penalty: float = 10.0) -> Game:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            players = Players(SIZE, latent=3, channels=2, width=8)
        with torch.no_grad():
            # As they begin, slopes are too small to tell right from wrong.
            for own in players.parameters():
                own *= 3
        weights = {"alpha": self.ALPHA, "beta": self.BETA, "penalty": penalty}
        source = torch.Generator().manual_seed(0)
        return Game(players, source, tau=self.TAU, **RATES, **weights)

    def slopes(self, alpha: float, beta: float) -> tuple[list, list]:
        """Return the slopes that are taken, and those of the losses with these weights."""
        x, observed = (torch.as_tensor(part)[:, None] for part in stripes(6, seed=0))
        x, game = torch.where(observed, x, 0.0).float(), self.game()
        found = torch.autograd.grad(game.generators_loss(x, observed), game.weights)
        game.source.manual_seed(0)
        images, masks = (part(6, game.source) for part in (game.players.images, game.players.masks))
        imputed = game.players.imputed(x, observed, game.source)
        on_data, on_masks, on_imputed = game.players.critics
        data = -on_data(images * masks + self.TAU * (1 - masks)).mean()
        mask, fill = -on_masks(masks).mean(), -on_imputed(imputed).mean()
        losses = [data + beta * on_imputed(images).mean(), mask + alpha * data, fill]
        expected = []
        for loss, player in zip(losses, game.players.generators, strict=True):
            expected += torch.autograd.grad(loss, list(player.parameters()), retain_graph=True)
        return list(found), expected

    def test_each_generator_descends_its_own(self):
        found, expected = self.slopes(self.ALPHA, self.BETA)
        torch.testing.assert_close(found, expected)

    @pytest.mark.parametrize("wrong", [(1.0, 0.7), (0.3, 0.0), (0.3, -0.7)])
    def test_other_weights_would_be_seen(self, wrong):
        """Negative control."""
        with pytest.raises(AssertionError):
            torch.testing.assert_close(*self.slopes(*wrong))

    def test_critics_pay_for_their_slopes(self, monkeypatch):
        x, observed = (torch.as_tensor(part)[:, None] for part in stripes(6, seed=0))
        penalties, penalty_of = [], wasserstein.gradient_penalty

        def watched(*given):
            found = penalty_of(*given)
            penalties.append(found.detach())
            return found

        monkeypatch.setattr(wasserstein, "gradient_penalty", watched)
        free, own = (self.game(weight).step_critics(x.float(), observed) for weight in (0, 10))
        # The same noise twice: of all three critics, each time the same.
        assert len(penalties) == 6
        owed = 10 * sum(penalties[:3])
        assert min(penalties) > 0
        torch.testing.assert_close(own - free, owed)

    def test_critics_are_shown_tau_for_what_is_missing(self, monkeypatch):
        """In images of both kinds; their masks, and images with their holes filled, are whole."""
        x, observed = (torch.as_tensor(part)[:, None] for part in stripes(6, seed=0))
        x, game, pairs = x.float(), self.game(), []
        loss_of = misgan_game.critic_loss

        def watched(critic, real, fake, *rest):
            pairs.append((real, fake))
            return loss_of(critic, real, fake, *rest)

        monkeypatch.setattr(misgan_game, "critic_loss", watched)
        game.step_critics(x, observed)
        game.source.manual_seed(0)
        with torch.no_grad():
            images, masks = (of(6, game.source) for of in (game.players.images, game.players.masks))
            imputed = game.players.imputed(x, observed, game.source)
        generated = images * masks + self.TAU * (1 - masks)
        expected = [
            (torch.where(observed, x, self.TAU), generated),
            (observed.float(), masks),
            (images, imputed),
        ]
        torch.testing.assert_close(pairs, expected)

    def test_the_imputer_s_own_weights_are_those_of_the_game(self, monkeypatch):
        asked, begin = [], Game.__init__

        def watched(self, *given, **weights):
            asked.append(weights)
            begin(self, *given, **weights)

        monkeypatch.setattr(Game, "__init__", watched)
        weights = {"tau": 0.2, "alpha": 0.3, "beta": 0.7, "penalty": 5.0} | RATES
        tiny(**weights).fit(*stripes(8, seed=0))
        assert asked == [weights]

    def test_the_imputer_and_its_critic_have_a_rate_of_their_own(self):
        game = self.game()
        sides = (game.generators, game.players.generators), (game.critics, game.players.critics)
        for optimizer, players in sides:
            rates = {
                id(own): group["lr"] for group in optimizer.param_groups for own in group["params"]
            }
            found = [{rates[id(own)] for own in player.parameters()} for player in players]
            assert found == [{1e-3}, {1e-3}, {3e-3}]

    def test_masks_reach_0_and_1(self):
        generator = self.game().players.generators[1]
        z = 20 * torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
        masks, soft = generator(z), (generator.logits(z) / 0.66).sigmoid()
        low, high = masks == 0, masks == 1
        assert low.any()
        assert high.any()
        torch.testing.assert_close(low, soft <= 1 / 12)
        torch.testing.assert_close(high, soft >= 11 / 12)
        between = ~(low | high)
        torch.testing.assert_close(masks[between], 1.2 * soft[between] - 0.1)

    def test_a_step_of_one_side_leaves_the_other(self):
        x, observed = (torch.as_tensor(part)[:, None] for part in stripes(6, seed=0))
        x, game = torch.where(observed, x, 0.0).float(), self.game()
        for step, moves, stays in (
            (game.step_critics, game.players.critics, game.players.generators),
            (game.step_generators, game.players.generators, game.players.critics),
        ):
            before = [[w.clone() for w in side.parameters()] for side in (moves, stays)]
            step(x, observed)
            assert any(
                not torch.equal(a, b) for a, b in zip(before[0], moves.parameters(), strict=True)
            )
            assert all(
                torch.equal(a, b) for a, b in zip(before[1], stays.parameters(), strict=True)
            )


class TestRandomness:
    def test_a_seed_repeats_itself_and_leaves_the_global_one(self):
        images, observed = stripes(20, seed=0)
        before = torch.get_rng_state()
        one, two, other = (tiny(random_state=seed).fill(images, observed) for seed in (0, 0, 1))
        assert (torch.get_rng_state() == before).all()
        np.testing.assert_array_equal(one, two)
        assert (one != other).any()

    def test_noise_in_the_holes_has_its_own_seed(self, trained):
        images, observed = stripes(20, seed=4)
        one, two = trained.fill(images, observed), trained.fill(images, observed)
        np.testing.assert_array_equal(one, two)
        other = trained.fill(images, observed, random_state=1)
        assert (other[~observed] != one[~observed]).any()


class TestLimits:
    @pytest.mark.parametrize(
        ("images", "message"),
        [
            (np.full((2, 4, 4), 255.0), r"in \[0, 1\]; image 0 has 255.0 at \(0, 0\)"),
            (np.zeros((2, 16)), r"\(rows, height, width\)"),
        ],
    )
    def test_what_are_no_such_images_is_refused(self, images, message):
        with pytest.raises(DataError, match=message):
            tiny().fit(images)

    @pytest.mark.parametrize("size", [(8, 12), (7, 19), (1, 33)])
    def test_images_of_any_sides_and_few_of_them_are_taken(self, size):
        images = np.random.default_rng(0).random((3, *size))
        observed = images > 0.5
        assert tiny().fill(images, observed).shape == (3, *size)

    @pytest.mark.parametrize("name", ["latent", "channels", "width", "critic_steps", "epochs"])
    def test_none_at_all_is_refused(self, name):
        with pytest.raises(ValueError, match=f"{name} must be at least 1; got 0"):
            MisganImputer(**{name: 0})

    def test_a_rate_beyond_all_measure_is_reported(self):
        with pytest.raises(TrainingError, match="lower learning_rate"):
            tiny(learning_rate=1e30, epochs=3).fit(*stripes(40, seed=0))


def test_the_defaults_are_the_paper_s():
    own = MisganImputer()
    assert (own.tau, own.alpha, own.beta, own.penalty) == (0.0, 0.1, 0.1, 10.0)
    assert (own.epochs, own.batch_size, own.critic_steps, own.latent) == (500, 64, 5, 128)
    digits = Players((28, 28), own.latent, channels=2, width=784)
    layers = [p.shape for p in digits.generators[2].parameters() if p.ndim == 2]
    assert layers == [(784, 784)] * 4
    assert (own.learning_rate, own.imputer_learning_rate) == (1e-4, 2e-4)
    generated = [part.kernel_size for part in modules(digits.generators[0], nn.ConvTranspose2d)]
    assert generated == [(5, 5), (5, 5), (8, 8)]
    assert digits.generators[0].logits.begin[0].out_features == 4 * 2 * 4 * 4
    judged = [part.kernel_size for part in modules(digits.critics[0], nn.Conv2d)]
    assert judged == [(5, 5)] * 3


def modules(network, kind):
    return [part for part in network.modules() if isinstance(part, kind)]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_learns_the_same_stripes():
    images, observed = stripes(256, seed=0)
    model = small().fit(torch.as_tensor(images, device="cuda"), observed)
    assert next(model.players.parameters()).is_cuda
    truth, observed = stripes(200, seed=1)
    filled = model.fill(truth, observed)
    assert error(filled, truth, observed) < 0.2
    np.testing.assert_array_equal(filled[observed], truth[observed])
