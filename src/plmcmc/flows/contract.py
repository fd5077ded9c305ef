"""`check_flow`: does a flow keep its promises, and if not, which one does it break?"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from plmcmc.flows.protocol import Flow, home
from plmcmc.flows.rows import choose_rows, finite_rows

LARGEST_JACOBIAN = 1024


class BrokenFlow(ValueError):
    """A flow violates the assumptions that exact sampling relies on."""


class Checked(NamedTuple):
    """What `check_flow` looked at; `skipped` says what it could not look at, and why."""

    kept: tuple[str, ...]
    skipped: tuple[str, ...]


def check_flow(
    flow: Flow, x: Tensor, *, tolerance: float | None = None, jacobian: bool = True
) -> Checked:
    """Test on the rows `x` that a flow keeps its promises, and return what was tested.

    Args:
        flow: any object with the four methods of `plmcmc.flows.Flow`.
        x: `(rows, *event)`, complete rows as the flow was trained on; a few dozen are enough.
        tolerance: largest relative error to accept; by default 1e-3 in float32, 1e-6 in float64.
        jacobian: compare log-determinants with autograd's, which takes one pass per column.

    Raises:
        BrokenFlow: naming the promises that are broken, and a row where this happens.

    Example:
        >>> from plmcmc.flows import NICE
        >>> check_flow(NICE(4, random_state=0), torch.randn(8, 4)).skipped
        ()
    """
    if not isinstance(flow, Flow):
        missing = [name for name in _METHODS if not callable(getattr(flow, name, None))]
        raise BrokenFlow(
            f"{type(flow).__name__} is not a flow: it has no {', '.join(missing)}. One of another "
            "library is a flow after plmcmc.adapt"
        )
    if len(x) == 0:
        raise ValueError("x is empty: check_flow needs a few rows to try the flow on")
    trial = _Trial(flow, home(flow).bring(torch.as_tensor(x)), tolerance)
    kept, broken, skipped = [], [], []
    with torch.no_grad():
        trial.run()
    for promise, test in _PROMISES:
        if test is _autograd and not jacobian:
            continue
        fault = test(trial)
        if fault is None:
            kept.append(promise)
        elif fault.startswith(_SKIP):
            skipped.append(f"{promise}: {fault.removeprefix(_SKIP)}")
        else:
            broken.append(f"- {promise}: {fault}")
            if test in _DECISIVE:
                break
    if broken:
        raise BrokenFlow(f"{type(flow).__name__} breaks its promises:\n" + "\n".join(broken))
    return Checked(tuple(kept), tuple(skipped))


_METHODS = ("to_latent", "to_data", "latent_log_prob", "latent_sample")
_SKIP = "skipped, "


class _Trial:
    """The flow's answers on the trial rows, computed once."""

    def __init__(self, flow: Flow, x: Tensor, tolerance: float | None) -> None:
        self.flow, self.x = flow, x
        self.tolerance = tolerance or (1e-6 if x.dtype == torch.float64 else 1e-3)

    def run(self) -> None:
        flow, x = self.flow, self.x
        self.z, self.log_det = flow.to_latent(x)
        self.back, self.log_det_back = flow.to_data(self.z)
        self.latent_log_prob = flow.latent_log_prob(self.z)
        self.drawn = [flow.latent_sample(len(x), self.generator(seed)) for seed in (1, 1, 2)]

    def generator(self, seed: int) -> Generator:
        return Generator(self.x.device).manual_seed(seed)

    def worst(self, one: Tensor, other: Tensor) -> str | None:
        """Name the row where two answers differ most, if that is too much."""
        scale = 1 + torch.maximum(one.double().abs(), other.double().abs())
        error = ((one.double() - other.double()).abs() / scale).reshape(len(one), -1).amax(1)
        row = int(error.argmax())
        # NaN compares false: written so that it counts as a fault.
        if float(error[row]) <= self.tolerance:
            return None
        return f"relative error {float(error[row]):.2g} at row {row} (allowed {self.tolerance:.0e})"


def _shapes(t: _Trial) -> str | None:
    rows = len(t.x)
    for name, tensor in (
        ("to_latent's log-det", t.log_det),
        ("to_data's log-det", t.log_det_back),
        ("latent_log_prob", t.latent_log_prob),
    ):
        # A flow of constant volume may hand over a plain number.
        shape = tuple(getattr(tensor, "shape", ()))
        if shape != (rows,):
            return f"{name} has shape {shape} where ({rows},) is expected"
    if t.back.shape != t.x.shape:
        return f"to_data returns shape {tuple(t.back.shape)} for x of shape {tuple(t.x.shape)}"
    if t.z[0].numel() != t.x[0].numel():
        return (
            f"latent and data dimensions differ ({t.z[0].numel()} and {t.x[0].numel()}), so the "
            "flow has no density"
        )
    if t.drawn[0].shape != t.z.shape:
        return (
            f"latent_sample returns shape {tuple(t.drawn[0].shape)}, to_latent {tuple(t.z.shape)}"
        )
    return None


