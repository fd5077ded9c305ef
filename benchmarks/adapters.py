"""What adapting costs: every library's flow called directly, and through plmcmc, in one run.

    python benchmarks/adapters.py

Direct is what a user of the library would write for the same numbers: latents and log-determinant
of 256 rows, data and log-determinant of as many latents, both under `no_grad`. Calls alternate, so
that a busy machine slows both alike; the ratio is of medians. Libraries that are not installed are
left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from statistics import median
from time import perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

import plmcmc

FEATURES, ROWS, CALLS, WIDTH = 8, 256, 400, 64


class Entry(NamedTuple):
    """A flow, what its owner would call, and what it is adapted with."""

    flow: Any
    encode: Callable[[Tensor], Any]
    decode: Callable[[Tensor], Any]
    options: Mapping[str, Any] = MappingProxyType({})


def of_zuko() -> Entry:
    import zuko

    flow = zuko.flows.NSF(FEATURES, transforms=3, passes=2, hidden_features=[WIDTH, WIDTH])
    return Entry(
        flow,
        lambda x: flow().transform.call_and_ladj(x),
        lambda z: flow().transform.inv.call_and_ladj(z),
    )


def of_nflows() -> Entry:
    from nflows import distributions, flows, transforms
    from nflows.nn.nets import ResidualNet

    mask = [1, 0] * (FEATURES // 2)
    layers = [
        transforms.AffineCouplingTransform(mask, lambda i, o: ResidualNet(i, o, WIDTH))
        for _ in range(4)
    ]
    base = distributions.StandardNormal([FEATURES])
    flow = flows.Flow(transforms.CompositeTransform(layers), base).eval()
    return Entry(flow, flow._transform, flow._transform.inverse)


def of_normflows() -> Entry:
    import normflows as nf

    layers = []
    for _ in range(4):
        net = nf.nets.MLP([FEATURES // 2, WIDTH, WIDTH, FEATURES])
        layers += [nf.flows.AffineCouplingBlock(net), nf.flows.Permute(FEATURES, mode="swap")]
    flow = nf.NormalizingFlow(nf.distributions.DiagGaussian(FEATURES), layers).eval()
    return Entry(flow, flow.inverse_and_log_det, flow.forward_and_log_det)


def of_normflows_multiscale() -> Entry:
    import normflows as nf

    levels = [
        [*(nf.flows.GlowBlock(channels, WIDTH) for _ in range(2)), nf.flows.Squeeze()]
        for channels in (8, 4)
    ]
    bases = [nf.distributions.DiagGaussian(shape) for shape in [(8, 2, 2), (2, 4, 4)]]
    flow = nf.MultiscaleFlow(bases, levels, [nf.flows.Merge()], class_cond=False).eval()
    flow.log_prob(torch.randn(64, 1, 8, 8), None)

    def decode(z: Tensor) -> Any:
        parts = z[:, :32].reshape(-1, 8, 2, 2), z[:, 32:].reshape(-1, 2, 4, 4)
        return flow.forward_and_log_det(parts)

    return Entry(flow, flow.inverse_and_log_det, decode)


def _hidden(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, outputs))


def of_freia() -> Entry:
    import FrEIA.framework as ff
    import FrEIA.modules as fm

    network = ff.SequenceINN(FEATURES)
    for _ in range(4):
        network.append(fm.AllInOneBlock, subnet_constructor=_hidden)
    network.eval()
    return Entry(network, network, lambda z: network(z, rev=True), {"base": "normal"})


def of_freia_graph() -> Entry:
    import FrEIA.framework as ff
    import FrEIA.modules as fm

    options = {"subnet_constructor": _hidden}
    start = ff.InputNode(FEATURES)
    first = ff.Node(start, fm.GLOWCouplingBlock, options)
    split = ff.Node(first, fm.Split, {})
    second = ff.Node((split, 1), fm.GLOWCouplingBlock, options)
    ends = [ff.OutputNode((split, 0)), ff.OutputNode(second)]
    network = ff.GraphINN([start, first, split, second, *ends]).eval()
    return Entry(network, network, lambda z: network(z.chunk(2, 1), rev=True), {"base": "normal"})


def of_pyro() -> Entry:
    import pyro.distributions as pd

    layers = [pd.transforms.affine_coupling(FEATURES, [WIDTH, WIDTH]) for _ in range(4)]
    base = pd.Normal(torch.zeros(FEATURES), torch.ones(FEATURES)).to_event(1)
    return _transformed(pd.TransformedDistribution(base, layers))


def of_torch() -> Entry:
    from torch.distributions import AffineTransform, Normal, TanhTransform, TransformedDistribution

    base = Normal(torch.zeros(FEATURES), torch.ones(FEATURES))
    # Hardly a flow: what one call costs at least.
    return _transformed(TransformedDistribution(base, [AffineTransform(0.0, 0.5), TanhTransform()]))


def _transformed(flow: Any) -> Entry:
    def per_row(terms: Tensor) -> Tensor:
        return terms.sum(1) if terms.ndim > 1 else terms

    def encode(x: Tensor) -> Any:
        log_det = 0.0
        for transform in reversed(flow.transforms):
            z = transform.inv(x)
            log_det = log_det - per_row(transform.log_abs_det_jacobian(z, x))
            x = z
        return x, log_det

    def decode(z: Tensor) -> Any:
        log_det = 0.0
        for transform in flow.transforms:
            x = transform(z)
            log_det = log_det + per_row(transform.log_abs_det_jacobian(z, x))
            z = x
        return z, log_det

    # A fresh tensor each time, or Pyro's layers hand out what they computed last.
    return Entry(flow, lambda x: encode(x.clone()), lambda z: decode(z.clone()))


def of_flowjax() -> Entry:
    import jax
    import paramax
    from flowjax.distributions import StandardNormal
    from flowjax.flows import coupling_flow

    base = StandardNormal((FEATURES,))
    flow = coupling_flow(jax.random.key(0), base_dist=base, nn_width=WIDTH)
    bijection = paramax.unwrap(flow.merge_transforms()).bijection
    encode = jax.jit(jax.vmap(lambda x: bijection.inverse_and_log_det(x)))
    decode = jax.jit(jax.vmap(lambda z: bijection.transform_and_log_det(z)))
    # JAX returns before it has computed: direct calls wait, as the adapter must.
    return Entry(
        flow,
        lambda x: jax.block_until_ready(encode(x.numpy())),
        lambda z: jax.block_until_ready(decode(z.numpy())),
    )


ENTRIES = {
    "zuko": of_zuko,
    "nflows": of_nflows,
    "normflows": of_normflows,
    "normflows, multiscale": of_normflows_multiscale,
    "FrEIA": of_freia,
    "FrEIA, two outputs": of_freia_graph,
    "torch": of_torch,
    "pyro": of_pyro,
    "flowjax": of_flowjax,
}


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(
        f"{'':24} {'encode':>10} {'adapted':>10} {'ratio':>6} {'decode':>10} {'adapted':>10}  ratio"
    )
    for name, build in ENTRIES.items():
        if find_spec(name.split(",")[0]) is None:
            continue
        torch.manual_seed(0)
        entry = build()
        flow: Any = plmcmc.adapt(entry.flow, **entry.options)
        with torch.no_grad():
            z = flow.latent_sample(ROWS, Generator().manual_seed(0))
            x, _ = flow.to_data(z)
            encode = compared(entry.encode, flow.to_latent, x)
            decode = compared(entry.decode, flow.to_data, z)
        print(f"{name:24} {_words(*encode)} {_words(*decode)}", flush=True)


def compared(direct: Callable[[Tensor], Any], ours: Callable[[Tensor], Any], rows: Tensor) -> Any:
    """Return the median seconds of either call."""
    times = {direct: [], ours: []}
    for call in range(CALLS + 20):
        for function in (direct, ours) if call % 2 else (ours, direct):
            begin = perf_counter()
            function(rows)
            if call >= 20:
                times[function].append(perf_counter() - begin)
    return median(times[direct]), median(times[ours])


def _words(direct: float, ours: float) -> str:
    return f"{1e6 * direct:7.0f} us {1e6 * ours:7.0f} us {ours / direct:6.2f}"


if __name__ == "__main__":
    main()
