"""The decision study: does another auxiliary overturn what a chain decided?"""

import numpy as np
import pytest
import torch
from scipy.stats import norm

import plmcmc
from exact import shaken
from plmcmc import methods
from plmcmc.chains import Given
from plmcmc.diagnostics import decision_study
from plmcmc.flows import RealNVP
from plmcmc.target import FlatAuxiliary, NormalAuxiliary
from toys import DEVIATIONS, correlated

X = np.array([[1.5, np.nan], [np.nan, 0.5], [np.nan, np.nan]])


def study(x=X, *, scale=0.5, flow=None, **options):
    options = {"proposals": 40, "chains": 50, "random_state": 0} | options
    options.setdefault("method", methods.Metropolis(perturb=0.5, auxiliary=NormalAuxiliary(scale)))
    return decision_study(flow or correlated(2), x, **options)


class TestSameAuxiliary:
    """A judge who agrees in everything overturns nothing, exactly."""

    @pytest.mark.parametrize("scale", [1e-3, 0.5])
    @pytest.mark.parametrize(
        "flow", [correlated(2), shaken(RealNVP(2, width=8, random_state=0))], ids=["linear", "nvp"]
    )
    def test_nothing_is_overturned(self, flow, scale):
        found = study(flow=flow, scale=scale, other=NormalAuxiliary(scale))
        for curve in (found.accepted_overturned, found.rejected_overturned):
            assert set(curve[np.isfinite(curve)]) == {0.0}
        assert 0 < found.acceptance.mean() < 1

    def test_nor_by_a_flat_one_when_all_is_missing(self):
        """Nothing was observed: the auxiliary has nothing to say."""
        found = study(X[2:], other=FlatAuxiliary())
        assert np.nanmax(found.accepted_overturned) == np.nanmax(found.rejected_overturned) == 0

    def test_a_flat_one_overturns_some(self):
        found = study()
        assert np.nanmean(found.accepted_overturned) > 0.01
        assert np.nanmean(found.rejected_overturned) > 0.01

    def test_the_flat_one_is_the_default(self):
        default, stated = study(), study(other=FlatAuxiliary())
        assert np.array_equal(default.rejected_overturned, stated.rejected_overturned)

    def test_a_tight_auxiliary_is_overturned_more(self):
        """What the study is for: the paper's 1e-3 decides nearly alone."""
        tight, wide = (study(scale=s).rejected_overturned for s in (1e-3, 2.0))
        assert np.nanmean(tight) > np.nanmean(wide)