def _finite(t: _Trial) -> str | None:
    for name, tensor in (
        ("to_latent", t.z),
        ("to_latent's log-det", t.log_det),
        ("to_data", t.back),
        ("latent_log_prob", t.latent_log_prob),
    ):
        wrong = ~finite_rows(tensor)
        if bool(wrong.any()):
            return f"{name} is NaN or infinite at row {int(wrong.nonzero()[0])}"
    return None


def _repeats(t: _Trial) -> str | None:
    with torch.no_grad():
        again, log_det = t.flow.to_latent(t.x)
    fault = t.worst(again, t.z) or t.worst(log_det, t.log_det)
    return (
        fault
        and f"{fault}; does the flow add noise, or is a module in train mode (call flow.eval())?"
    )


def _apart(t: _Trial) -> str | None:
    # The first rows, which keep their places: contexts go by place. Half of them, because a
    # BatchNorm in train mode refuses a single row in words of its own.
    some = (len(t.x) + 1) // 2
    with torch.no_grad():
        z, log_det = t.flow.to_latent(t.x[:some])
    fault = t.worst(z, t.z[:some]) or t.worst(log_det, t.log_det[:some])
    return fault and f"{fault}; does the flow use batch statistics (call flow.eval())?"


def _round_trip(t: _Trial) -> str | None:
    return t.worst(t.back, t.x)


def _latent_round_trip(t: _Trial) -> str | None:
    with torch.no_grad():
        decoded, _ = t.flow.to_data(t.drawn[0])
        # A deep flow may overflow far out, now and then; not at most of its latents.
        lost = ~finite_rows(decoded)
        if 2 * int(lost.sum()) > len(lost):
            return f"to_data is NaN or infinite for {int(lost.sum())} of {len(lost)} drawn latents"
        found = t.flow.to_latent(choose_rows(lost, t.x, decoded))[0]
    return t.worst(choose_rows(lost, t.drawn[0], found), t.drawn[0])


def _cancel(t: _Trial) -> str | None:
    return t.worst(t.log_det, -t.log_det_back)


def _autograd(t: _Trial) -> str | None:
    size = t.x[0].numel()
    if size > LARGEST_JACOBIAN:
        return f"{_SKIP}the Jacobian of {size} columns is too large (limit {LARGEST_JACOBIAN})"
    for row in range(min(2, len(t.x))):
        try:
            jacobian = torch.autograd.functional.jacobian(_encoder(t, row), t.x[row])
        except RuntimeError as error:
            return f"{_SKIP}the flow has no derivative: {error}"
        if not bool(jacobian.any()):
            return f"{_SKIP}the flow has no derivative: autograd loses track of x"
        exact = torch.linalg.slogdet(jacobian.reshape(size, size).double())[1]
        if t.worst(exact[None], t.log_det[row : row + 1]):
            return f"{float(t.log_det[row]):.6g} where autograd finds {float(exact):.6g}, row {row}"
    return None


def _encoder(t: _Trial, row: int) -> Callable[[Tensor], Tensor]:
    """Return the encoder of one of the first two rows, in its place: contexts go by place."""
    before, after = t.x[:row], t.x[row + 1 : 2]
    return lambda values: t.flow.to_latent(torch.cat((before, values[None], after)))[0][row]


def _seeded(t: _Trial) -> str | None:
    if not torch.equal(t.drawn[0], t.drawn[1]):
        return (
            "latent_sample gives different draws for the same generator seed: does it use another "
            "source of random numbers?"
        )
    return "latent_sample ignores its generator" if torch.equal(t.drawn[0], t.drawn[2]) else None


_PROMISES: tuple[tuple[str, Callable[[_Trial], str | None]], ...] = (
    ("one term per row, and matching shapes", _shapes),
    ("finite numbers", _finite),
    ("the same answer twice", _repeats),
    ("a row's answer does not depend on its neighbours", _apart),
    ("to_data undoes to_latent", _round_trip),
    ("to_latent undoes to_data", _latent_round_trip),
    ("the two log-dets cancel", _cancel),
    ("the log-det is the derivative's", _autograd),
    ("latent_sample draws from the generator it is given", _seeded),
)
# With wrong shapes or NaN, every later finding would only repeat it.
_DECISIVE = (_shapes, _finite)
