"""Small flows of every library that is installed, with weights off zero, by name.

A line in `CASES` puts a flow through the contract, in both precisions, and compares its density
with the library's own.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import transforms as torch_transforms

from flow_cases import DTYPES, shaken

FEATURES = 4
PIXELS = (1, 4, 4)


class Case(NamedTuple):
    """A small flow.

    Attributes:
        build: makes it, in a precision.
        log_prob: its library's own log-density.
        options: what to adapt it with.
        tolerance: what to forgive a library that inverts or integrates by steps.
        dtypes: precisions that the library can compute it in.
    """

    build: Callable[[torch.dtype], Any]
    log_prob: Callable[[Any, Tensor], Tensor] = lambda flow, x: flow.log_prob(x)
    options: Mapping[str, Any] = MappingProxyType({})
    tolerance: float | None = None
    dtypes: Sequence[torch.dtype] = DTYPES


def settled(flow: nn.Module, dtype: torch.dtype, scale: float = 0.2) -> nn.Module:
    return shaken(flow, scale).to(dtype).eval()


def hidden(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 16), nn.Tanh(), nn.Linear(16, outputs))


# zuko ------------------------------------------------------------------------------------------


def zuko_flow(
    name: str,
    scale: float = 0.2,
    tolerance: float | None = None,
    tame: float = 1.0,
    dtypes: Sequence[torch.dtype] = DTYPES,
    **options,
) -> Case:
    def build(dtype):
        import zuko

        flow = settled(getattr(zuko.flows, name)(FEATURES, **options), dtype, scale)
        with torch.no_grad():
            for parameter in flow.parameters():
                parameter.mul_(tame)
        return flow

    return Case(build, lambda flow, x: flow().log_prob(x), tolerance=tolerance, dtypes=dtypes)


def zuko_parts(base: str) -> Case:
    """zuko's layers over another base."""

    def build(dtype):
        import zuko

        inner = zuko.flows.MAF(FEATURES, transforms=2, hidden_features=[16])
        if base == "mixture":
            prior = zuko.flows.GMM(FEATURES, components=3)
            return settled(zuko.flows.Flow(inner.transform.transforms, prior), dtype)
        # Squeezed into the box that the base is uniform on, entry by entry.
        squeeze = zuko.flows.UnconditionalTransform(zuko.transforms.SigmoidTransform)
        box = (torch.zeros(FEATURES), torch.ones(FEATURES))
        prior = zuko.flows.UnconditionalDistribution(
            zuko.distributions.BoxUniform, *box, buffer=True
        )
        return settled(zuko.flows.Flow([*inner.transform.transforms, squeeze], prior), dtype)

    return Case(build, lambda flow, x: flow().log_prob(x))


NET = {"hidden_features": [16]}
ZUKO = {
    "spline": zuko_flow("NSF", bins=4, transforms=2, **NET),
    "autoregressive": zuko_flow("MAF", transforms=2, **NET),
    "coupled": zuko_flow("MAF", transforms=2, passes=2, **NET),
    "additive": zuko_flow("NICE", transforms=3, **NET),
    "affine": zuko_flow("RealNVP", transforms=3, **NET),
    "circular spline": zuko_flow("NCSF", bins=4, transforms=2, **NET),
    "polynomial": zuko_flow("SOSPF", transforms=2, **NET),
    "bernstein": zuko_flow("BPF", degree=6, transforms=2, **NET),
    # Inverted by bisection between -10 and 10, which random weights would leave.
    "gaussianization": zuko_flow("GF", tolerance=1e-3, tame=0.3, transforms=2, components=4),
    "neural": zuko_flow("NAF", tolerance=1e-3, transforms=1, **NET),
    # In one precision: seconds go by.
    "continuous": zuko_flow(
        "CNF", scale=0.1, tolerance=1e-3, dtypes=[torch.float64], hidden_features=[8]
    ),
    "uniform base": zuko_parts("uniform"),
    "mixture base": zuko_parts("mixture"),
}


# nflows ----------------------------------------------------------------------------------------


