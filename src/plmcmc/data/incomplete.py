"""Rows with holes: what was seen, and where."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plmcmc.data.frames import Labels, is_table, numbers_of
from plmcmc.data.refusal import DataError, place_of

Array = NDArray[np.floating]

# Errors of a reading below this many roundings of its value are no errors.
ROUNDINGS = 16
_UNEVEN = "parts of different widths"


@dataclass(frozen=True)
class Incomplete:
    """Rows of values of which some are seen.

    Attributes:
        values: `(rows, *event)`; holes hold 0, which nothing reads, or a reading.
        observed: bool, same shape; True = seen.
        noise: same shape, or None for none: where positive, the entry is a hole of which there is a
            reading, with a normal error of this deviation.

    Example:
        >>> data = Incomplete.of([[1.0, float("nan")]])
        >>> data.project(torch.tensor([[5.0, 6.0]]))
        tensor([[1., 6.]])
    """

    values: Tensor
    observed: Tensor
    noise: Tensor | None = None

    @classmethod
    def of(
        cls,
        x: Any,
        observed: Any = None,
        noise: Any = None,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Incomplete:
        """Check arrays and take them in; NaN marks the holes when `observed` is not given.

        Args:
            x: `(rows, *event)`.
            observed: bool, same shape; True = seen.
            noise: deviation of the readings' errors; broadcasts to `x`.
            dtype: what values are rounded to: the flow's.
            device: where to keep them.

        Raises:
            DataError: naming the row, when the arrays are not rows of numbers with holes.
        """
        values, seen = checked(x, observed)
        inside = torch.as_tensor(np.where(seen, values, 0)).to(device=device, dtype=dtype)
        if not bool(torch.isfinite(inside).all()):
            place = place_of(~torch.isfinite(inside).cpu().numpy(), Labels.of(x).columns)
            raise DataError(f"x is too large for {dtype} at {place}: rescale it, or use float64")
        if noise is not None:
            error = _deviations(noise, seen, inside.cpu().numpy())
            error = torch.as_tensor(error).to(device=device, dtype=dtype)
            exact = torch.as_tensor(seen, device=device) & (error == 0)
            return cls(inside, exact, error if bool((error > 0).any()) else None)
        # A copy, as `values` are: the caller may go on to write into the array.
        return cls(inside, torch.as_tensor(seen.copy(), device=device))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.values)

    @cached_property
    def seen(self) -> Tensor:
        """How many entries of each row are observed, `(rows,)` in float64."""
        return self.observed.flatten(1).sum(1, dtype=torch.float64)

    def project(self, y: Tensor) -> Tensor:
        """Return `(y_M; x_O)`: `y` with its observed entries replaced by the observed values."""
        return torch.where(self.observed, self.values, y)

    def near_readings(self, y: Tensor) -> Tensor:
        """Return `y` with observed values inserted, and at most two deviations off a measurement.

        Used for starts: precise measurements are kept, imprecise ones leave starts dispersed.
        """
        if self.noise is not None:
            off = (y - self.values).clamp(-2 * self.noise, 2 * self.noise)
            y = torch.where(self.noise > 0, self.values + off, y)
        return self.project(y)

    def log_likelihood(self, y: Tensor) -> Tensor | float:
        """Return `log p(readings | y)`, `(rows,)` in float64; 0 if every value is exact."""
        if self.noise is None:
            return 0.0
        scale = self._scale().double()
        terms = 0.5 * self.errors(y).double().square() + (scale * math.sqrt(2 * math.pi)).log()
        return -torch.where(self.noise > 0, terms, 0.0).flatten(1).sum(1)

    def errors(self, y: Tensor) -> Tensor:
        """Return measurement errors if `y` is true, in deviations; 0 where nothing was measured."""
        if self.noise is None:
            return torch.zeros_like(y)
        return torch.where(self.noise > 0, (y - self.values) / self._scale(), 0.0)

    def _scale(self) -> Tensor:
        """Return the deviations, 1 where there is none: a gradient must not divide by 0."""
        assert self.noise is not None
        return torch.where(self.noise > 0, self.noise, 1.0)

    def select(self, rows: slice | Tensor) -> Incomplete:
        """Return some of the rows."""
        noise = None if self.noise is None else self.noise[rows]
        return Incomplete(self.values[rows], self.observed[rows], noise)

    def repeat(self, times: int) -> Incomplete:
        """Return every row repeated `times` times: a batch with one place per chain."""
        noise = None if self.noise is None else self.noise.repeat_interleave(times, 0)
        values, observed = (p.repeat_interleave(times, 0) for p in (self.values, self.observed))
        return Incomplete(values, observed, noise)


def checked(x: Any, observed: Any = None) -> tuple[Array, NDArray[np.bool_]]:
    """Return `x` as a floating array and `observed` as a boolean one, or raise `DataError`."""
    values = _floating(x)
    if values.ndim < 2:
        raise DataError(
            f"x must have one row per case, shape (rows, columns) or (rows, *event); got shape "
            f"{values.shape}: pass x[None] for a single row"
        )
    if values.size == 0:
        raise DataError(f"x is empty: shape {values.shape}; at least one row and column is needed")
    seen = ~np.isnan(values) if observed is None else _boolean(observed, values.shape)
    names = Labels.of(x).columns
    what = "is NaN although `observed` says it was seen"
    _refuse(np.isnan(values) & seen, what, "mark it missing", names)
    advice = "mark it missing (NaN) or give a finite value"
    _refuse(np.isinf(values) & seen, "is infinite", advice, names)
    return values, seen


def array_of(x: Any, what: str) -> NDArray[Any]:
    """Return a tensor, a table or anything else that NumPy takes as an array of NumPy's."""
    if isinstance(x, Tensor):
        x = x.detach().cpu()
        return (x.float() if x.dtype in (torch.bfloat16, torch.float16) else x).numpy()
    return numbers_of(x, what) if is_table(x) else np.asarray(x)


