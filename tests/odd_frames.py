"""Frames of every kind of column, with odd values, names, dtypes and indices, for hypothesis."""

from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from plmcmc.imputation import FlowImputer
from toy_tables import LEAST

WORDS = ("a,b", 'say "so"', "two\nlines", "ünï 🙂", "=1+1", "", " first", "NA", "-5", "tab\t")
ORDER = ("low", "mid, or so", "high")
LARGE = 2**63 - 1
FEW = st.integers(1, 7)


class Column(NamedTuple):
    """A kind of column.

    Attributes:
        values: that it may hold.
        dtypes: that it may be stored as, holes and all; the first is the model's.
        whole: a dtype that it may be stored as where nothing is missing.
    """

    values: st.SearchStrategy
    dtypes: tuple
    whole: str | None = None


FLOATS = Column(
    st.floats(-1e150, 1e150), ("float64", "Float64", "double[pyarrow]", "object"), "float64"
)
SINGLES = Column(st.floats(-(2.0**100), 2.0**100, width=32), ("float32", "Float32"))
INTEGERS = Column(
    # Most are beyond what a float holds to the last digit.
    st.one_of(st.integers(-9, 9), st.integers(2**53, LARGE), st.integers(-LARGE - 1, -(2**53))),
    ("Int64", "int64[pyarrow]", "object"),
    "int64",
)
SMALL = Column(st.integers(0, 255), ("UInt8",), "uint8")
FLAGS = Column(st.booleans(), ("boolean", "bool[pyarrow]", "object"), "bool")
TEXTS = Column(
    st.sampled_from(WORDS),
    ("object", "string", "str", pd.CategoricalDtype(list(WORDS)), "string[pyarrow]"),
)
GRADES = Column(st.sampled_from(ORDER), (pd.CategoricalDtype(list(ORDER), ordered=True),))
# Names are as odd as words: empty, with commas, quotes and ends of lines.
SCHEMAS = {
    "numbers": {"": FLOATS, "=x": SINGLES, "n, or so": INTEGERS, "small": SMALL},
    "mixed": {"x\ny": FLOATS, 'the "n"': INTEGERS, "flag": FLAGS, "wörd": TEXTS, " g ": GRADES},
}


@cache
def model_of(schema):
    """A model of a schema's columns, fitted to a table that holds all of its words."""
    rng, rows = np.random.default_rng(0), 60
    table = {}
    for name, column in SCHEMAS[schema].items():
        if column in (TEXTS, GRADES):
            words = WORDS if column is TEXTS else ORDER
            values = [words[row % len(words)] for row in range(rows)]
        elif column is FLAGS:
            values = (rng.random(rows) < 0.5).tolist()
        elif column is INTEGERS:
            values = [LARGE, -LARGE - 1, 2**53 + 1, *rng.integers(-LARGE, LARGE, rows - 3).tolist()]
        elif column is SMALL:
            values = rng.integers(0, 256, rows).tolist()
        else:
            values = (rng.normal(size=rows) * 10.0 ** rng.integers(-30, 30, rows)).tolist()
        holed = [
            None if hidden else v for v, hidden in zip(values, rng.random(rows) < 0.2, strict=True)
        ]
        table[name] = pd.Series(holed, dtype=column.dtypes[0])
    return FlowImputer(LEAST, random_state=0).fit(pd.DataFrame(table))


def stored(values, dtype):
    """A column of pandas, None at its holes."""
    if dtype == "object":
        return pd.Series(pd.array(values, dtype=object), dtype=object)
    return pd.Series(values, dtype=dtype)


@st.composite
def indices(draw, rows):
    """An index of pandas: with duplicates, of strings, dates or several levels, or as always."""
    labels = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    kind = draw(st.sampled_from(["plain", "twice", "words", "dates", "levels", "holes"]))
    if kind == "plain":
        return pd.RangeIndex(rows)
    if kind == "levels":
        return pd.MultiIndex.from_arrays([labels, [WORDS[n] for n in labels]], names=["one", None])
    made = {
        "twice": labels,
        "words": [WORDS[n] for n in labels],
        "dates": [pd.Timestamp(2024, 1, 1 + n) for n in labels],
        "holes": [None if n == 0 else float(n) for n in labels],
    }
    return pd.Index(made[kind], name=draw(st.sampled_from([None, "id"])))


@st.composite
def tables(draw, schema, *, rows=FEW, plain=False):
    """A frame of a schema's columns; plain: stored as the model's, with the usual index."""
    count = draw(rows)
    table = {}
    for name, column in SCHEMAS[schema].items():
        cell = st.one_of(st.none(), column.values)
        values = draw(st.lists(cell, min_size=count, max_size=count))
        dtypes = column.dtypes[:1] if plain else column.dtypes
        if column.whole is not None and None not in values and not plain:
            dtypes = (*dtypes, column.whole)
        table[name] = stored(values, draw(st.sampled_from(dtypes)))
    frame = pd.DataFrame(table)
    return frame if plain else frame.set_axis(draw(indices(count)), axis=0)


@st.composite
def with_schema(draw, **options):
    """A schema's name, and a frame of it."""
    schema = draw(st.sampled_from(sorted(SCHEMAS)))
    return schema, draw(tables(schema, **options))
