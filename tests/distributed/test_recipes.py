"""The recipes for Spark and Dask, as they stand in the documentation, fill what we fill."""

import re
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plmcmc import FlowImputer
from toy_tables import LEAST, mixed, with_holes

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
FILES = 2
MODELLED = ["size", "count", "colour", "price"]


def recipe(title):
    """Return the code below a title of the page."""
    found = re.search(rf"## {title}\n.*?```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return found[1]


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Files in `big`, with types that pandas would change, a model, and the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "big").mkdir()
    found = []
    for number in range(FILES):
        frame = with_holes(mixed(50, seed=number)[MODELLED], seed=number)[0]
        own = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
        own = own.set_column(2, "colour", own.column("colour").cast(pa.string()))
        own = own.append_column("id", pa.array(range(50 * number, 50 * number + 50), pa.int32()))
        own = own.append_column("long", pa.array([None, 2**60 + 1] * 25, pa.int64()))
        found.append(own)
        pq.write_table(own, tmp_path / "big" / f"{number}.parquet")
    imputer = FlowImputer(LEAST, random_state=0, progress=False)
    imputer.fit(arrow_frame(pa.concat_tables(found))[MODELLED]).save("model")
    return found


def arrow_frame(table):
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def wanted(tables):
    """What the files are filled with, by their numbers."""
    imputer, whole = FlowImputer.load("model"), []
    imputer.progress = False
    for number, table in enumerate(tables):
        imputer.origin_ = (number, 0)
        frame = arrow_frame(table)
        frame = frame.assign(**imputer.transform(frame[MODELLED]))
        whole.append(pa.Table.from_pandas(frame, schema=table.schema, preserve_index=False))
    return pa.concat_tables(whole)


def check(found, tables):
    """Compare values and types: nothing else is left of them in a file."""
    found, whole = found.replace_schema_metadata().sort_by("id"), wanted(tables)
    assert found.schema == whole.schema.remove_metadata()
    assert found.to_pydict() == whole.to_pydict()


@pytest.mark.filterwarnings("ignore")
def test_dask(tables):
    pytest.importorskip("dask.dataframe")
    # One process: the small tables of tests are no work for many.
    import dask

    with dask.config.set(scheduler="synchronous"):
        exec(recipe("Dask"), {"__name__": "recipe"})
    check(pq.read_table("filled"), tables)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_spark(tables, monkeypatch):
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    build = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    # A partition for each file, in their order.
    build = build.config("spark.sql.files.openCostInBytes", str(2**30))
    spark = build.getOrCreate()
    try:
        exec(recipe("Spark"), {"__name__": "__main__", "spark": spark})
    finally:
        spark.stop()
    check(pq.read_table("filled"), tables)


def test_what_spark_calls_without_spark(tables, monkeypatch):
    """The function of the recipe on an iterator of batches, as `mapInArrow` hands them over."""
    context = SimpleNamespace(get=lambda: SimpleNamespace(partitionId=lambda: 1))
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(TaskContext=context))
    names = {}
    exec(recipe("Spark").partition("spark.conf")[0], names)
    (found,) = names["filled"](iter(tables[1].to_batches()))
    assert found.schema == tables[1].schema
    assert found.to_pydict() == wanted(tables)[50:].to_pydict()


def test_what_dask_calls_without_dask(tables, monkeypatch):
    """The function of the recipe on a frame of Arrow's types, which stays as it is."""
    for name in ("dask", "dask.dataframe"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    names = {}
    exec(recipe("Dask").partition("table = ")[0], names)
    given = arrow_frame(tables[1])
    found = names["filled"](given, {"number": 1})
    assert given.equals(arrow_frame(tables[1]))
    assert found.dtypes.equals(given.dtypes)
    pd.testing.assert_frame_equal(found, arrow_frame(wanted(tables)[50:]), check_exact=True)