def _deviations(noise: Any, seen: NDArray[np.bool_], values: Array) -> Array:
    """Return the readings' deviations, in the shape of `seen`, 0 where nothing was read.

    Also 0, with a warning, where it is less than the values' own rounding.
    """
    try:
        spread = np.broadcast_to(array_of(noise, "noise").astype(np.float64), seen.shape)
    except DataError:
        raise
    except (TypeError, ValueError) as error:
        raise DataError(
            f"noise must be one standard deviation, one for each column, or one for each value of "
            f"x (shape {seen.shape}); got {_shape(noise)}"
        ) from error
    limits = np.finfo(values.dtype)
    wrong = seen & ~((spread >= 0) & (spread <= limits.max))
    if wrong.any():
        found = spread[tuple(np.argwhere(wrong)[0])]
        raise DataError(
            f"noise must be a standard deviation, from 0 to {limits.max:.2g}; got {found} at "
            f"{place_of(wrong)}: 0 means that a value is exact"
        )
    least = np.maximum(ROUNDINGS * limits.eps * np.abs(values), limits.tiny**0.5)
    fine = seen & (spread > 0) & (spread < least)
    if fine.any():
        warnings.warn(
            f"noise at {place_of(fine)} ({int(fine.sum())} values in all) is below the resolution "
            f"of {values.dtype}: these values are treated as exact",
            UserWarning,
            stacklevel=5,
        )
    return np.where(seen & ~fine, spread, 0.0)


def _shape(x: Any) -> str:
    try:
        return f"shape {np.shape(x)}"
    except ValueError:
        return "rows of different widths"


def _floating(x: Any) -> Array:
    if isinstance(x, np.ma.MaskedArray):
        raise DataError("x is a masked array, whose mask would be lost: pass x.filled(np.nan)")
    try:
        values = array_of(x, "x")
    except DataError:
        raise
    except ValueError as error:
        raise DataError(_ragged(x)) from error
    if values.dtype == object:
        raise DataError(
            "x must hold numbers; got Python objects: turn text into numbers, None into NaN"
        )
    if not np.issubdtype(values.dtype, np.floating):
        raise DataError(
            f"x must be a floating array; got {values.dtype}. A flow's draws are continuous, and "
            "integers cannot mark missing values with NaN: pass x.astype(float), and `observed` "
            "if needed"
        )
    if values.dtype.itemsize > 8:
        raise DataError(f"x is {values.dtype}, which no flow computes in: pass x.astype(float)")
    return values


def _boolean(observed: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    if isinstance(observed, Tensor):
        observed = observed.detach().cpu().numpy()
    try:
        seen = np.asarray(observed)
    except ValueError as error:
        raise DataError(
            f"observed must have x's shape {shape}; got rows of different widths"
        ) from error
    if seen.dtype != np.bool_:
        raise DataError(
            f"observed must be boolean, True = seen; got {seen.dtype}: pass observed.astype(bool)"
        )
    if seen.shape != shape:
        raise DataError(f"observed must have x's shape {shape}; got {seen.shape}")
    return seen


def _ragged(x: Any) -> str:
    """Say which row is not as wide as the first, or is uneven in itself."""
    widths = [_width(row) for row in x]
    row = next((i for i, w in enumerate(widths) if w != widths[0] or w == _UNEVEN), 0)
    return (
        f"x has rows of different widths: row 0 has {widths[0]}, row {row} has {widths[row]}: "
        f"give every row the same columns, NaN where a value is missing"
    )


def _width(row: Any) -> str:
    try:
        shape = np.shape(row)
    except ValueError:
        return _UNEVEN
    return f"{shape[0]} values" if len(shape) == 1 else f"shape {tuple(shape)}"


def _refuse(
    wrong: NDArray[np.bool_], what: str, advice: str, names: tuple[str, ...] | None
) -> None:
    if wrong.any():
        count = int(wrong.sum())
        more = f" (and {count - 1} more)" if count > 1 else ""
        raise DataError(f"x {what} at {place_of(wrong, names)}{more}: {advice}")