def nflows_layers(kind: str, context: int | None = None) -> list[nn.Module]:
    from nflows import transforms
    from nflows.nn.nets import ResidualNet

    def net(inputs, outputs):
        return ResidualNet(
            inputs, outputs, hidden_features=16, num_blocks=1, context_features=context
        )

    mask = [1, 0] * (FEATURES // 2)
    if kind == "autoregressive":
        layer = transforms.MaskedAffineAutoregressiveTransform
        return [layer(FEATURES, hidden_features=16, context_features=context)]
    if kind == "spline":
        spline = transforms.PiecewiseRationalQuadraticCouplingTransform
        # The first entry moves the others: splines of few bins, with tails.
        return [spline(mask, net, num_bins=4, tails="linear", tail_bound=4.0)]
    return [transforms.AffineCouplingTransform(mask, net), transforms.RandomPermutation(FEATURES)]


def nflows_flow(kind: str, *more: str) -> Case:
    def build(dtype):
        from nflows import distributions, transforms
        from nflows.flows import Flow

        layers = nflows_layers(kind) + nflows_layers(kind)
        layers += [getattr(transforms, name)(FEATURES) for name in more]
        base = distributions.StandardNormal([FEATURES])
        flow = settled(Flow(transforms.CompositeTransform(layers), base), dtype)
        for layer in flow.modules():
            if isinstance(layer, transforms.BatchNorm):
                # As training leaves it.
                layer.running_var += 1.0
        return flow

    return Case(build)


def nflows_images() -> Case:
    def build(dtype):
        from nflows import distributions, transforms
        from nflows.flows import Flow

        whole = transforms.MultiscaleCompositeTransform(num_transforms=2)
        shape = whole.add_transform(
            transforms.CompositeTransform(
                [transforms.SqueezeTransform(), transforms.OneByOneConvolution(4)]
            ),
            (4, 2, 2),
        )
        whole.add_transform(transforms.ActNorm(2), shape)
        return settled(Flow(whole, distributions.StandardNormal([16])), dtype)

    return Case(build)


NFLOWS = {
    "affine coupling": nflows_flow("affine"),
    "autoregressive": nflows_flow("autoregressive"),
    "spline": nflows_flow("spline"),
    "batch norm": nflows_flow("affine", "BatchNorm", "ActNorm", "LULinear"),
    "multiscale images": nflows_images(),
}


# normflows -------------------------------------------------------------------------------------


def normflows_flow(kind: str, base: str = "normal") -> Case:
    def build(dtype):
        import normflows as nf

        mask = torch.tensor([1.0, 0.0] * (FEATURES // 2))
        layers = []
        for turn in range(2):
            if kind == "affine":
                nets = [nf.nets.MLP([FEATURES, 16, FEATURES]) for _ in range(2)]
                layers.append(nf.flows.MaskedAffineFlow(abs(mask - turn), *nets))
                layers.append(nf.flows.AffineConstFlow((FEATURES,)))
            elif kind == "spline":
                spline = nf.flows.CoupledRationalQuadraticSpline
                layers += [spline(FEATURES, 1, 16, num_bins=4), nf.flows.LULinearPermute(FEATURES)]
            else:
                layers.append(nf.flows.MaskedAffineAutoregressive(FEATURES, 16, num_blocks=1))
                layers.append(nf.flows.Permute(FEATURES, mode="swap"))
        if base == "mixture":
            q0 = nf.distributions.GaussianMixture(3, FEATURES)
        else:
            q0 = nf.distributions.DiagGaussian(FEATURES)
        return settled(nf.NormalizingFlow(q0, layers), dtype)

    return Case(build)


def glow(classes: int | None = None):
    """normflows' example of a multiscale model, in small."""
    import normflows as nf

    shapes = [(8, 1, 1), (2, 2, 2)]
    levels = [[nf.flows.GlowBlock(channels, 8), nf.flows.Squeeze()] for channels in (8, 4)]
    bases = [nf.distributions.GlowBase(shape, classes) for shape in shapes]
    model = nf.MultiscaleFlow(bases, levels, [nf.flows.Merge()], class_cond=classes is not None)
    with torch.no_grad():
        # The first batch sets the scales of its normalisation layers.
        source = torch.Generator().manual_seed(0)
        labels = None if classes is None else torch.arange(32) % classes
        model.log_prob(torch.randn(32, *PIXELS, generator=source), labels)
    return model


def normflows_images() -> Case:
    return Case(lambda dtype: settled(glow(), dtype, 0.1), lambda flow, x: flow.log_prob(x, None))


NORMFLOWS = {
    "affine": normflows_flow("affine"),
    "spline": normflows_flow("spline"),
    "autoregressive": normflows_flow("autoregressive"),
    "mixture base": normflows_flow("affine", "mixture"),
    "multiscale images": normflows_images(),
}


# FrEIA -----------------------------------------------------------------------------------------


def standard_normal(flow: nn.Module, x: Tensor) -> Tensor:
    """What users of FrEIA write themselves."""
    outputs, log_det = flow(x)
    parts = [outputs] if isinstance(outputs, Tensor) else outputs
    flat = torch.cat([part.flatten(1) for part in parts], 1)
    return torch.distributions.Normal(0.0, 1.0).log_prob(flat).sum(1) + log_det


def freia_sequence(*more: str) -> nn.Module:
    import FrEIA.framework as ff
    import FrEIA.modules as fm

    network = ff.SequenceINN(FEATURES)
    for _ in range(2):
        network.append(fm.AllInOneBlock, subnet_constructor=hidden)
    for name in more:
        network.append(getattr(fm, name))
    return network


def freia_graph(condition: int = 0) -> nn.Module:
    """Two outputs, of different shapes."""
    import FrEIA.framework as ff
    import FrEIA.modules as fm

    start = ff.InputNode(FEATURES)
    given = [ff.ConditionNode(condition)] if condition else []
    options = {"subnet_constructor": hidden}
    first = ff.Node(start, fm.GLOWCouplingBlock, options, conditions=given)
    split = ff.Node(first, fm.Split, {"section_sizes": [1, FEATURES - 1], "dim": 0})
    second = ff.Node(split.out1, fm.NICECouplingBlock, options)
    third = ff.Node(second, fm.PermuteRandom, {"seed": 1})
    ends = [ff.OutputNode(split.out0), ff.OutputNode(third)]
    return ff.GraphINN([start, *given, first, split, second, third, *ends])


def freia_images() -> nn.Module:
    import FrEIA.framework as ff
    import FrEIA.modules as fm

    network = ff.SequenceINN(*PIXELS)
    network.append(fm.HaarDownsampling)
    network.append(fm.AllInOneBlock, subnet_constructor=lambda i, o: nn.Conv2d(i, o, 1))
    network.append(fm.Flatten)
    return network


def freia(build: Callable[[], nn.Module]) -> Case:
    return Case(lambda dtype: settled(build(), dtype, 0.1), standard_normal, {"base": "normal"})


FREIA = {
    "sequence": freia(freia_sequence),
    "several outputs": freia(freia_graph),
    "images": freia(freia_images),
}


# torch.distributions and Pyro ------------------------------------------------------------------


def transformed(base: str, kind: str) -> Case:
    def build(dtype):
        zeros, ones = torch.zeros(FEATURES, dtype=dtype), torch.ones(FEATURES, dtype=dtype)
        steps = [torch_transforms.AffineTransform(ones, 2 * ones)]
        if base == "uniform":
            prior = torch.distributions.Uniform(zeros, ones)
            steps.insert(0, torch_transforms.SigmoidTransform().inv)
        else:
            prior = torch.distributions.Normal(zeros, ones)
        if kind == "joint":
            prior = torch.distributions.Independent(prior, 1)
            steps.append(torch_transforms.IndependentTransform(torch_transforms.TanhTransform(), 1))
        return torch.distributions.TransformedDistribution(prior, steps)

    def log_prob(distribution, x):
        found = distribution.log_prob(x)
        return found if found.ndim == 1 else found.sum(1)

    return Case(build, log_prob)


def pyro_flow(*names: str, dtypes: Sequence[torch.dtype] = DTYPES) -> Case:
    def build(dtype):
        import pyro.distributions as pd

        layers = nn.ModuleList()
        for name in names:
            layers.append(getattr(pd.transforms, name)(FEATURES))
        settled(layers, dtype, 0.02)
        base = pd.Normal(torch.zeros(FEATURES, dtype=dtype), 1.0)
        turned = [pd.transforms.permute(FEATURES, torch.arange(FEATURES).flip(0)) for _ in layers]
        steps = [step for pair in zip(layers, turned, strict=True) for step in pair]
        return pd.TransformedDistribution(base, steps)

    return Case(build, dtypes=dtypes)


TORCH = {
    "entries": transformed("normal", "apart"),
    "joint": transformed("normal", "joint"),
    "uniform base": transformed("uniform", "apart"),
}
PYRO = {
    "affine coupling": pyro_flow("affine_coupling", "affine_coupling"),
    # Pyro's inverse of it is in float32, whatever it is given.
    "autoregressive": pyro_flow("affine_autoregressive", dtypes=[torch.float32]),
    "spline": pyro_flow("spline", "spline_coupling"),
}


# flowjax ---------------------------------------------------------------------------------------


def flowjax_flow(name: str, condition: int | None = None):
    import jax
    import jax.random as jr
    from flowjax import flows
    from flowjax.distributions import StandardNormal

    options = {"nn_width": 8, "flow_layers": 2, "cond_dim": condition}
    base = StandardNormal((FEATURES,))
    flow = getattr(flows, name)(jr.key(0), base_dist=base, **options)
    leaves, tree = jax.tree.flatten(flow)
    keys = jr.split(jr.key(1), len(leaves))
    moved = [
        leaf + 0.1 * jr.normal(key, leaf.shape)
        if str(getattr(leaf, "dtype", "")) == "float32"
        else leaf
        for key, leaf in zip(keys, leaves, strict=True)
    ]
    return jax.tree.unflatten(tree, moved)


def flowjax(name: str) -> Case:
    def log_prob(flow, x):
        return torch.tensor(flow.log_prob(x.numpy()).tolist())

    # JAX computes in float32 unless the whole process was told otherwise.
    return Case(lambda dtype: flowjax_flow(name), log_prob, dtypes=[torch.float32])


FLOWJAX = {
    "coupling": flowjax("coupling_flow"),
    "autoregressive": flowjax("masked_autoregressive_flow"),
}

LIBRARIES = {
    "zuko": ZUKO,
    "nflows": NFLOWS,
    "normflows": NORMFLOWS,
    "FrEIA": FREIA,
    "torch": TORCH,
    "pyro": PYRO,
    "flowjax": FLOWJAX,
}


def needs(library: str) -> Any:
    """Skip what belongs to a library that is not installed."""
    absent = find_spec(library) is None
    return pytest.mark.skipif(absent, reason=f"{library} is not installed")


CASES = [
    pytest.param(case, dtype, id=f"{library}, {name}, {str(dtype)[6:]}", marks=needs(library))
    for library, cases in LIBRARIES.items()
    for name, case in cases.items()
    for dtype in case.dtypes
]
