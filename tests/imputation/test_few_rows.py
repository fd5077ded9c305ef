"""Few rows for many columns: what is filled in is no better, but says so by its intervals."""

from dataclasses import replace

import numpy as np
import pytest

from plmcmc import FlowImputer
from toy_tables import TINY

SHORT = replace(TINY, chains=2, burn_in=8, states=20)


def covered(rows, columns, seed):
    """Return the share of hidden unrelated normals that lie in their 90% intervals."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    holes = rng.random(x.shape) < 0.2
    table = np.where(holes, np.nan, x)
    imputer = FlowImputer(SHORT, random_state=seed, progress=False).fit(table)
    low, high = imputer.interval(table, 0.9, draws=60)
    return ((x >= low) & (x <= high))[holes]


@pytest.mark.filterwarnings("ignore::plmcmc.ConvergenceWarning")
def test_intervals_are_not_too_narrow_with_as_many_columns_as_rows():
    found = np.concatenate([covered(30, 25, seed) for seed in (0, 1)])
    # A column's own quantiles, of 24 values each, would cover .82 of new ones; the error of 300
    # values of 50 columns is .03 at most. Fitted without a ridge, a third is covered.
    assert found.mean() > 0.82 - 3 * 0.03


def test_no_column_loses_all_of_its_values_to_validation():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(10, 1)) + 0.3 * rng.normal(size=(10, 12))
    for column in range(1, 12):
        table[column % 10, column] = np.nan
    imputer = FlowImputer(SHORT, random_state=0, progress=False).fit(table)
    again = table[:3].copy()
    again[:, 0] = np.nan
    low, high = imputer.interval(again, 0.9, draws=40)
    # Given eleven columns like it, the first is known to .3 or so: not to nothing.
    assert ((high - low)[:, 0] > 0.3).all()


def test_numbers_too_large_to_square_are_refused_by_name():
    table = np.random.default_rng(0).normal(size=(20, 2))
    table[7, 1] = -1.7e308
    with pytest.raises(ValueError, match=r"row 7: expected numbers up to 1e\+150; got -1\.7e\+308"):
        FlowImputer(SHORT, random_state=0).fit(table)
