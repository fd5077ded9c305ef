"""What came out: completions of every row, and whether they can be trusted."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plmcmc import statistics
from plmcmc.data.frames import Labels
from plmcmc.disk import write
from plmcmc.flows import FileError
from plmcmc.storage.strict_json import Fields, parsed

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.floating]
# What a file of draws holds: tensors, and facts of these types.
_TENSORS = ("values", "observed", "acceptance")
_FACTS: dict[str, type] = {"passes": int, "warmup_passes": int, "exact": bool, "method": str}
_FACTS |= {"seed": int}


@dataclass(frozen=True, eq=False, repr=False)
class Draws:
    """Completed rows drawn from p(x_M | x_O).

    Attributes:
        values: `(chains, draws, rows, *event)`; observed entries are exactly those of the caller.
        observed: bool `(rows, *event)`, True = observed exactly; values with an error are drawn.
        acceptance: `(chains, rows)`, share of steps after the warm-up that moved; NaN for complete
            rows, which need no chain.
        passes: flow passes per chain, including warm-up.
        warmup_passes: the part of these spent on the warm-up.
        exact: False if the method was biased.
        method: the method used: a name, or a configured method.
        seed: the seed that reproduces the draws.
        labels: of columns and rows, if the caller's values came in a table.

    NumPy takes draws for their values: `np.asarray(draws)`.
    """

    values: Array
    observed: NDArray[np.bool_]
    acceptance: NDArray[np.float64]
    passes: int
    warmup_passes: int
    exact: bool
    method: str
    seed: int
    labels: Labels = field(default=Labels())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)

    def mean(self) -> Array:
        """Return the conditional mean `(rows, *event)` over chains and draws."""
        return self._settled(self.values.mean((0, 1), dtype=np.float64))

    def std(self) -> NDArray[np.float64]:
        """Return the conditional standard deviation `(rows, *event)`; 0 where observed."""
        return np.where(self.observed, 0.0, self.values.std((0, 1), dtype=np.float64))

    def quantile(self, q: float | list[float]) -> Array:
        """Return conditional quantiles `(rows, *event)`, or one such array per `q`."""
        flat = self.values.reshape(-1, *self.values.shape[2:])
        return self._settled(np.quantile(flat, q, axis=0))

    def rhat(self) -> NDArray[np.float64]:
        """Return rank-normalised split R-hat `(rows, *event)`; NaN where observed."""
        return self._at_holes(statistics.rhat)

    def ess(self) -> NDArray[np.float64]:
        """Return the bulk effective sample size over all chains; NaN where observed."""
        return self._at_holes(statistics.ess)

    def summary(self) -> pd.DataFrame:
        """Return one line per missing entry: mean, deviation, quantiles, R-hat, ESS.

        `row` is its position, `column` its name, if the values came in a table; if that had an
        index, so has the summary.
        """
        import pandas as pd

        holes = np.argwhere(~self.observed)
        count = self.values.shape[0] * self.values.shape[1]
        flat = self._holes().reshape(count, len(holes)).astype(np.float64)
        low, middle, high = np.quantile(flat, [0.05, 0.5, 0.95], axis=0)
        names = ["row", "column"] if holes.shape[1] == 2 else ["row", *_axes(holes.shape[1] - 1)]
        table: dict[str, Any] = dict(zip(names, holes.T, strict=True))
        if self.labels.columns is not None:
            table["column"] = np.array(self.labels.columns, dtype=object)[holes[:, 1]]
        table |= {"mean": flat.mean(0), "sd": flat.std(0, ddof=1) if count > 1 else np.nan}
        table |= {"5%": low, "50%": middle, "95%": high}
        table |= {"rhat": self.rhat()[~self.observed], "ess": self.ess()[~self.observed]}
        index = self.labels.index
        return pd.DataFrame(table, index=None if index is None else index[holes[:, 0]])

    def to_arviz(self) -> Any:
        """Return ArviZ's container (InferenceData in 0.x, DataTree in 1.x) with variable `x`.

        Of a table, its dimensions are `row` and `column`, with the labels of the caller's table.
        """
        try:
            import arviz
        except ImportError as error:
            raise ImportError("to_arviz needs ArviZ: pip install 'plmcmc[arviz]'") from error
        variables, named = {"x": self.values}, self._axes_of_a_table()
        if int(arviz.__version__.split(".")[0]) >= 1:
            return arviz.from_dict({"posterior": variables}, **named)
        return arviz.from_dict(posterior=variables, **named)

    def save(self, path: str | Path) -> Path:
        """Write everything to one safetensors file and return its path.

        The labels of rows are kept if they are text or whole numbers.
        """
        from safetensors.numpy import save

        path = Path(path)
        # safetensors writes memory as it lies: an array in Fortran's order would be scrambled.
        tensors = {name: np.ascontiguousarray(getattr(self, name)) for name in _TENSORS}
        facts = {name: getattr(self, name) for name in _FACTS}
        if labels := self.labels.described():
            facts["labels"] = labels
        content = save(tensors, {"draws": json.dumps(facts)})
        write(path, content)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Draws:
        """Read what `save` wrote.

        Raises:
            FileError: naming the file and what is wrong with it.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "np") as file:
                noted = Fields(file.metadata(), "its metadata").take("draws", str)
                tensors = {key: file.get_tensor(key) for key in _TENSORS}
            facts = Fields(parsed(noted.encode()), "its facts")
            facts.only((*_FACTS, "labels"))
            found = cls(**tensors, **{name: facts.take(name, own) for name, own in _FACTS.items()})
            found._check_shapes()
            described = facts.inside("labels").found if facts.has("labels") else {}
            return replace(found, labels=Labels.read(described, found.observed.shape))
        except (SafetensorError, LookupError, TypeError, ValueError, RuntimeError) as error:
            raise FileError(
                f"{path} does not contain draws, or is damaged: {error}. Get another copy of it, "
                "or draw again"
            ) from error

    def _check_shapes(self) -> None:
        chains, _, *event = self.values.shape
        if self.observed.shape != (*event,) or self.acceptance.shape != (chains, event[0]):
            raise ValueError("the shapes of values, observed and acceptance do not match")

    def __repr__(self) -> str:
        """Say what is inside in one line."""
        chains, draws, rows = self.values.shape[:3]
        return (
            f"Draws({chains} chains x {draws} draws of {rows} rows, "
            f"{int((~self.observed).sum())} missing entries, {self.passes} passes per chain, "
            f"{self.method})"
        )

    def _axes_of_a_table(self) -> dict[str, Any]:
        """What ArviZ is to call the rows and columns of a table."""
        if self.observed.ndim != 2:
            return {}
        columns, rows = self.labels.columns, self.labels.index
        coords = {} if columns is None else {"column": list(columns)}
        # Labels of several levels are no coordinates.
        if rows is not None and rows.nlevels == 1:
            coords["row"] = rows.to_list()
        return {"coords": coords, "dims": {"x": ["row", "column"]}}

    def _holes(self) -> Array:
        """`(chains, draws, missing entries)`."""
        return self.values[:, :, ~self.observed]

    def _at_holes(self, statistic: Any) -> NDArray[np.float64]:
        result = np.full(self.observed.shape, np.nan)
        if not self.observed.all():
            result[~self.observed] = statistic(self._holes())
        return result

    def _settled(self, statistic: NDArray[np.floating]) -> Array:
        """Put the observed values back: an average of equal numbers may differ in its last bit."""
        return np.where(self.observed, self.values[0, 0], statistic).astype(self.values.dtype)


def _axes(count: int) -> list[str]:
    return {3: ["channel", "y", "x"], 2: ["y", "x"]}.get(count, [f"axis{i}" for i in range(count)])
