"""How many numbers a flow holds, told from its description alone.

So a file that describes a flow of a billion weights, and has none of them, is refused before one is
built. Tests compare these with the flows themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

# Of each there are as many layers with weights of their own.
_LAYERS = ("couplings", "depth", "levels", "steps")
# Each halves the sides of an image.
MOST_LEVELS = 32


def layers(config: Mapping[str, Any]) -> int:
    """Return how many layers a flow has at least, each with a tensor of its own."""
    return math.prod(config[name] for name in _LAYERS if name in config)


def numbers(name: str, config: Mapping[str, Any]) -> int:
    """Return how many numbers the tensors of a flow hold."""
    return _NUMBERS[name](**config)


def _linear(features: int, **_: Any) -> int:
    return features * (features + 2)


def _nice(features: int, couplings: int, depth: int, width: int, **_: Any) -> int:
    return _networks(features, couplings, depth, width, 1) + 2 * features


def _realnvp(features: int, couplings: int, depth: int, width: int, **_: Any) -> int:
    return _networks(features, couplings, depth, width, 2) + (couplings + 2) * features


def _tabular(features: int, members: int, couplings: int, depth: int, width: int, **_: Any) -> int:
    networks = _networks(features, couplings, depth, width, 2)
    return members * (networks + (couplings // 2 + features + 2) * features)


def _mixture(features: int, members: int, components: int) -> int:
    return members * components * (1 + features * (features + 1))


def _glow(shape: list[int], levels: int, steps: int, width: int, coupling: str, **_: Any) -> int:
    if levels > MOST_LEVELS:
        raise ValueError(f"levels: expected at most {MOST_LEVELS}; got {levels}")
    channels, found = shape[0], 1
    for level in range(levels):
        channels *= 4
        mixing = channels * (2 * channels + 5)
        first = channels // 2 * width * 9 + 2 * width
        second = width * width + 2 * width
        last = _zero_convolution(width, channels if coupling == "affine" else channels // 2)
        found += steps * (mixing + first + second + last)
        if level == levels - 1:
            found += 2 * channels
        else:
            channels //= 2
            found += _zero_convolution(channels, 2 * channels)
    return found


def _networks(features: int, couplings: int, depth: int, width: int, said: int) -> int:
    """Return the numbers of networks that say so many of each column in the other half."""
    first, second = (features + 1) // 2, features // 2
    there = _network(first, said * second, width, depth)
    back = _network(second, said * first, width, depth)
    return (couplings + 1) // 2 * there + couplings // 2 * back


def _network(inputs: int, outputs: int, width: int, depth: int) -> int:
    if depth < 1:
        return (inputs + 1) * outputs
    return (inputs + 1) * width + (depth - 1) * (width + 1) * width + (width + 1) * outputs


def _zero_convolution(inputs: int, outputs: int) -> int:
    return outputs * (9 * inputs + 2)


_NUMBERS: dict[str, Callable[..., int]] = {
    "linear": _linear,
    "nice": _nice,
    "realnvp": _realnvp,
    "tabular": _tabular,
    "mixture": _mixture,
    "glow": _glow,
}
