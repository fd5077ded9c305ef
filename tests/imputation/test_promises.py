"""What is promised of every table, tried on odd ones; each promise convicts a planted bug.

A long campaign: `pytest tests/imputation/test_promises.py -n 0 --timeout 0
--hypothesis-profile campaign --hypothesis-show-statistics`.
"""

import atexit
import csv
import io
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from odd_frames import (
    FLAGS,
    FLOATS,
    INTEGERS,
    SCHEMAS,
    SINGLES,
    SMALL,
    model_of,
    tables,
    with_schema,
)
from plmcmc.imputation import FlowImputer, files, filling, sampling
from plmcmc.imputation.layout import Layout
from plmcmc.imputation.model import TableModel
from plmcmc.tables.cells import MARKERS
from plmcmc.tables.parquet import ParquetTable
from plmcmc.tables.text import TextTable
from table_files import run

pytestmark = pytest.mark.filterwarnings("ignore::plmcmc.posterior.ConvergenceWarning")


IN_POLARS = {
    FLOATS: pl.Float64,
    SINGLES: pl.Float32,
    INTEGERS: pl.Int64,
    SMALL: pl.UInt8,
    FLAGS: pl.Boolean,
}


def bits(values):
    """Values to be compared to the last bit: -0.0 is not 0.0."""
    return [v.hex() if isinstance(v, float) else v for v in values]


def check_kept(before, after):
    """All that was seen is as it was, and so are names, dtypes and index; no hole is left."""
    pd.testing.assert_index_equal(after.index, before.index, exact=True)
    pd.testing.assert_index_equal(after.columns, before.columns, exact=True)
    assert after.dtypes.tolist() == before.dtypes.tolist()
    assert not after.isna().any(axis=None)
    for place in range(before.shape[1]):
        seen = before.iloc[:, place].notna().to_numpy()
        old, new = (table.iloc[:, place][seen].tolist() for table in (before, after))
        assert bits(old) == bits(new)


def what_is_seen_stays(example):
    schema, table = example
    copy, model = table.copy(), model_of(schema)
    for filled in (model.transform(table), *model.complete(table, 1)):
        check_kept(table, filled)
    pd.testing.assert_frame_equal(table, copy)


def what_is_seen_stays_in_polars(example):
    schema, table = example
    kinds = {name: IN_POLARS.get(column, pl.String) for name, column in SCHEMAS[schema].items()}
    before = pl.DataFrame(
        {name: pl.Series(_listed(table[name]), dtype=kinds[name]) for name in table}
    )
    after = model_of(schema).transform(before)
    assert after.schema == before.schema
    for name in table:
        seen = [place for place, value in enumerate(before[name]) if value is not None]
        assert bits(before[name].gather(seen).to_list()) == bits(after[name].gather(seen).to_list())
        assert after[name].null_count() == 0


def _listed(column):
    return [None if pd.isna(value) else value for value in column]


def what_is_written_stays_in_text(example):
    (schema, table), quoting, separator, end = example
    name = "data.csv" if separator == "," else "data.tsv"
    buffer = io.StringIO(newline="")
    table.to_csv(buffer, index=False, sep=separator, quoting=quoting, lineterminator=end)
    before = buffer.getvalue()
    after = through(schema, name, lambda place: place.write_bytes(before.encode())).decode()
    # Names are as they were, and of each line what was no hole, quotes and all.
    old, new = (cut(content, separator) for content in (before, after))
    assert len(old) == len(new)
    for line, other in zip(old, new, strict=True):
        for cell, found in zip(line, other, strict=True):
            hole = unquoted(cell).strip() in MARKERS and line is not old[0]
            assert hole or cell == found


def cut(content, separator):
    """Lines of cells, quotes included: an own, slow reader."""
    lines, cells, cell, quoted = [], [], "", False
    for mark in content.replace("\r\n", "\n"):
        if mark == '"':
            quoted = not quoted
        if mark in (separator, "\n") and not quoted:
            cells.append(cell)
            cell = ""
            if mark == "\n":
                lines.append(cells)
                cells = []
        else:
            cell += mark
    return lines


