"""`FlowImputer`: fills tables, and says how sure it is."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from plmcmc.chains import resumed_seed
from plmcmc.data import DataError, Schema
from plmcmc.imputation.columns import check_names, check_numbers, check_table
from plmcmc.imputation.convergence import Convergence, no_chains, warn_unless_converged
from plmcmc.imputation.device import device_of
from plmcmc.imputation.diagnosis import Diagnosis, diagnosed
from plmcmc.imputation.drawing import Drawing, Drawn, check_statistic
from plmcmc.imputation.effort import EFFORTS, Effort
from plmcmc.imputation.files import load_imputer, save_imputer
from plmcmc.imputation.layout import Layout
from plmcmc.imputation.learning import fit_table
from plmcmc.imputation.likelihood import log_likelihood
from plmcmc.imputation.model import TableModel
from plmcmc.imputation.reduce import interval_ends
from plmcmc.rng import RandomState
from plmcmc.training.tables.posterior import few_rows
from plmcmc.training.tables.team import Team

Array = NDArray[np.float64]


class FlowImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Imputes missing values in tables with normalizing flows trained on the table itself.

    Mixtures of Gaussians join the ensemble where they help.

    Args:
        effort: `"fast"`, `"default"`, `"thorough"`, or an `Effort`.
        statistic: what `transform` fills in: `"mean"` (for categories, the most frequent one),
            `"median"`, or `"draw"`, a random draw.
        types: kinds of columns by name (`"continuous"`, `"integer"`, `"ordinal"`, `"boolean"`,
            `"categorical"`), where they do not follow from dtypes; columns of an array are named
            `"0"`, `"1"`.
        random_state: a seed; the same seed gives the same numbers.
        device: where flows are trained and chains run, such as `"cuda"`.
        checkpoint: a file to which `fit` saves its progress, and from which it resumes.
        distributed: let all processes of torch.distributed's group fit together; each must be given
            the same table.
        progress: show bars; by default on a terminal only.

    Attributes:
        effort_: the settings of the effort.
        layout_: the columns and their kinds.
        model_: the fitted model.
        seed_: seed of all draws.
        rows_: number of rows of the table it was fitted to.
        origin_: number of the file that the next table comes from, and of the part it starts with.
            Set it when filling files in parts, to get the same values as for whole files.
        convergence_: convergence of the chains that ran last: `share` of missing values, and `rows`
            in which all of them converged.

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
        device: str = "cpu",
        checkpoint: str | Path | None = None,
        distributed: bool = False,
        progress: bool | None = None,
    ) -> None:
        self.effort = effort
        self.statistic = statistic
        self.types = types
        self.random_state = random_state
        self.device = device
        self.checkpoint = checkpoint
        self.distributed = distributed
        self.progress = progress

    effort_: Effort
    layout_: Layout
    model_: TableModel
    seed_: int
    rows_: int
    convergence_: Convergence
    origin_: tuple[int, int] = (0, 0)

    def fit(self, X: Any, y: Any = None) -> FlowImputer:
        """Learn the distribution of a table from its observed values."""
        del y
        effort, device = _effort_of(self.effort), device_of(self.device)
        check_statistic(self.statistic)
        table = self._checked(X, reset=True)
        self.layout_ = Layout.of(table, self.types)
        codes = self.layout_.codes(table)
        self.rows_ = len(codes)
        counts = [None if levels is None else len(levels) for levels in self.layout_.levels]
        schema = Schema.of(codes, self.layout_.names, self.layout_.kinds, counts)
        team = Team.here() if self.distributed else Team()
        self.effort_ = effort
        self.seed_ = team.agreed(resumed_seed(self.checkpoint, self.random_state))
        place = None if self.checkpoint is None else Path(self.checkpoint)
        self.model_ = fit_table(
            schema,
            codes,
            effort,
            self.seed_,
            device=device,
            checkpoint=place,
            progress=self.progress,
            team=team,
        )
        self.convergence_ = no_chains(self.model_)
        return self

    def transform(self, X: Any) -> Any:
        """Return the table with missing values filled; observed values are bitwise unchanged."""
        table, codes = self._opened(X)
        drawn = self._drawing.once(codes, self.statistic)
        return self.layout_.fill(table, self._told(drawn))

    def sample(self, X: Any, draws: int = 20) -> Array:
        """Return `(draws, rows, columns)` of completed tables, as numbers or codes of levels.

        With 6 to 100 rows per column (a category counts as several), draws also reflect the
        uncertainty of the model, like the tables of `complete`.
        """
        draws = _counted("draws", draws)
        _, codes = self._opened(X)
        drawing = self._drawing
        few = few_rows(self.rows_, self.model_.schema.width)
        return self._told((drawing.likely if few else drawing.spread)(codes, draws))

    def complete(self, X: Any, m: int = 20, *, delta: Mapping[str, float] | None = None) -> list:
        """Return `m` completed tables, of the type of `X`: analyse each, then `plmcmc.pool`.

        Proper multiple imputation: each table is drawn from its own model, as if fitted to a
        different sample of rows (with moments from randomly weighted rows, the Bayesian bootstrap;
        with 6 to 100 rows per column, from their posterior).
        Pooled intervals therefore also include the uncertainty of the model.

        Args:
            X: a table with missing values.
            m: number of tables.
            delta: numbers to add to imputed values, by column: for checking how results would
                change if missing values were larger or smaller than the observed data suggest.
        """
        m = _counted("m", m)
        table, codes = self._opened(X)
        shifts = self.layout_.shifts({} if delta is None else delta)
        # What was seen is shifted with the rest, but only holes are filled.
        found = self._told(self._drawing.proper(codes, m)) + shifts
        return [self.layout_.fill(table, own) for own in found]

    def interval(self, X: Any, level: float = 0.9, draws: int = 200) -> tuple[Array, Array]:
        """Return lower and upper ends `(rows, columns)` of intervals with this probability.

        For observed values, both ends are the value itself. Ends for integers and ordered levels
        (codes) are values that were drawn; unordered levels have no interval: their ends are NaN
        unless all draws agree.
        """
        if not isinstance(level, Real) or not 0 < level < 1:
            raise ValueError(f"level must be a number between 0 and 1; got {level!r}")
        return interval_ends(self.sample(X, draws), level, self.layout_.kinds)

    def log_prob(self, X: Any) -> Array:
        """Return log p of the observed part of each row, `(rows,)`, missing values integrated out.

        A density for continuous columns, in their units; a probability for tied values, integers,
        booleans and levels. Estimated by annealed importance sampling. Beyond the values seen in
        fitting, densities decrease like a normal's; an unseen integer counts as the nearest one
        seen.
        """
        check_is_fitted(self)
        codes = self.layout_.codes(self._checked(X, reset=False))
        return log_likelihood(self.model_, codes, self.seed_)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean of `log_prob`: higher is better, on rows of the same columns."""
        del y
        return float(self.log_prob(X).mean())

    def diagnose(self, X: Any) -> Diagnosis:
        """Check whether chains converge, and whether values hidden on purpose are recovered.

        Uses at most 400 rows. `print(found.verdict)`, `found.summary()`.
        """
        check_is_fitted(self)
        codes = self.layout_.codes(self._checked(X, reset=False))
        return diagnosed(self.model_, self.layout_, codes, self.effort_, self.seed_)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fitted imputer to a new directory, or to one file if the name ends in `.zip`.

        JSON and safetensors, never pickle.
        """
        check_is_fitted(self)
        return save_imputer(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "cpu") -> FlowImputer:
        """Read an imputer written by `save`; it fills tables exactly as the saved one.

        Raises:
            FileError: if the file cannot be read, saying what is wrong with it.
        """
        return load_imputer(cls, path, device)

    def _checked(self, table: Any, *, reset: bool) -> Any:
        """Let scikit-learn check an array; tables with names keep their types."""
        least = 2 if reset else 1
        check_table(table)
        if not hasattr(table, "columns"):
            check_numbers(table)
            return validate_data(
                self,
                table,
                reset=reset,
                dtype=[np.float64, np.float32],
                # What is infinite is refused by row and column, with what else is no code.
                ensure_all_finite=False,
                ensure_min_samples=least,
                copy=True,
            )
        if len(table) < least:
            rows = "1 row" if len(table) == 1 else f"{len(table)} rows"
            raise DataError(f"expected a table of at least {least} rows; got {rows}. Add rows")
        check_names(table)
        validate_data(self, table, reset=reset, skip_check_array=True)
        return table

    def _opened(self, table: Any) -> tuple[Any, Array]:
        """Return a table as it was checked, and its codes."""
        check_is_fitted(self)
        table = self._checked(table, reset=False)
        codes = self.layout_.codes(table)
        if len(self.convergence_):
            # That was of another table.
            self.convergence_ = no_chains(self.model_)
        return table, codes

    @property
    def _drawing(self) -> Drawing:
        options = (self.progress, self.origin_)
        return Drawing(self.layout_, self.model_, self.effort_, self.seed_, *options)

    def _told(self, drawn: Drawn) -> Array:
        """Return what was drawn; note how its chains converged, and warn if they did not."""
        if drawn.convergence is not None:
            self.convergence_ = drawn.convergence
            warn_unless_converged(drawn.convergence)
        return drawn.codes

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _effort_of(effort: str | Effort) -> Effort:
    if isinstance(effort, Effort):
        return effort
    if not isinstance(effort, str) or effort not in EFFORTS:
        raise ValueError(f"effort must be one of {list(EFFORTS)}, or an Effort; got {effort!r}")
    return EFFORTS[effort]


def _counted(name: str, number: Any) -> int:
    """Return a whole number of 1 or more, or say that it is none."""
    if not hasattr(number, "__index__") or operator.index(number) < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; got {number!r}")
    return operator.index(number)
