"""The flow families: densities of mass one, simple starts, partitions, seeds, refusals."""

import pickle

import pytest
import torch

from flow_cases import nice, realnvp, shaken
from plmcmc.flows import NICE, Linear, RealNVP, TabularFlow, log_prob

LATENTS = ["normal", "logistic"]
FAMILIES = {
    "linear": lambda latent: Linear(2, latent),
    "nice": lambda latent: nice(2, latent=latent),
    "nice, odd number of couplings": lambda latent: nice(2, latent=latent, couplings=3),
    "realnvp": lambda latent: realnvp(2, latent=latent),
}
COUPLED = {"nice": nice, "realnvp": realnvp}


def mass(density) -> float:
    """Integrate a density over the plane, by substitution of x = sinh(t): tails are long."""
    t = torch.linspace(-5.5, 5.5, 661, dtype=torch.float64)
    x, weight = t.sinh(), t.cosh() * (t[1] - t[0])
    plane = torch.cartesian_prod(x, x)
    weights = (weight[:, None] * weight).flatten()
    with torch.no_grad():
        values = torch.cat([density(part) for part in plane.split(65536)])
    return float((values * weights).sum())


@pytest.mark.parametrize("latent", LATENTS)
@pytest.mark.parametrize("build", FAMILIES.values(), ids=FAMILIES)
def test_densities_integrate_to_one(build, latent):
    flow = shaken(build(latent), 0.6).double()
    # The rule's own error is of the order of 1e-4, from kinks and steep places.
    assert mass(lambda x: log_prob(flow, x).exp()) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("latent", LATENTS)
@pytest.mark.parametrize("build", FAMILIES.values(), ids=FAMILIES)
def test_a_density_without_its_volume_does_not(build, latent):
    flow = shaken(build(latent), 0.6).double()
    without = mass(lambda x: flow.latent_log_prob(flow.to_latent(x)[0]).exp())
    assert abs(without - 1) > 0.1


@pytest.mark.parametrize("features", [2, 5])
def test_a_flow_starts_at_the_identity(features):
    x = torch.randn(8, features, generator=torch.Generator().manual_seed(0))
    partition = nice(features).partition
    for flow, expected in (
        (Linear(features), x),
        (realnvp(features), x),
        (realnvp(features, couplings=0), x),
        (nice(features), x[:, partition]),
        (nice(features, couplings=3), x[:, partition]),
        (nice(features, couplings=0), x[:, partition]),
    ):
        z, log_det = flow.to_latent(x)
        torch.testing.assert_close(z, expected)
        assert not log_det.any()


@pytest.mark.parametrize("features", [4, 5, 12])
@pytest.mark.parametrize("couplings", [3, 4])
def test_nice_keeps_one_partition_for_all_couplings(features, couplings):
    flow = nice(features, couplings=couplings)
    first = (features + 1) // 2
    halves = {True: flow.partition[:first].tolist(), False: flow.partition[first:].tolist()}
    x = torch.randn(8, features, generator=torch.Generator().manual_seed(0))
    for index, network in enumerate(flow.shifts):
        # Only this coupling does something: what it leaves alone is the half that it reads.
        shaken(network)
        moved = (flow.to_latent(x)[0] != x[:, flow.partition]).all(0)
        torch.nn.init.zeros_(network[-1].weight)
        torch.nn.init.zeros_(network[-1].bias)
        assert flow.partition[~moved].sort().values.tolist() == sorted(halves[index % 2 == 0])


@pytest.mark.parametrize("features", [4, 5])
def test_realnvp_moves_both_halves_of_each_pair_of_couplings(features):
    flow = realnvp(features, couplings=4)
    x = torch.randn(8, features, generator=torch.Generator().manual_seed(0))
    moved = []
    for network in flow.conditioners:
        shaken(network)
        moved.append((flow.to_latent(x)[0] != x).all(0))
        torch.nn.init.zeros_(network[-1].weight)
        torch.nn.init.zeros_(network[-1].bias)
    assert (moved[0] ^ moved[1]).all()
    assert (moved[2] ^ moved[3]).all()


