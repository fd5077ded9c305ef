"""`FlowImputer`: fills tables, and says how sure it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from plmcmc.data import DataError, Schema
from plmcmc.imputation.diagnosis import Diagnosis, diagnosed
from plmcmc.imputation.files import load_imputer, save_imputer
from plmcmc.imputation.model import EFFORTS, Effort, TableModel, fit_table
from plmcmc.imputation.reduce import Mean, median
from plmcmc.imputation.sampling import THIN, Watch, walk
from plmcmc.imputation.tables import Layout, check_names
from plmcmc.rng import RandomState, seed_of

Array = NDArray[np.float64]
STATISTICS = ("mean", "median", "draw")


class FlowImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fills holes with what a normalizing flow, trained on the table itself, expects there.

    Args:
        effort: `"fast"`, `"default"`, `"thorough"`, or an `Effort`.
        statistic: what `transform` fills in: `"mean"` (of a level, the most frequent), `"median"`,
            or `"draw"`, one at random.
        types: kinds of columns by name (`"continuous"`, `"integer"`, `"ordinal"`, `"boolean"`,
            `"categorical"`), where dtypes do not say; columns of an array are named `"0"`, `"1"`.
        random_state: a seed; the same one gives the same numbers.
        progress: show bars; by default on a terminal only.

    Attributes:
        effort_: how much work is put in.
        layout_: what the columns are.
        model_: what was learned.
        seed_: of all that is drawn.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(60, 1)) + np.zeros((60, 2))
        >>> x[:5, 1] = np.nan
        >>> filled = FlowImputer(effort="fast", random_state=0).fit_transform(x)
        >>> bool(np.abs(filled[:5, 1] - x[:5, 0]).max() < 1.0)
        True
    """

    def __init__(
        self,
        effort: str | Effort = "default",
        *,
        statistic: str = "mean",
        types: Mapping[str, str] | None = None,
        random_state: RandomState = None,
        progress: bool | None = None,
    ) -> None:
        self.effort = effort
        self.statistic = statistic
        self.types = types
        self.random_state = random_state
        self.progress = progress

    effort_: Effort
    layout_: Layout
    model_: TableModel
    seed_: int

    def fit(self, X: Any, y: Any = None) -> FlowImputer:
        """Learn the distribution of a table from what is seen of it."""
        del y
        effort = _effort_of(self.effort)
        if self.statistic not in STATISTICS:
            raise ValueError(f"statistic must be one of {STATISTICS}; got {self.statistic!r}")
        table = self._checked(X, reset=True)
        self.layout_ = Layout.of(table, self.types)
        codes = self.layout_.codes(table)
        counts = [None if levels is None else len(levels) for levels in self.layout_.levels]
        schema = Schema.of(codes, self.layout_.names, self.layout_.kinds, counts)
        self.effort_, self.seed_ = effort, seed_of(self.random_state)
        self.model_ = fit_table(schema, codes, effort, self.seed_, progress=self.progress)
        return self

    def transform(self, X: Any) -> Any:
        """Return the table with its holes filled; what was seen is as it was, to the last bit."""
        check_is_fitted(self)
        table = self._checked(X, reset=False)
        codes = self.layout_.codes(table)
        rows = np.isnan(codes).any(1)
        filled = codes.copy()
        if rows.any():
            filled[rows] = self._reduced(codes[rows])
        return self.layout_.fill(table, np.where(np.isnan(codes), filled, codes))

    def sample(self, X: Any, draws: int = 20) -> Array:
        """Return `(draws, rows, columns)` of completed tables, as numbers or codes of levels."""
        check_is_fitted(self)
        if draws < 1:
            raise ValueError(f"draws must be at least 1; got {draws}")
        codes = self.layout_.codes(self._checked(X, reset=False))
        rows = np.isnan(codes).any(1)
        found = np.broadcast_to(codes, (draws, *codes.shape)).copy()
        if rows.any():
            found[:, rows] = self._draws(codes[rows], draws)
        return np.where(np.isnan(codes), found, codes)

    def complete(self, X: Any, m: int = 20) -> list[Any]:
        """Return `m` completed tables, of the type of `X`: analyse each, then `plmcmc.pool`."""
        check_is_fitted(self)
        table = self._checked(X, reset=False)
        return [self.layout_.fill(table, codes) for codes in self.sample(X, m)]

    def interval(self, X: Any, level: float = 0.9, draws: int = 200) -> tuple[Array, Array]:
        """Return lower and upper ends `(rows, columns)` that hold each value with this probability.

        Of what was seen both ends are the value itself; of levels, they are codes.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1; got {level}")
        drawn = self.sample(X, draws)
        low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low, high

    def diagnose(self, X: Any) -> Diagnosis:
        """Return whether chains converge, and whether values hidden on purpose are found.

        Looks at 400 rows at most. `print(found.verdict)`, `found.summary()`.
        """
        check_is_fitted(self)
        codes = self.layout_.codes(self._checked(X, reset=False))
        return diagnosed(self.model_, self.layout_, codes, self.effort_, self.seed_)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fitted imputer to a new directory: JSON and safetensors, never pickle."""
        check_is_fitted(self)
        return save_imputer(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> FlowImputer:
        """Read an imputer written by `save`: it fills as the one that was saved."""
        return load_imputer(cls, path)

    def _checked(self, table: Any, *, reset: bool) -> Any:
        """Let scikit-learn check an array; tables with names keep their types."""
        least = 2 if reset else 1
        if not hasattr(table, "columns"):
            return validate_data(
                self,
                table,
                reset=reset,
                dtype=[np.float64, np.float32],
                ensure_all_finite="allow-nan",
                ensure_min_samples=least,
                copy=True,
            )
        if len(table) < least:
            rows = "1 row" if len(table) == 1 else f"{len(table)} rows"
            raise DataError(f"the table has {rows}: at least {least} are needed")
        check_names(table)
        validate_data(self, table, reset=reset, skip_check_array=True)
        return table

    def _reduced(self, codes: Array) -> Array:
        states = max(1, self.effort_.states // THIN)
        if self.statistic == "draw":
            return self._draws(codes, 1)[0]
        if self.statistic == "median":
            return median(self.layout_, self._draws(codes, states))
        mean = Mean(self.layout_, len(codes), states)
        self._walk(codes, mean.watch, states)
        return mean.table()

    def _draws(self, codes: Array, draws: int) -> Array:
        """Return `(draws, rows, columns)`; members and chains take turns."""
        per_state = self.effort_.chains * self.effort_.members
        states = -(-draws // per_state)
        found = np.empty((states * per_state, *codes.shape))

        def watch(rows: slice, state: int, tables: Array) -> None:
            found[state * per_state : (state + 1) * per_state, rows] = tables.swapaxes(0, 1)

        # Far apart: draws are to be independent.
        self._walk(codes, watch, states, max(THIN, self.effort_.states // states))
        return found[:draws]

    def _walk(self, codes: Array, watch: Watch, states: int, thin: int = THIN) -> None:
        options = {"states": states, "thin": thin, "seed": self.seed_, "progress": self.progress}
        walk(self.model_, codes, self.effort_, watch, **options)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _effort_of(effort: str | Effort) -> Effort:
    if isinstance(effort, Effort):
        return effort
    if effort not in EFFORTS:
        raise ValueError(f"effort must be one of {list(EFFORTS)}; got {effort!r}")
    return EFFORTS[effort]