def unquoted(cell):
    return next(csv.reader([cell]), [""])[0] if cell.startswith('"') else cell


def what_is_stored_stays_in_parquet(example):
    schema, table = example
    content = through(schema, "data.parquet", table.to_parquet)
    with io.BytesIO() as buffer:
        table.to_parquet(buffer)
        before = pq.read_table(buffer)
    after = pq.read_table(io.BytesIO(content))
    # A column without a single value has no type to keep.
    typed = [field.name for field in before.schema if not pa.types.is_null(field.type)]
    old, new = (table.select(typed).schema for table in (before, after))
    assert new.equals(old, check_metadata=True)
    for old, new in zip(before.columns, after.columns, strict=True):
        pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
        pairs = [pair for pair in pairs if pair[0] is not None and pair[0] == pair[0]]
        assert bits(a for a, _ in pairs) == bits(b for _, b in pairs)


def through(schema, name, write):
    """What the command makes of a file, by the schema's model."""
    with tempfile.TemporaryDirectory() as own:
        place = Path(own) / name
        write(place)
        out = place.with_name("out" + place.suffix)
        assert run("impute", place, "-o", out, "--model", saved(schema)) == 0
        return out.read_bytes()


@cache
def saved(schema):
    """Where a schema's model is, for as long as tests run."""
    own = tempfile.TemporaryDirectory()
    atexit.register(own.cleanup)
    return model_of(schema).save(Path(own.name) / "model")


def many(schema, seed, rows):
    """A frame of many rows, each with a hole, made from a few drawn values."""
    rng = np.random.default_rng(seed)
    few = tables(schema, rows=st.just(5), plain=True)
    return few.map(lambda table: _holed(table.iloc[rng.integers(5, size=rows)], rng))


def _holed(table, rng):
    holes = rng.random(table.shape) < 0.3
    holes[np.arange(len(table)), rng.integers(table.shape[1], size=len(table))] = True
    return table.reset_index(drop=True).mask(holes)


@st.composite
def large(draw):
    schema = draw(st.sampled_from(sorted(SCHEMAS)))
    return schema, draw(many(schema, draw(st.integers(0, 99)), draw(st.integers(129, 260))))


def any_chunk_gives_the_same(example):
    schema, table = example
    model, found = model_of(schema), []
    for rows in (64, 1024):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sampling, "CPU_ROWS", rows)
            found.append([model.transform(table), *model.complete(table, 1)])
    again = [model.transform(table), *model.complete(table, 1)]
    for own in (*found[1:], again):
        for one, other in zip(found[0], own, strict=True):
            check_same(one, other)


def check_same(one, other):
    for name in one:
        assert bits(one[name].tolist()) == bits(other[name].tolist())


@st.composite
def beside_others(draw):
    """Two frames that share one row, and which rows have holes, and nothing else."""
    schema = draw(st.sampled_from(sorted(SCHEMAS)))
    rows = draw(st.integers(2, 70))
    one, other = (draw(many(schema, draw(st.integers(0, 99)), rows)) for _ in range(2))
    place = draw(st.integers(0, rows - 1))
    for name in one:
        other[name] = pd.concat(
            [other[name][:place], one[name][place : place + 1], other[name][place + 1 :]]
        )
    return schema, place, one, other


def a_row_gets_what_it_gets_beside_any_others(example):
    schema, place, one, other = example
    model = model_of(schema)
    check_same(*(model.transform(table).iloc[[place]] for table in (one, other)))


def what_is_loaded_fills_the_same(example):
    schema, table = example
    with tempfile.TemporaryDirectory() as own:
        loaded = FlowImputer.load(model_of(schema).save(Path(own) / "model"))
    for one, other in zip(
        [model_of(schema).transform(table), *model_of(schema).complete(table, 1)],
        [loaded.transform(table), *loaded.complete(table, 1)],
        strict=True,
    ):
        check_kept(table, other)
        check_same(one, other)