def test_the_partition_is_random_and_saved_with_the_weights():
    partitions = {tuple(NICE(8, random_state=seed).partition.tolist()) for seed in range(20)}
    assert len(partitions) == 20
    assert all(sorted(partition) == list(range(8)) for partition in partitions)
    assert "partition" in NICE(8).state_dict()
    assert "orders" in RealNVP(8).state_dict()


def test_realnvp_bounds_its_log_scale():
    flow = shaken(realnvp(2, couplings=1, bound=0.7), 100.0)
    with torch.no_grad():
        flow.log_scale.zero_()
        _, log_det = flow.to_latent(torch.randn(500, 2, generator=torch.Generator().manual_seed(0)))
    assert 0.6 < log_det.abs().max() <= 0.7 + 1e-6


@pytest.mark.parametrize("build", COUPLED.values(), ids=COUPLED)
def test_a_seed_fixes_the_flow(build):
    one, same = build(6).state_dict(), build(6).state_dict()
    assert all(torch.equal(one[name], same[name]) for name in one)
    other = type(build(6))(6, depth=1, width=8, random_state=1).state_dict()
    assert any(not torch.equal(one[name], other[name]) for name in one.keys() & other.keys())


@pytest.mark.parametrize("kind", [NICE, RealNVP])
def test_a_seeded_flow_leaves_torchs_generators_alone(kind, monkeypatch):
    def refuse(seed):
        raise AssertionError(f"the GPUs' generators were seeded with {seed}")

    monkeypatch.setattr(torch.cuda, "manual_seed_all", refuse)
    before = torch.get_rng_state()
    kind(6, width=8, random_state=0)
    assert torch.equal(torch.get_rng_state(), before)
    kind(6, width=8)
    assert not torch.equal(torch.get_rng_state(), before)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("kind", [NICE, RealNVP])
def test_a_seeded_flow_leaves_the_gpus_generator_alone(kind):
    before = torch.cuda.get_rng_state()
    kind(6, width=8, random_state=0)
    assert torch.equal(torch.cuda.get_rng_state(), before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_linear_flow_has_the_moments_it_is_given(dtype):
    mean = torch.tensor([1.0, -2.0, 0.5], dtype=dtype)
    half = torch.tensor([[2.0, 0, 0], [1, 1, 0], [-0.5, 0.3, 0.7]], dtype=dtype)
    flow = Linear.of_moments(mean, half @ half.T)
    torch.testing.assert_close(flow.factor().detach(), half)
    x = torch.randn(9, 3, generator=torch.Generator().manual_seed(0), dtype=dtype)
    exact = torch.distributions.MultivariateNormal(mean.double(), scale_tril=half.double())
    found = log_prob(flow, x).detach()
    torch.testing.assert_close(found, exact.log_prob(x.double()), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Linear(0), "features must be at least 1; got 0"),
        (lambda: NICE(1), "a coupling needs at least 2 features; got 1"),
        (lambda: RealNVP(1), "a coupling needs at least 2 features; got 1"),
        (lambda: NICE(4, latent="cauchy"), r"\['logistic', 'normal'\]; got 'cauchy'"),
        (lambda: NICE(4, width=0), "width and depth must be at least 1; got 0 and 5"),
        (lambda: NICE(4, depth=0), "width and depth must be at least 1; got 120 and 0"),
        (lambda: NICE(4, activation="sine"), r"\['relu', 'silu', 'tanh'\]; got 'sine'"),
        (lambda: RealNVP(4, bound=0), "bound must be positive; got 0"),
    ],
)
def test_wrong_parameters_are_refused_in_words(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("name", ["nice", "realnvp", "tabular"])
def test_loaded_and_pickled_orders_are_undone(name):
    makers = {"nice": NICE, "realnvp": RealNVP, "tabular": TabularFlow}
    first, other = (makers[name](6, random_state=seed).eval() for seed in (0, 1))
    other.load_state_dict(first.state_dict())
    z = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for flow in (other, pickle.loads(pickle.dumps(other))):
            assert torch.equal(flow.to_data(z)[0], first.to_data(z)[0])
