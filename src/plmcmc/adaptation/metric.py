"""The pullback metric: the latent space's own geometry, seen from a row's holes.

With `J_M = dz/dx_M` and `W` the Fisher information of the latent density, `G = J_M^T W J_M` is the
precision of the conditional for a linear flow with normal latents, and a very good guess otherwise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import pad

from plmcmc.flows import replayed
from plmcmc.kernels import Frame, Holes

Whitened = Callable[[Tensor], Tensor]
# Directions that spread less than this further are left alone: chance shows as much.
SMALLEST_SPIKE = 3.0
LEAST_KNOWN = 1e-18
# Added to matrices scaled to a unit diagonal.
RIDGE = 1e-6
# Variances that are less than rounding of the largest one.
ROUNDING = 1e-12
# Sides of matrices that a CPU takes the eigenvalues of.
SMALL = 64


class MetricWarning(UserWarning):
    """The metric had to be computed in a lesser way."""


def pullback(whitened: Whitened, y: Tensor, holes: Holes) -> Tensor:
    """Return `G` `(rows, holes, holes)` in float64, averaged over each row's chains.

    Costs one forward-mode product per hole.

    Args:
        whitened: from positions to latents of unit Fisher information (`sqrt(W) z`).
        y: positions, the chains of a row side by side.
        holes: where they move.
    """
    rows, width = holes.places.shape
    # `(rows, chains * latents, holes)`: all points of a row count alike.
    stacked = _jacobians(whitened, y, holes).reshape(rows, -1, width)
    return (stacked.mT @ stacked).double() / (len(y) // rows)


def metrics(whitened: Whitened, y: Tensor, holes: Holes) -> Tensor:
    """Return `G` at every position, `(len(y), holes, holes)` in float64."""
    jacobians = _jacobians(whitened, y, holes)
    return (jacobians.mT @ jacobians).double()


def _jacobians(whitened: Whitened, y: Tensor, holes: Holes) -> Tensor:
    """Return derivatives of the latents by the holes, `(len(y), latents, holes)`."""
    chains = len(y) // len(holes.places)
    # Beyond the most holes that a row has, all is padding.
    places = holes.places[:, : holes.most]
    columns = _columns(whitened, y, (place.repeat_interleave(chains) for place in places.T))
    return pad(torch.stack(columns, 2), (0, holes.places.shape[1] - len(columns)))


def pullback_of_one(whitened: Whitened, y: Tensor, holes: Holes) -> Tensor:
    """Return `G` at one point of each row, its columns dealt out among the row's chains.

    Costs one forward-mode product per hole *and row*: a chain's share is its part of the holes.

    Args:
        whitened: as for `pullback`.
        y: positions; the first chain's are looked at.
        holes: where they move.
    """
    rows, width = holes.places.shape
    chains = len(y) // rows
    point = y[::chains].repeat_interleave(chains, 0)
    # Hands of one hole for each chain; the last is filled up with the last hole.
    short = -width % chains
    dealt = torch.cat([holes.places, holes.places[:, -1:].expand(-1, short)], 1)
    hands = dealt.unflatten(1, (-1, chains)).transpose(0, 1).flatten(1)
    columns = _columns(whitened, point, hands)
    # `(rows, holes, latents)`, what the last hand was filled up with left out.
    turned = torch.stack([column.unflatten(0, (rows, chains)) for column in columns], 1)
    turned = turned.flatten(1, 2)[:, :width]
    return (turned @ turned.mT).double()


def _columns(whitened: Whitened, y: Tensor, places: Iterable[Tensor]) -> list[Tensor]:
    """Return the derivative of each position's latents by one of its entries, list by list."""
    columns, slope = [], None
    for place in places:
        tangent = torch.zeros_like(y).flatten(1)
        tangent = tangent.scatter_(1, place[:, None], 1.0).reshape(y.shape)
        if slope is None:
            column, way = _first(whitened, y, tangent)
            slope = replayed(partial(way, whitened, y), tangent)
        else:
            column = slope(tangent)
        # A chain that overflowed has nothing to say.
        columns.append(column.flatten(1).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0))
    return columns


