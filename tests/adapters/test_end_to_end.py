"""A flow trained in its own library, then sampled and calibrated here: one test for all of them."""

import numpy as np
import pytest
import torch
from torch import nn

import plmcmc
from library_flows import freia_sequence, needs, nflows_layers, standard_normal
from toys import quiet

pytestmark = [
    pytest.mark.slow,
    # Of flowjax, which is without.
    pytest.mark.filterwarnings("ignore::plmcmc.posterior.methods.pullback.DerivativeWarning"),
]

FEATURES, STEPS = 4, 150


def bent(rows: int) -> torch.Tensor:
    """Rows that no Gaussian describes: the second column is the square of the first, and noise."""
    x = torch.randn(rows, FEATURES, generator=torch.Generator().manual_seed(0))
    x[:, 1] = 0.5 * (x[:, 0].square() - 1) + 0.3 * x[:, 1]
    x[:, 3] = 0.8 * x[:, 2] + 0.6 * x[:, 3]
    return x


def trained(parameters, loss) -> None:
    """Train a little, by the loss that the library's own documentation would have."""
    optimizer = torch.optim.Adam(parameters, lr=1e-2)
    x = bent(512)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss(x[64 * (step % 8) :][:64]).backward()
        optimizer.step()


def of_zuko():
    import zuko

    flow = zuko.flows.NSF(FEATURES, transforms=1, bins=4, hidden_features=[16])
    trained(flow.parameters(), lambda x: -flow().log_prob(x).mean())
    return flow


def of_nflows():
    from nflows import distributions, transforms
    from nflows.flows import Flow

    layers = [*nflows_layers("affine"), *nflows_layers("affine")]
    base = distributions.StandardNormal([FEATURES])
    flow = Flow(transforms.CompositeTransform(layers), base)
    trained(flow.parameters(), lambda x: -flow.log_prob(x).mean())
    return flow.eval()


def of_normflows():
    import normflows as nf

    layers = []
    for _ in range(2):
        layers.append(nf.flows.AffineCouplingBlock(nf.nets.MLP([2, 16, 4], init_zeros=True)))
        layers.append(nf.flows.Permute(FEATURES, mode="swap"))
    flow = nf.NormalizingFlow(nf.distributions.DiagGaussian(FEATURES), layers)
    trained(flow.parameters(), flow.forward_kld)
    return flow.eval()


def of_freia():
    network = freia_sequence()
    trained(network.parameters(), lambda x: -standard_normal(network, x).mean())
    return network.eval()


def of_torch():
    from torch.distributions import TransformedDistribution
    from torch.distributions.transforms import AffineTransform, SoftplusTransform

    shift, scale = (nn.Parameter(value) for value in (torch.full((4,), 3.0), torch.ones(4)))

    def flow():
        base = torch.distributions.Normal(torch.zeros(4), 1.0)
        # Softplus of a normal is skewed, as the second column is; its support is a half-line.
        return TransformedDistribution(
            base, [AffineTransform(shift, scale), SoftplusTransform(), AffineTransform(-4.0, 1.0)]
        )

    trained([shift, scale], lambda x: -flow().log_prob(x.clamp(min=-3.5)).sum(1).mean())
    return flow()


def of_pyro():
    import pyro.distributions as pd

    layers = [pd.transforms.affine_coupling(FEATURES, [16]) for _ in range(2)]
    turn = pd.transforms.permute(FEATURES, torch.tensor([2, 3, 0, 1]))
    base = pd.Normal(torch.zeros(FEATURES), torch.ones(FEATURES)).to_event(1)
    flow = pd.TransformedDistribution(base, [layers[0], turn, layers[1]])

    def loss(x):
        flow.clear_cache()
        return -flow.log_prob(x).mean()

    trained(nn.ModuleList(layers).parameters(), loss)
    flow.clear_cache()
    return flow


def of_flowjax():
    import jax.random as jr
    from flowjax.distributions import StandardNormal
    from flowjax.flows import coupling_flow
    from flowjax.train import fit_to_data

    base = StandardNormal((FEATURES,))
    flow = coupling_flow(jr.key(0), base_dist=base, nn_width=16, flow_layers=2)
    data = bent(512).numpy()
    options = {"learning_rate": 5e-3, "max_epochs": 10, "show_progress": False}
    return fit_to_data(jr.key(1), flow, data, **options)[0]


BUILDERS = {
    "zuko": of_zuko,
    "nflows": of_nflows,
    "normflows": of_normflows,
    "FrEIA": of_freia,
    "torch": of_torch,
    "pyro": of_pyro,
    "flowjax": of_flowjax,
}


@pytest.mark.parametrize(
    "library", [pytest.param(name, marks=needs(name)) for name in BUILDERS], ids=BUILDERS
)
def test_train_there_sample_and_calibrate_here(library):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        flow = BUILDERS[library]()
    if library == "FrEIA":
        flow = plmcmc.adapt(flow, base="normal")
    x = bent(8).numpy()
    seen = plmcmc.data.Independent(0.5)(x, 0)
    with quiet():
        draws = plmcmc.condition(flow, x, seen).sample(50, chains=2, random_state=0)
    values = draws.values
    assert np.isfinite(values).all()
    assert (values[..., seen] == x[seen]).all()
    assert values.std((0, 1))[~seen].min() > 0
    found = plmcmc.calibrate(flow, plmcmc.data.Independent(0.5), rows=64, draws=35, random_state=0)
    assert found.passed, str(found)


@needs("flowjax")
def test_a_flow_without_derivatives_says_what_it_can_do():
    flow = plmcmc.adapt(of_flowjax())
    posterior = plmcmc.condition(flow, bent(2).numpy(), np.eye(2, FEATURES) > 0)
    for method in ("pullback", "mala", "hmc", "data-hmc", "data-mala"):
        with pytest.raises(plmcmc.BrokenFlow, match=r"no derivatives.*method='auto' or 'elliptica"):
            posterior.sample(5, chains=2, method=method)
    for method in ("metropolis", "pcn", "elliptical", "data-metropolis", "gibbs"):
        with quiet():
            draws = posterior.sample(5, chains=2, warmup=8, method=method, random_state=0)
        assert np.isfinite(draws.values).all()
