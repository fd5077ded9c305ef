"""zuko's flows: `flow(context)` gives a distribution whose transform goes from data to noise.

zuko itself is not imported: doing so switches off torch.distributions' validation everywhere, and
whoever holds one of its flows has imported it already.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor, nn

from plmcmc.flows import home


class ZukoFlow(nn.Module):
    """A zuko flow, unconditional or given a context for each row, as a `Flow`."""

    def __init__(self, flow: nn.Module, context: Tensor | None = None) -> None:
        super().__init__()
        self.flow = flow
        self.context = context

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return `z` and `log |det dz/dx|`."""
        return self._distribution(len(x)).transform.call_and_ladj(x)

    def to_data(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return `x` and `log |det dx/dz|`."""
        return self._distribution(len(z)).transform.inv.call_and_ladj(z)

    def latent_log_prob(self, z: Tensor) -> Tensor:
        """Return the log-density of the base."""
        return self._distribution(len(z)).base.log_prob(z)

    def latent_sample(self, rows: int, generator: Generator) -> Tensor:
        """Return draws from the base."""
        base = self._distribution(rows).base
        # zuko draws from torch's global generator only: seed that one, and put it back after.
        devices = [generator.device] if generator.device.type == "cuda" else []
        seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
        with torch.random.fork_rng(devices=devices):
            _global_generator(generator.device).manual_seed(seed)
            return base.sample((rows,) if len(base.batch_shape) == 0 else ())

    def _distribution(self, rows: int) -> Any:
        """Return zuko's distribution for the first `rows` contexts, or the only one."""
        return self.flow() if self.context is None else self.flow(self.context[:rows])


class ContextualZukoFlow(nn.Module):
    """A zuko flow that waits for the rows' contexts."""

    def __init__(self, flow: nn.Module) -> None:
        super().__init__()
        self.flow = flow

    def given(self, context: Tensor) -> ZukoFlow:
        """Return the flow whose row i is conditioned on `context[i]`."""
        return ZukoFlow(self.flow, context)


def adapt_zuko(flow: nn.Module) -> ZukoFlow | ContextualZukoFlow:
    """Return a zuko flow as a `Flow`, or as a `ContextualFlow` when it cannot do without one."""
    if not isinstance(flow, nn.Module) or not hasattr(flow, "transform"):
        raise TypeError(
            f"{type(flow).__name__} is not a zuko flow: pass zuko.flows.NSF(...) or like"
        )
    return ContextualZukoFlow(flow) if _needs_context(flow) else ZukoFlow(flow)


def _global_generator(device: torch.device) -> Generator:
    """Return torch's own generator of one device; `torch.manual_seed` would seed all of them."""
    if device.type != "cuda":
        return torch.default_generator
    index = torch.cuda.current_device() if device.index is None else device.index
    return torch.cuda.default_generators[index]


def _needs_context(flow: nn.Module) -> bool:
    """Try the flow without a context on one row of zeros: its networks fail if they want one."""
    try:
        distribution = flow()
        distribution.log_prob(home(flow).bring(torch.zeros(1, *distribution.event_shape)))
    except (TypeError, RuntimeError, AttributeError):
        return True
    return False
