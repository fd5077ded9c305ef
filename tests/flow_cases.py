"""Every flow of ours, by name: a function that builds it, small, with weights off zero.

A line here puts a flow through the contract and the file tests, in both precisions.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from plmcmc.flows import (
    NICE,
    ChannelsFirst,
    Dequantise,
    Flatten,
    Flow,
    GaussianMixture,
    Glow,
    Linear,
    Logit,
    Preprocessed,
    RealNVP,
    TabularFlow,
    Whiten,
    sample,
)

DTYPES = [torch.float32, torch.float64]


def shaken(flow: nn.Module, scale: float = 0.3, seed: int = 3) -> nn.Module:
    """Move a flow's weights off zero, where its conditioners start."""
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in flow.parameters():
            # FrEIA keeps permutations among them.
            if not parameter.requires_grad:
                continue
            noise = torch.randn(parameter.shape, generator=source, dtype=torch.float64)
            parameter.add_(scale * noise)
    return flow


def nice(features: int, **options) -> NICE:
    return NICE(features, depth=2, width=8, random_state=0, **options)


def realnvp(features: int, **options) -> RealNVP:
    return RealNVP(features, depth=1, width=8, random_state=0, **options)


def glow(shape: tuple[int, int, int], **options) -> Glow:
    return Glow(shape, steps=2, width=4, random_state=0, **options)


def mixture(features: int, members: int = 1) -> GaussianMixture:
    flow = GaussianMixture(features, members=members, components=3)
    flow.mean.normal_(generator=torch.Generator().manual_seed(0))
    return flow


def whiten(*shape: int, mean: float = 10.0) -> Whiten:
    count = torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape)
    return Whiten(mean * count, 0.5 * count.sqrt())


def preprocessed(*steps, features: int = 4) -> Preprocessed:
    return Preprocessed(steps, realnvp(features, couplings=2))


_BUILDERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: Linear(4),
    "linear, logistic": lambda: Linear(4, latent="logistic"),
    "linear, one column": lambda: Linear(1),
    "nice, even": lambda: nice(4),
    "nice, odd": lambda: nice(5),
    "nice, two columns": lambda: nice(2),
    "nice, logistic": lambda: nice(4, latent="logistic"),
    "nice, odd, logistic": lambda: nice(5, latent="logistic"),
    "nice, odd number of couplings": lambda: nice(4, couplings=3),
    "nice, odd, odd number of couplings": lambda: nice(5, couplings=3),
    "nice, one coupling": lambda: nice(5, couplings=1),
    "realnvp, even": lambda: realnvp(4),
    "realnvp, odd": lambda: realnvp(5),
    "realnvp, two columns": lambda: realnvp(2),
    "realnvp, logistic": lambda: realnvp(4, latent="logistic"),
    "realnvp, odd number of couplings": lambda: realnvp(4, couplings=3),
    "realnvp, odd, odd number of couplings": lambda: realnvp(5, couplings=3),
    "tabular": lambda: TabularFlow(4, width=8, random_state=0),
    "tabular, odd": lambda: TabularFlow(5, width=8, couplings=2, random_state=0),
    "tabular, one column": lambda: TabularFlow(1, width=8, random_state=0),
    "tabular, members": lambda: TabularFlow(4, members=2, width=8, random_state=0),
    "mixture": lambda: mixture(3),
    "mixture, members": lambda: mixture(2, members=2),
    "glow": lambda: glow((1, 4, 4), levels=2),
    "glow, additive": lambda: glow((3, 2, 4), levels=1, coupling="additive"),
    "glow, images as files have them": lambda: Preprocessed(
        [Dequantise(16), ChannelsFirst()], glow((2, 4, 2), levels=1)
    ),
    "whitened": lambda: preprocessed(whiten(4)),
    "logit": lambda: preprocessed(Logit(-1.0, 3.0)),
    "dequantised": lambda: preprocessed(Dequantise(16)),
    "flattened": lambda: preprocessed(Flatten((2, 3)), features=6),
    "all steps": lambda: preprocessed(
        Dequantise(16), Logit(), whiten(1, 2, 2, mean=0.1), Flatten((1, 2, 2)), features=4
    ),
    "steps in steps": lambda: Preprocessed([Flatten((2, 2))], preprocessed(whiten(4))),
}
CASES: dict[str, Callable[[], nn.Module]] = {
    # Glow's scales are unbounded, and those of random weights easily overflow.
    name: lambda build=build, scale=0.1 if "glow" in name else 0.3: shaken(build(), scale).eval()
    for name, build in _BUILDERS.items()
}


def rows_of(flow: Flow, rows: int = 16, seed: int = 5) -> Tensor:
    """Return rows of the flow's own, which lie in its data space whatever that is."""
    with torch.no_grad():
        return sample(flow, rows, torch.Generator().manual_seed(seed))
