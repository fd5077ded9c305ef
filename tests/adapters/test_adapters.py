"""Every library's flows keep a flow's promises, with the density that their library gives them."""

import pytest
import torch
from torch import nn

import plmcmc
from flow_cases import rows_of
from library_flows import (
    CASES,
    FEATURES,
    PIXELS,
    flowjax_flow,
    freia_graph,
    freia_sequence,
    glow,
    hidden,
    needs,
    nflows_layers,
    settled,
)
from plmcmc.adapters import adapt
from plmcmc.adapters.distributions import TransformedFlow
from plmcmc.flows import BrokenFlow, ContextualFlow, Flow, check_flow, home, log_prob
from toys import quiet

ROWS, CONTEXT = 10, 2

pytestmark = [
    # nflows and normflows call torch by old names.
    pytest.mark.filterwarnings(r"ignore:torch.triangular_solve is deprecated:UserWarning"),
    pytest.mark.filterwarnings(r"ignore:torch.lu is deprecated:UserWarning"),
]


def seeded(build, *arguments):
    """Build with weights that are always the same, and leave torch's generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return build(*arguments)


@pytest.mark.parametrize(("case", "dtype"), CASES)
def test_it_keeps_its_promises(case, dtype):
    """The contract, on rows of the flow's own; and the library's density, to the last digits."""
    theirs = seeded(case.build, dtype)
    flow = adapt(theirs, **case.options)
    assert isinstance(flow, Flow)
    assert not isinstance(flow, ContextualFlow)
    assert home(flow).dtype == dtype
    x = rows_of(flow, ROWS)
    skipped = check_flow(flow, x, tolerance=case.tolerance).skipped
    with torch.no_grad():
        z, log_det = flow.to_latent(x)
        back, log_det_back = flow.to_data(z)
        expected = case.log_prob(theirs, x).double()
    for tensor in (x, z, log_det, back, log_det_back):
        assert tensor.dtype == dtype
        assert not tensor.requires_grad
    digits = 1e-10 if dtype == torch.float64 else 1e-4
    torch.testing.assert_close(log_prob(flow, x).detach(), expected, rtol=digits, atol=digits)
    assert ("no derivative" in "".join(skipped)) == type(flow).__name__.startswith("Flowjax")


@pytest.mark.parametrize(("case", "dtype"), CASES)
def test_latents_come_from_the_generator_and_leave_torchs_alone(case, dtype):
    flow = adapt(seeded(case.build, dtype), **case.options)
    before = torch.get_rng_state()
    source = torch.Generator().manual_seed(0)
    first, second = flow.latent_sample(ROWS, source), flow.latent_sample(ROWS, source)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(first, second)
    torch.rand(7)
    assert torch.equal(flow.latent_sample(ROWS, source.manual_seed(0)), first)


# Contexts --------------------------------------------------------------------------------------


def nflows_conditional(kind: str = "affine", embedding: nn.Module | None = None):
    from nflows import distributions, transforms
    from nflows.flows import Flow as NflowsOwn

    layers = transforms.CompositeTransform(nflows_layers(kind, CONTEXT))
    base = distributions.StandardNormal([FEATURES])
    return settled(NflowsOwn(layers, base, embedding), torch.float32)


def nflows_conditional_base():
    from nflows import distributions, transforms
    from nflows.flows import Flow as NflowsOwn

    base = distributions.ConditionalDiagonalNormal([FEATURES], hidden(CONTEXT, 2 * FEATURES))
    return settled(NflowsOwn(transforms.ActNorm(FEATURES), base), torch.float32)


def normflows_conditional():
    import normflows as nf

    layer = nf.flows.MaskedAffineAutoregressive(FEATURES, 16, context_features=CONTEXT)
    base = nf.distributions.DiagGaussian(FEATURES, trainable=False)
    return settled(nf.ConditionalNormalizingFlow(base, [layer]), torch.float32)


def pyro_conditional():
    import pyro.distributions as pd

    layer = pd.transforms.conditional_affine_coupling(FEATURES, CONTEXT)
    settled(layer, torch.float32, 0.02)
    base = pd.Normal(torch.zeros(FEATURES), torch.ones(FEATURES)).to_event(1)
    return pd.ConditionalTransformedDistribution(base, [layer])


CONTEXTUAL = {
    "nflows, coupling": (nflows_conditional, lambda f, x, c: f.log_prob(x, c)),
    "nflows, autoregressive": (
        lambda: nflows_conditional("autoregressive"),
        lambda f, x, c: f.log_prob(x, c),
    ),
    "nflows, embedded": (
        lambda: nflows_conditional(embedding=hidden(CONTEXT, CONTEXT)),
        lambda f, x, c: f.log_prob(x, c),
    ),
    "nflows, base": (nflows_conditional_base, lambda f, x, c: f.log_prob(x, c)),
    "normflows, layers": (normflows_conditional, lambda f, x, c: f.log_prob(x, c)),
    "FrEIA, graph": (
        lambda: settled(freia_graph(CONTEXT), torch.float32),
        lambda f, x, c: _freia_log_prob(f, x, c),
    ),
    "pyro, coupling": (pyro_conditional, lambda f, x, c: f.condition(c).log_prob(x)),
    "flowjax, coupling": (
        lambda: flowjax_flow("coupling_flow", CONTEXT),
        lambda f, x, c: torch.tensor(f.log_prob(x.numpy(), c.numpy()).tolist()),
    ),
}


def _freia_log_prob(network, x, context):
    parts, log_det = network(x, c=[context])
    flat = torch.cat(parts, 1)
    return torch.distributions.Normal(0.0, 1.0).log_prob(flat).sum(1) + log_det


@pytest.mark.parametrize(
    ("build", "their_log_prob", "options"),
    [
        pytest.param(
            *pair,
            {"base": "normal"} if name.startswith("FrEIA") else {},
            id=name,
            marks=needs(name.split(",")[0]),
        )
        for name, pair in CONTEXTUAL.items()
    ],
)
def test_each_row_is_conditioned_on_its_own_context(build, their_log_prob, options):
    theirs = seeded(build)
    family = adapt(theirs, **options)
    assert isinstance(family, ContextualFlow)
    assert not isinstance(family, Flow)
    contexts = torch.randn(ROWS, CONTEXT, generator=torch.Generator().manual_seed(1))
    flow = family.given(contexts)
    x = rows_of(flow, ROWS)
    check_flow(flow, x)
    with torch.no_grad():
        ours, expected = log_prob(flow, x).float(), their_log_prob(theirs, x, contexts)
        other = log_prob(family.given(contexts.flip(0)), x).float()
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
    assert (other != ours).all()


@needs("normflows")
def test_contexts_of_a_class_conditional_model_are_labels():
    model = settled(seeded(glow, 3), torch.float32, 0.1)
    labels = torch.arange(ROWS) % 3
    flow = adapt(model).given(labels.float())
    x = rows_of(flow, ROWS)
    check_flow(flow, x)
    with torch.no_grad():
        torch.testing.assert_close(log_prob(flow, x).float(), model.log_prob(x, labels))


# What a user gives -----------------------------------------------------------------------------


@needs("FrEIA")
class TestBase:
    @pytest.fixture
    def network(self):
        return settled(seeded(freia_graph), torch.float32)

    def test_none_is_assumed(self, network):
        message = r"name the one it was trained with, as in plmcmc.adap"
        with pytest.raises(TypeError, match=message):
            adapt(network)
        with pytest.raises(TypeError, match=message):
            plmcmc.condition(network, torch.zeros(1, FEATURES))

    def test_a_distribution_over_flat_latents_is_one(self, network):
        scale = torch.arange(1.0, FEATURES + 1)
        base = torch.distributions.Normal(torch.zeros(FEATURES), scale)
        flow = adapt(network, base=base)
        x = rows_of(flow, ROWS)
        check_flow(flow, x)
        z, _ = flow.to_latent(x)
        torch.testing.assert_close(flow.latent_log_prob(z), base.log_prob(z).sum(1))

    def test_a_named_one_is_drawn_in_the_networks_precision(self, network):
        flow = adapt(network.double(), base="logistic")
        assert flow.latent_sample(3, torch.Generator()).dtype == torch.float64

    @pytest.mark.parametrize(
        ("base", "message"),
        [
            ("gaussian", r"base must be 'normal', 'logistic', or a torch distribution over 4 lat"),
            (torch.distributions.Normal(0.0, 1.0), r"over 4 latents; got one of shape \(\)"),
            (torch.distributions.Normal(torch.zeros(3), 1.0), r"got one of shape \(3,\)"),
        ],
    )
    def test_what_is_none_is_refused(self, network, base, message):
        with pytest.raises(TypeError, match=message):
            adapt(network, base=base)


def test_a_base_is_refused_by_flows_that_have_one():
    with pytest.raises(TypeError, match="base is for FrEIA's networks; Linear needs none"):
        adapt(plmcmc.Linear(2), base="normal")


def test_outside_the_support_of_the_base_the_density_is_zero():
    uniform = torch.distributions.Uniform(torch.zeros(2), torch.ones(2), validate_args=True)
    steps = [torch.distributions.AffineTransform(0.0, 2.0)]
    flow = adapt(torch.distributions.TransformedDistribution(uniform, steps))
    assert log_prob(flow, torch.tensor([[1.0, 1.0], [1.0, 3.0]])).tolist()[1] == -torch.inf


def test_the_base_may_be_a_mixture():
    """Of which torch draws no empty sample."""
    dist = torch.distributions
    parts = dist.MultivariateNormal(torch.tensor([[0.0, 0.0], [3.0, 3.0]]), torch.eye(2))
    mixture = dist.MixtureSameFamily(dist.Categorical(torch.ones(2)), parts)
    before = torch.random.get_rng_state()
    flow = adapt(dist.TransformedDistribution(mixture, []))
    assert torch.equal(torch.random.get_rng_state(), before)
    x = torch.tensor([[1.0, 2.0]])
    torch.testing.assert_close(log_prob(flow, x), mixture.log_prob(x).double())
    drawn = flow.latent_sample(4000, torch.Generator().manual_seed(0))
    # Half of the first entries are N(0, 1), half N(3, 1): deviation sqrt(1 + 9 / 4).
    assert abs(float(drawn[:, 0].mean()) - 1.5) < 4 * (3.25 / 4000) ** 0.5


def test_outside_the_values_of_a_transform_the_density_is_zero():
    dist = torch.distributions
    normal = dist.Normal(torch.zeros(2), 3 * torch.ones(2))
    flow = adapt(dist.TransformedDistribution(normal, [dist.SigmoidTransform()]))
    x = torch.tensor([[0.5, 0.9], [0.5, 1.1], [-0.1, 0.5], [0.5, 0.5]])
    assert torch.isinf(log_prob(flow, x)).tolist() == [False, True, True, False]
    with quiet():
        posterior = plmcmc.condition(flow, torch.tensor([[0.5, torch.nan]] * 8))
        found = posterior.sample(100, method="gibbs", thin=10, random_state=0)
    draws = found.values[..., 1]
    assert draws.min() >= 0
    assert draws.max() <= 1
    # The second entry is independent of the first: P(x > .95) = P(3 N > log 19) = .163.
    effective = float(found.ess()[:, 1].sum())
    assert effective > 200
    assert abs((draws > 0.95).mean() - 0.1632) < 4 * (0.163 * 0.837 / effective) ** 0.5


@needs("pyro")
def test_terms_of_all_rows_at_once_are_of_every_row():
    import pyro.distributions as pd

    for features in (ROWS, 3):
        layer = pd.transforms.batchnorm(features)
        layer.moving_variance.fill_(4.0)
        base = pd.Normal(torch.zeros(features), torch.ones(features)).to_event(1)
        flow = adapt(pd.TransformedDistribution(base, [layer.eval()]))
        x = torch.randn(ROWS, features, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            log_det = flow.to_latent(x)[1]
        jacobian = torch.func.jacrev(flow.to_latent, has_aux=True)(x[:1])[0]
        expected = jacobian.detach().reshape(features, features).slogdet()[1]
        torch.testing.assert_close(log_det, expected.expand(ROWS), rtol=1e-4, atol=1e-4)


@needs("nflows")
def test_a_flow_that_waits_for_a_batch_is_not_given_one():
    flow = seeded(nflows_waiting).eval()
    adapt(flow)
    layer = flow._transform._transforms[0]
    assert not layer.initialized
    assert not layer.log_scale.detach().any()


@needs("nflows")
def test_rows_outside_a_splines_domain_are_nan_and_the_others_are_not():
    from nflows import distributions, transforms
    from nflows.flows import Flow as NflowsOwn

    spline = transforms.MaskedPiecewiseRationalQuadraticAutoregressiveTransform
    layer = spline(2, hidden_features=8, num_bins=4)
    both = transforms.CompositeTransform([layer, transforms.Logit()])
    flow = NflowsOwn(both, distributions.StandardNormal([2]))
    adapted = adapt(seeded(settled, flow, torch.float32))
    x = torch.tensor([[0.5, 0.5], [0.2, 0.4], [0.3, 1.4], [0.1, 0.9], [0.7, 0.6]])
    z, log_det = adapted.to_latent(x)
    outside = torch.tensor([False, False, True, False, False])
    assert torch.equal(z.isnan().any(1), outside)
    assert torch.equal(log_det == -torch.inf, outside)
    torch.testing.assert_close(z[~outside], both(x[~outside])[0])


# What cannot be adapted ------------------------------------------------------------------------


def torch_simplex():
    dist = torch.distributions
    normal = dist.Normal(torch.zeros(3), torch.ones(3))
    return dist.TransformedDistribution(normal, [dist.StickBreakingTransform()])


def nflows_waiting():
    from nflows import distributions, transforms
    from nflows.flows import Flow as NflowsOwn

    layers = [transforms.ActNorm(FEATURES), *nflows_layers("affine")]
    both = transforms.CompositeTransform(layers)
    return NflowsOwn(both, distributions.StandardNormal([FEATURES])).train()


def zuko_estimated():
    import zuko

    return zuko.flows.CNF(FEATURES, hidden_features=[8], exact=False)


def nflows_training(kind: str):
    flow = seeded(nflows_flow_with, kind)
    return flow.train()


def nflows_flow_with(kind: str):
    from nflows import distributions, transforms
    from nflows.flows import Flow as NflowsOwn
    from nflows.nn.nets import ResidualNet

    if kind == "batch norm":
        layer = transforms.BatchNorm(FEATURES)
    else:
        layer = transforms.AffineCouplingTransform(
            [1, 0, 1, 0], lambda i, o: ResidualNet(i, o, 8, dropout_probability=0.5)
        )
    return NflowsOwn(layer, distributions.StandardNormal([FEATURES]))


def nflows_undrawable():
    from nflows import distributions, transforms
    from nflows.flows import Flow as NflowsOwn

    return NflowsOwn(transforms.LULinear(FEATURES), distributions.DiagonalNormal([FEATURES]))


def normflows_with(*layers: str):
    import normflows as nf

    made = [
        getattr(nf.flows, name)(*([] if name == "BatchNorm" else [(FEATURES,)])) for name in layers
    ]
    return nf.NormalizingFlow(nf.distributions.DiagGaussian(FEATURES), made).eval()


def normflows_residual():
    import normflows as nf

    net = nf.nets.LipschitzMLP([FEATURES, 8, FEATURES])
    base = nf.distributions.DiagGaussian(FEATURES)
    return settled(nf.NormalizingFlow(base, [nf.flows.Residual(net)]), torch.float32)


def normflows_angles():
    import normflows as nf

    layer = nf.flows.CircularCoupledRationalQuadraticSpline(FEATURES, 1, 8, ind_circ=[0])
    return nf.NormalizingFlow(nf.distributions.DiagGaussian(FEATURES), [layer]).eval()


def normflows_dropout():
    import normflows as nf

    nets = [nf.nets.MLP([FEATURES, 8, FEATURES], dropout=0.5) for _ in range(2)]
    layer = nf.flows.MaskedAffineFlow(torch.tensor([1.0, 0.0, 1.0, 0.0]), *nets)
    return nf.NormalizingFlow(nf.distributions.DiagGaussian(FEATURES), [layer])


def pyro_with(name: str):
    import pyro.distributions as pd

    layer = getattr(pd.transforms, name)(FEATURES)
    base = pd.Normal(torch.zeros(FEATURES), torch.ones(FEATURES))
    return pd.TransformedDistribution(base, [layer])


def torch_folded():
    normal = torch.distributions.Normal(torch.zeros(2), torch.ones(2))
    return torch.distributions.TransformedDistribution(
        normal, [torch.distributions.transforms.AbsTransform()]
    )


def freia_two_inputs():
    import FrEIA.framework as ff
    import FrEIA.modules as fm

    starts = [ff.InputNode(2), ff.InputNode(2)]
    joined = ff.Node([start.out0 for start in starts], fm.Concat, {})
    return ff.GraphINN([*starts, joined, ff.OutputNode(joined)])


def flowjax_planar():
    import jax.random as jr
    from flowjax.distributions import StandardNormal
    from flowjax.flows import planar_flow

    # As flowjax makes it, data go to latents only.
    return planar_flow(jr.key(0), base_dist=StandardNormal((FEATURES,)), width_size=8, depth=1)


NORMAL = {"base": "normal"}
REFUSED = {
    "zuko, estimated log-det": (zuko_estimated, {}, r"exact=False.*build it with exact=True"),
    "nflows, batch norm": (
        lambda: nflows_training("batch norm"),
        {},
        r"_transform \(BatchNorm\) is in train mode.*call eval\(\) on the flow first",
    ),
    "nflows, dropout": (
        lambda: nflows_training("dropout"),
        {},
        r"\(Dropout\) is in train mode.*depends on the batch or on chance",
    ),
    "nflows, base that cannot be drawn from": (
        nflows_undrawable,
        {},
        r"Flow cannot draw latents, and exact sampling needs both directions \(NotImplemented",
    ),
    "normflows, planar": (
        lambda: normflows_with("Planar"),
        {},
        r"NormalizingFlow cannot map data to latents.*NotImplementedError",
    ),
    "normflows, radial": (
        lambda: normflows_with("Radial"),
        {},
        r"NormalizingFlow cannot map data to latents.*no algebraic inverse",
    ),
    "normflows, estimated log-det": (
        normflows_residual,
        {},
        r"returns a different log-determinant each time: it is an estimate",
    ),
    "normflows, batch norm": (
        lambda: normflows_with("BatchNorm"),
        {},
        r"uses the mean of the current batch, even in eval mode, and has no inverse",
    ),
    "normflows, angles": (
        normflows_angles,
        {},
        r"CircularCoupled\w+ is for angles, and its density repeats",
    ),
    "normflows, dropout": (normflows_dropout, {}, r"\(Dropout\) is in train mode"),
    "normflows, uninitialised": (
        lambda: normflows_with("ActNorm"),
        {},
        r"flows.0 \(ActNorm\) initialises its weights from the first batch it sees, "
        r"and has not seen one",
    ),
    "FrEIA, uninitialised": (
        lambda: freia_sequence("ActNorm"),
        NORMAL,
        r"\(ActNorm\) initialises its weights from the first batch",
    ),
    "FrEIA, estimated log-det": (
        lambda: freia_sequence("IResNetLayer"),
        NORMAL,
        r"IResNetLayer only estimates its log-determinant, so sampling cannot be exact",
    ),
    "pyro, planar": (
        lambda: pyro_with("planar"),
        {},
        r"TransformedDistribution cannot map data to latents",
    ),
    "pyro, radial": (
        lambda: pyro_with("radial"),
        {},
        r"TransformedDistribution cannot map data to latents",
    ),
    "pyro, batch norm": (lambda: pyro_with("batchnorm"), {}, r"\(BatchNorm\) is in train mode"),
    "torch, no bijection": (torch_folded, {}, r"AbsTransform is not a bijection"),
    "torch, other dimensions": (
        torch_simplex,
        {},
        r"maps 3 latents to 4 values: latent and data dimensions differ",
    ),
    "nflows, uninitialised": (
        nflows_waiting,
        {},
        r"\(ActNorm\) initialises its weights from the first batch .* or call eval\(\) on it",
    ),
    "flowjax, planar": (flowjax_planar, {}, r"Transformed cannot map latents to data"),
}


@pytest.mark.parametrize(
    ("build", "options", "reason"),
    [
        pytest.param(*line, id=name, marks=needs(name.split(",")[0]))
        for name, line in REFUSED.items()
    ],
)
def test_what_cannot_be_sampled_exactly_is_refused_with_the_reason(build, options, reason):
    theirs = seeded(build)
    with pytest.raises(BrokenFlow, match=reason):
        adapt(theirs, **options)
    if not options:
        with pytest.raises(BrokenFlow, match=reason):
            plmcmc.condition(theirs, torch.full((1, FEATURES), torch.nan), check=False)


MISTAKEN = {
    "nflows": (lambda: nflows_layers("affine")[0], {}, "is not an nflows flow: pass nflows.flows"),
    "normflows": (lambda: _normflows_layer(), {}, "is not a normflows model that plmcmc knows"),
    "FrEIA": (freia_two_inputs, NORMAL, "has 2 inputs, but a flow takes one: join them"),
    "FrEIA, layer": (lambda: freia_sequence()[0], NORMAL, "pass a SequenceINN or a GraphINN"),
    "flowjax": (lambda: _flowjax_base(), {}, "StandardNormal is not a flowjax flow: pass one of"),
}


def _normflows_layer():
    import normflows as nf

    return nf.flows.LULinearPermute(FEATURES)


def _flowjax_base():
    from flowjax.distributions import StandardNormal

    return StandardNormal((FEATURES,))


@pytest.mark.parametrize(
    ("build", "options", "message"),
    [
        pytest.param(*line, id=name, marks=needs(name.split(",")[0]))
        for name, line in MISTAKEN.items()
    ],
)
def test_what_is_the_librarys_but_no_flow_is_refused_in_words(build, options, message):
    with pytest.raises(TypeError, match=message):
        adapt(build(), **options)


def test_pixels_are_rows_of_their_own_shape():
    """Rows of any shape, flat latents."""
    pytest.importorskip("normflows")
    flow = adapt(settled(seeded(glow), torch.float32, 0.1))
    x = rows_of(flow, 3)
    assert x.shape == (3, *PIXELS)
    assert flow.to_latent(x)[0].shape == (3, 16)


def test_the_contract_counts_latents():
    simplex = TransformedFlow(torch_simplex())
    x = simplex.to_data(simplex.latent_sample(5, torch.Generator().manual_seed(0)))[0]
    with pytest.raises(BrokenFlow, match=r"dimensions differ \(3 and 4\)"):
        check_flow(simplex, x)