def _first(whitened: Whitened, y: Tensor, tangent: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
    """Return a derivative and how it was found: in forward mode if it can, else by differences."""
    try:
        return _product(whitened, y, tangent), _product
    # Forward mode raises the one or the other, by what it lacks for a flow's operation.
    except (NotImplementedError, RuntimeError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        _warn_of_differences(error)
        return _difference(whitened, y, tangent), _difference


def _product(whitened: Whitened, y: Tensor, tangent: Tensor) -> Tensor:
    """Return the derivative of the latents along a tangent."""
    with forward_ad.dual_level(), torch.no_grad():
        z, slope = forward_ad.unpack_dual(whitened(forward_ad.make_dual(y, tangent)))
    return torch.zeros_like(z) if slope is None else slope


def _warn_of_differences(error: Exception) -> None:
    warnings.warn(
        f"the flow has no forward-mode derivative ({error!s:.80}): computing the metric by finite "
        "differences",
        MetricWarning,
        stacklevel=5,
    )


def _difference(whitened: Whitened, y: Tensor, tangent: Tensor) -> Tensor:
    """Return a central difference; the step balances rounding and curvature."""
    step = torch.finfo(y.dtype).eps ** (1 / 3) * (1 + y.abs().mean())
    with torch.no_grad():
        ahead, behind = (whitened(y + sign * step * tangent) for sign in (1, -1))
    return (ahead - behind) / (2 * step)


def frame_of_precision(precision: Tensor, centre: Tensor, holes: Holes) -> Frame:
    """Return coordinates in which `precision` `(rows, holes, holes)` is the identity.

    Warns:
        MetricWarning: of rows whose matrix cannot be used as it is: chains are exact with any
            frame, but may move slowly.
    """
    frame, usable = usable_frame(precision, centre, holes)
    _warn_of_singular(usable)
    return frame


def usable_frame(precision: Tensor, centre: Tensor, holes: Holes) -> tuple[Frame, Tensor]:
    """Return the same, and for which rows the matrix could be used as it is."""
    told = precision.isfinite().flatten(1).all(1)
    told &= (precision.diagonal(dim1=1, dim2=2) > 0).any(1) | ~holes.present.any(1)
    # Where a matrix tells nothing, steps are tuned from the unit of the coordinates.
    eye = torch.eye(precision.shape[1], dtype=precision.dtype, device=precision.device)
    factor, whole = _factor(torch.where(told[:, None, None], precision, eye), holes)
    inverse = factor.mT
    root = _inverted(factor).mT
    return Frame(holes, centre, root.to(centre.dtype), inverse.to(centre.dtype)), told & whole


def frame_of_covariance(covariance: Tensor, centre: Tensor, holes: Holes) -> Frame:
    """Return coordinates in which `covariance` `(rows, holes, holes)` is the identity."""
    factor, _ = _factor(covariance, holes)
    return Frame(holes, centre, factor.to(centre.dtype), _inverted(factor).to(centre.dtype))


def widened(
    frame: Frame, offsets: Tensor, centre: Tensor, samples: float, *, way: float = 0.5
) -> Frame:
    """Return the frame stretched along the directions in which the draws spread further.

    The metric is the mean curvature; a stroke that may or may not be there is narrow in one place
    and wide in another, and spreads further than it says. Of the draws' covariance in the frame,
    only eigenvalues that `samples` independent draws of a round Gaussian would not show are
    believed, and shrunk to what a spike that shows so must be (Baik, Ben Arous and Peche's
    relation). The frame is then stretched `way` of the way, on the scale of logarithms. Half is
    best for chains: the geometric mean of the draws' covariance and the inverse curvature is the
    metric whose Gaussian has scores closest to the target's (least Fisher divergence). The whole
    way costs step size.

    Args:
        frame: the frame.
        offsets: `(rows, draws, holes)`, draws less their mean.
        centre: `(rows, holes)`, their mean.
        samples: how many independent draws they are worth.
        way: from 0 to 1; at 1 the frame's Gaussian covers the draws.
    """
    values, vectors = _spread(offsets @ frame.inverse.double().mT)
    ratio = (frame.holes.present.sum(1, keepdim=True) / samples).double()
    edge = (1 + ratio.sqrt()).square().clamp(min=SMALLEST_SPIKE)
    half = 0.5 * (values + 1 - ratio)
    spikes = half + (half.square() - values).clamp(min=0).sqrt()
    stretch = torch.where(values > edge, spikes.clamp(min=1), 1.0) ** (0.5 * way)
    kind = frame.root.dtype
    along, out, back = (part.to(kind) for part in (vectors, stretch - 1, 1 / stretch - 1))
    root = frame.root + (frame.root @ along * out[:, None]) @ along.mT
    inverse = frame.inverse + along @ (back[:, :, None] * (along.mT @ frame.inverse))
    return Frame(frame.holes, centre.to(kind), root, inverse)


def _spread(offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Return variances of `(rows, draws, entries)`, and their directions `(rows, entries, *)`.

    Fewer draws than entries spread along no more directions than there are draws, and those are
    combinations of the draws: a smaller matrix tells which.
    """
    scaled = offsets / offsets.shape[1] ** 0.5
    if offsets.shape[1] >= offsets.shape[2]:
        return _eigen(scaled.mT @ scaled)
    values, shares = _eigen(scaled @ scaled.mT)
    # What is rounding only has no direction: draws less their mean always have one such.
    real = values > ROUNDING * values[:, -1:]
    lengths = torch.where(real, values, torch.inf).sqrt()
    return values, scaled.mT @ (shares / lengths[:, None])


def _eigen(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues and vectors; a GPU is slow at many small matrices."""
    near = matrix.cpu() if matrix.shape[1] <= SMALL else matrix
    values, vectors = torch.linalg.eigh(near)
    return values.to(matrix.device), vectors.to(matrix.device)


def _warn_of_singular(usable: Tensor) -> None:
    lost = int((~usable).sum())
    if lost:
        warnings.warn(
            f"the metric of {lost} of {len(usable)} rows is singular or not finite: falling back "
            "to a simpler metric; these chains may mix slowly",
            MetricWarning,
            stacklevel=3,
        )


def _factor(matrix: Tensor, holes: Holes) -> tuple[Tensor, Tensor]:
    """Return Cholesky factors, and of which rows; the padding's is the identity, up to scale.

    A ridge is added to the matrix scaled to a unit diagonal: entries may differ by many orders, as
    a hole and a reading of small error do. More is added where it is near singular; a row whose
    matrix stays so keeps its diagonal only.
    """
    both = holes.present[:, :, None] & holes.present[:, None, :]
    eye = torch.eye(matrix.shape[1], dtype=torch.float64, device=matrix.device)
    diagonal = matrix.diagonal(dim1=1, dim2=2) * holes.present
    mean = (diagonal.sum(1) / holes.present.sum(1).clamp(min=1)).clamp(min=1e-12)[:, None]
    # An entry that tells nothing at all is given a little of what the others tell.
    known = torch.where(holes.present, diagonal.maximum(LEAST_KNOWN * mean), mean)
    scale = known.sqrt()
    scaled = torch.where(both, matrix / (scale[:, :, None] * scale[:, None]), eye)
    # The last resort: always positive definite.
    factor, whole = eye.expand_as(matrix), torch.zeros_like(holes.present[:, 0])
    for attempt in reversed(range(4)):
        found, failed = torch.linalg.cholesky_ex(scaled + RIDGE * 100**attempt * eye)
        factor = torch.where((failed == 0)[:, None, None], found, factor)
        whole = whole | (failed == 0)
    return scale[:, :, None] * factor, whole


def _inverted(factor: Tensor) -> Tensor:
    eye = torch.eye(factor.shape[1], dtype=factor.dtype, device=factor.device)
    return torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)