FILES = st.tuples(
    with_schema(plain=True),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    st.sampled_from([",", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
)
PROMISES = {
    what_is_seen_stays: with_schema(),
    what_is_seen_stays_in_polars: with_schema(plain=True),
    what_is_written_stays_in_text: FILES,
    what_is_stored_stays_in_parquet: with_schema(),
    any_chunk_gives_the_same: large(),
    a_row_gets_what_it_gets_beside_any_others: beside_others(),
    what_is_loaded_fills_the_same: with_schema(),
}


# Each on its own, so that hypothesis tells how many examples there were.
for _promise, _examples in PROMISES.items():
    globals()[f"test_{_promise.__name__}"] = given(_examples)(_promise)


def broken_fill(patch):
    """Writes every cell anew: large integers pass through floats."""
    right = Layout.fill

    def fill(self, table, codes):
        empty = table.copy()
        for name in table:
            empty[name] = table[name].mask(np.ones(len(table), bool))
        return right(self, empty, codes)

    patch.setattr(Layout, "fill", fill)


def forgotten_index(patch):
    right = Layout.fill
    patch.setattr(
        Layout, "fill", lambda self, table, codes: right(self, table.reset_index(drop=True), codes)
    )


def broken_polars(patch):
    """Fills integers by way of floats."""
    right = filling._replaced_polars

    def replaced(values, holes, found):
        if values.dtype == pl.Int64:
            values = values.cast(pl.Float64).cast(pl.Int64, strict=False)
        return right(values, holes, found)

    patch.setattr(filling, "_replaced_polars", replaced)


def broken_text(patch):
    """Writes numbers as Python does, not as they were written."""
    right = TextTable.filled

    def filled(self, known, frame, flag=None):
        for name, kind in known.kinds.items():
            if kind == "continuous":
                self.cells[name][:] = [repr(float(v)) for v in frame[name]]
        return right(self, known, frame, flag)

    patch.setattr(TextTable, "filled", filled)


def broken_parquet(patch):
    """Fills integers by way of floats."""
    right = ParquetTable.series

    def series(self, name):
        found = right(self, name)
        return found.astype("Float64").astype("Int64") if found.dtype == "Int64" else found

    patch.setattr(ParquetTable, "series", series)


def noise_by_chunk(patch):
    right = sampling.Walk._chunk

    def chunk(self, table, blocks, watch, convergence):
        seeded = replace(self, seed=self.seed + len(blocks))
        right(seeded, table, blocks, watch, convergence)

    patch.setattr(sampling.Walk, "_chunk", chunk)


def looks_at_others(patch):
    """Takes for a hole what a row has in common with the first."""
    right = TableModel.references

    def references(self, table, gaussian=None):
        common = table == table[0]
        common[0] = False
        return right(self, np.where(common, np.nan, table), gaussian)

    patch.setattr(TableModel, "references", references)


def rounded_files(patch):
    right = files._tensors
    patch.setattr(
        files,
        "_tensors",
        lambda column: {
            name: part.float().double() if part.is_floating_point() else part
            for name, part in right(column).items()
        },
    )


BUGS = [
    (what_is_seen_stays, broken_fill),
    (what_is_seen_stays, forgotten_index),
    (what_is_seen_stays_in_polars, broken_polars),
    (what_is_written_stays_in_text, broken_text),
    (what_is_stored_stays_in_parquet, broken_parquet),
    (any_chunk_gives_the_same, noise_by_chunk),
    (a_row_gets_what_it_gets_beside_any_others, looks_at_others),
    (what_is_loaded_fills_the_same, rounded_files),
]


@pytest.mark.parametrize(("promise", "bug"), BUGS, ids=lambda made: made.__name__)
def test_a_planted_bug_is_found(promise, bug):
    # The first that is found ends it; what is tried depends on all constants of the package.
    once = settings(max_examples=400, phases=[Phase.generate], derandomize=True)
    with pytest.MonkeyPatch.context() as patch:
        bug(patch)
        with pytest.raises(AssertionError):
            once(given(PROMISES[promise])(promise))()
