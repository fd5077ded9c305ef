"""Flows that cannot be sampled exactly are refused before any sampling, with the reason."""

from __future__ import annotations

import torch
from torch import Generator, nn

from plmcmc.flows import BrokenFlow, Flow, home

# Buffers and attributes by which libraries say that a layer takes its weights from the first batch
# it sees: the value that says so.
_WAITING = {"data_dep_init_done": False, "init_on_next_batch": True}
# The same, of layers that do so in train mode only.
_WAITING_IN_TRAINING = {"initialized": False}
# Far less than an estimate scatters, far more than a GPU's sums do.
_ALIKE = 1e-4


def refuse_moving_layers(flow: nn.Module) -> None:
    """Refuse layers whose answer depends on the batch, on chance, or on being asked before."""
    for name, layer in flow.named_modules():
        where = f"{type(flow).__name__}'s layer {name or 'itself'} ({type(layer).__name__})"
        if layer.training and _changes_in_training(layer):
            raise BrokenFlow(
                f"{where} is in train mode, where its output depends on the batch or on chance: "
                "call eval() on the flow first"
            )
        marks = _WAITING | (_WAITING_IN_TRAINING if layer.training else {})
        for attribute, waiting in marks.items():
            if bool(getattr(layer, attribute, not waiting)) is waiting:
                instead = ", or call eval() on it" if attribute in _WAITING_IN_TRAINING else ""
                raise BrokenFlow(
                    f"{where} initialises its weights from the first batch it sees, and has not "
                    f"seen one: pass a batch of training data through the flow first{instead}"
                )


def _changes_in_training(layer: nn.Module) -> bool:
    # nflows and Pyro have a BatchNorm of their own, known by its name.
    return "BatchNorm" in type(layer).__name__ or isinstance(layer, nn.modules.dropout._DropoutNd)


def refuse_one_way(flow: Flow, name: str) -> None:
    """Refuse a flow that cannot decode two latents, or encode them twice alike."""
    source = Generator(home(flow).device).manual_seed(0)
    doing = "draw latents"
    with torch.no_grad():
        try:
            z = flow.latent_sample(2, source)
            doing = "map latents to data"
            x, _ = flow.to_data(z)
            doing = "map data to latents"
            (_, first), (_, again) = flow.to_latent(x), flow.to_latent(x)
            count = x[0].numel()
        # Libraries say in many ways that there is no inverse; any of them is a reason to refuse.
        except Exception as error:
            words = f"{type(error).__name__}: {error}".rstrip(": ")
            raise BrokenFlow(
                f"{name} cannot {doing}, and exact sampling needs both directions ({words})"
            ) from error
    if count != z[0].numel():
        raise BrokenFlow(
            f"{name} maps {z[0].numel()} latents to {count} values: latent and data dimensions "
            "differ, so the flow has no density; leave out values that the others determine"
        )
    if not torch.allclose(first, again, rtol=_ALIKE, atol=_ALIKE, equal_nan=True):
        raise BrokenFlow(
            f"{name} returns a different log-determinant each time: it is an estimate, so "
            "sampling cannot be exact; build the flow with an exact one"
        )