class TestValues:
    """Against chains in numpy that ask both auxiliaries with one uniform number."""

    CHAINS, PROPOSALS, STEP = 20000, 3, 0.7
    OWN, OTHER = 0.3, 1.2
    START = np.array([0.8, -0.4])

    def counted(self, own, other, seed=1):
        """Acceptances, overturned ones, rejections and overturned ones, of each proposal."""
        source = np.random.default_rng(seed)
        flow = correlated(2)
        factor, shift = flow.factor().detach().numpy(), flow.shift.detach().numpy()
        covariance = factor @ factor.T
        seen = X[0, 0]

        def log_terms(z):
            y = shift + z @ factor.T
            mean = shift[1] + covariance[1, 0] / covariance[0, 0] * (seen - shift[0])
            scale = np.sqrt(covariance[1, 1] - covariance[1, 0] ** 2 / covariance[0, 0])
            missing = norm.logpdf(y[:, 1], mean, scale)
            return [missing + norm.logpdf(y[:, 0], seen, s) for s in (own, other)]

        start = np.array([seen, self.START[1]])
        z = np.tile(np.linalg.solve(factor, start - shift), (self.CHAINS, 1))
        counts = np.zeros((self.PROPOSALS, 4))
        for proposal in range(self.PROPOSALS):
            new = z + self.STEP * source.normal(size=z.shape)
            ratios = [a - b for a, b in zip(log_terms(new), log_terms(z), strict=True)]
            log_uniform = np.log(source.random(self.CHAINS))
            accepted, otherwise = (log_uniform < ratio for ratio in ratios)
            lost, won = accepted & ~otherwise, ~accepted & otherwise
            counts[proposal] = accepted.sum(), lost.sum(), (~accepted).sum(), won.sum()
            z = np.where(accepted[:, None], new, z)
        return counts

    def found(self):
        method = methods.Metropolis(self.STEP, None, NormalAuxiliary(self.OWN))
        options = {"chains": self.CHAINS, "proposals": self.PROPOSALS}
        start = Given(torch.as_tensor(self.START)[None])
        return study(
            X[:1], method=method, other=NormalAuxiliary(self.OTHER), start=start, **options
        )

    def worst(self, found, counts):
        """Largest difference of shares, in standard errors; a mean of probabilities varies less
        than the count it stands for, so twice a binomial variance is an upper bound."""
        accepted, lost, rejected, won = counts.T
        errors = []
        for share, hits, trials in (
            (found.accepted_overturned, lost, accepted),
            (found.rejected_overturned, won, rejected),
            (found.acceptance, accepted, accepted + rejected),
        ):
            rate = hits / trials
            # From y_O = x_O a wider auxiliary overturns no acceptance: the count is exactly 0.
            variance = np.maximum(rate * (1 - rate), 1 / trials)
            errors.append(np.abs(share - rate) / np.sqrt(2 * variance / trials))
        return np.max(errors)

    def test_shares_agree(self):
        assert self.worst(self.found(), self.counted(self.OWN, self.OTHER)) < DEVIATIONS

    @pytest.mark.parametrize(("own", "other"), [(0.3, 0.7), (0.35, 1.2)])
    def test_negative_control_other_scales(self, own, other):
        assert self.worst(self.found(), self.counted(own, other)) > DEVIATIONS


class TestManners:
    def test_one_number_per_proposal(self):
        found = study(proposals=7, chains=3)
        for curve in (found.accepted_overturned, found.rejected_overturned, found.acceptance):
            assert curve.shape == (7,)
            assert np.all(np.isnan(curve) | ((curve >= 0) & (curve <= 1)))

    def test_nan_where_no_chain_accepted(self):
        frozen = methods.Metropolis(1e3, None, NormalAuxiliary(1e-3))
        start = Given(torch.tensor([[0.0, 0.0]]))
        found = study(X[:1], method=frozen, chains=4, proposals=5, start=start)
        assert (found.acceptance == 0).all()
        assert np.isnan(found.accepted_overturned).all()
        assert np.isfinite(found.rejected_overturned).all()

    def test_the_same_seed_repeats_it(self):
        one, two, three = (study(random_state=seed).acceptance for seed in (1, 1, 2))
        assert np.array_equal(one, two)
        assert not np.array_equal(one, three)

    def test_global_generators_are_left_alone(self):
        before = torch.get_rng_state()
        study(random_state=None)
        assert torch.equal(torch.get_rng_state(), before)

    def test_crank_nicolson_can_be_followed_too(self):
        method = methods.CrankNicolson(0.5, auxiliary=NormalAuxiliary(0.5))
        assert 0 < study(method=method).acceptance.mean() < 1

    @pytest.mark.parametrize("method", [methods.DataMetropolis(), methods.Gibbs()])
    def test_a_chain_in_data_space_has_no_auxiliary(self, method):
        with pytest.raises(TypeError, match="only a chain in latent space has an auxiliary"):
            study(method=method)

    @pytest.mark.parametrize("method", [methods.Elliptical(), methods.Langevin()])
    def test_other_kernels_have_no_decisions_to_question(self, method):
        with pytest.raises(TypeError, match="needs a Metropolis-Hastings kernel, not"):
            study(method=method)

    def test_the_front_door_has_it(self):
        assert plmcmc.decision_study is decision_study
