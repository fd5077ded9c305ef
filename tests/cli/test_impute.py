"""Tables as files: what was there stays, holes are filled, and bad input is named."""

import gzip
import json
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plmcmc.cli.summary import tell_filled
from plmcmc.imputation import FlowImputer
from plmcmc.imputation.reduce import Mean
from table_files import cells, run, text
from toy_tables import mixed, with_holes

pytestmark = pytest.mark.usefixtures("tiny")


def filled(data, output, *more):
    assert run("impute", data, "-o", output, "--effort", "fast", *more) == 0
    return output.read_bytes()


def check_filled(before, after, separator=","):
    """Only holes differ, and none is left."""
    old, new = cells(before, separator), cells(after, separator)
    assert len(old) == len(new)
    changed = 0
    for line, other in zip(old, new, strict=True):
        for cell, found in zip(line, other, strict=True):
            if cell in ("", "NA", "?"):
                assert found not in ("", "NA", "?")
                changed += 1
            else:
                assert cell == found
    assert changed > 10
    return new


class TestText:
    def test_only_holes_change(self, data, tmp_path, capsys):
        after = filled(data, tmp_path / "out.csv").decode()
        table = check_filled(text(), after)
        names = table[0]
        assert all(row[names.index("count")].lstrip("+").isdigit() for row in table[1:])
        assert {row[names.index("colour")] for row in table[1:]} == {"red", "blue, dark", "green"}
        told = capsys.readouterr().out
        assert 'id (identifier), when (dates), a "note" (identifier)' in told
        assert "40 rows, 20 missing values filled" in told
        assert f"Written: {tmp_path / 'out.csv'}" in told

    def test_to_the_character(self, tmp_path):
        """Quotes that were not needed, number formats, blank lines, line ends, byte order mark."""
        lines = ["x,y,z", '"1.50",1e3,"a"', ".5,-2,b", '007.0,NA,""', "+4.,  3,a", "2,5,b"]
        more = ["1.25,3.5,a", "2.,3,b", "0.5,-1,a", "1e1,4,b", "3,1.0,a"]
        before = "\ufeff" + "\r\n".join(lines + more) + "\r\n\r\n"
        path = tmp_path / "data.csv"
        path.write_bytes(before.encode())
        after = filled(path, tmp_path / "out.csv").decode()
        hole = after.split("007.0,", 1)[1].split("\r\n", 1)[0]
        assert hole.split(",")[1] in ('"a"', "b")
        assert after == before.replace('NA,""', hole)

    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_tsv(self, tmp_path, end):
        before = text(separator="\t", end=end)
        path = tmp_path / "data.tsv"
        path.write_bytes(before.encode())
        check_filled(before, filled(path, tmp_path / "out.tsv").decode(), "\t")

    def test_gzip(self, data, tmp_path):
        path = tmp_path / "data.csv.gz"
        path.write_bytes(gzip.compress(text().encode()))
        packed = filled(path, tmp_path / "out.csv.gz")
        assert gzip.decompress(packed) == filled(data, tmp_path / "out.csv")
        assert filled(path, tmp_path / "out2.csv") == (tmp_path / "out.csv").read_bytes()

    def test_no_newline_at_the_end(self, tmp_path):
        path = tmp_path / "data.csv"
        path.write_text("x,y\n" + "1.5,2\n2.5,\n3.5,4\n" * 4 + "1.5,2")
        assert not filled(path, tmp_path / "out.csv").endswith(b"\n")

    def test_other_markers(self, tmp_path):
        path = tmp_path / "data.csv"
        path.write_text("x,y\n" + "".join(f"{i / 4},{i % 3}\n" for i in range(30)) + "-999,1\n")
        after = filled(path, tmp_path / "out.csv", "--na-values", "-999").decode()
        assert "-999" not in after

    def test_words_for_booleans_and_ordered_numbers(self, tmp_path):
        path, types = tmp_path / "data.csv", tmp_path / "types.json"
        rows = [f"{('yes', 'no', '')[i % 3]},{(2, 10, 'NA', 7)[i % 4]},{i / 2}" for i in range(36)]
        path.write_text("\n".join(["member,grade,x", *rows]))
        types.write_text(json.dumps({"member": "boolean", "grade": "ordinal"}))
        table = cells(filled(path, tmp_path / "out.csv", "--types", types).decode())
        assert {row[0] for row in table[1:]} == {"yes", "no"}
        assert {row[1] for row in table[1:]} == {"2", "7", "10"}

    def test_whole_numbers_as_pandas_writes_them(self, tmp_path):
        """With a hole, 3 becomes 3.0: they stay whole and are written so, and are no identifier."""
        path = tmp_path / "data.csv"
        frame = pd.DataFrame({"n": [1, 5, None, 3, 2] * 6, "m": np.arange(30.0), "x": 0.5})
        frame.to_csv(path, index=False)
        table = cells(filled(path, tmp_path / "out.csv").decode())
        assert {row[0] for row in table[1:]} <= {"1.0", "2.0", "3.0", "4.0", "5.0"}
        assert run("fit", path, "-o", tmp_path / "model", "--effort", "fast") == 0
        kinds = FlowImputer.load(tmp_path / "model").layout_
        assert dict(zip(kinds.names, kinds.kinds, strict=True))["m"] == "integer"
        (tmp_path / "new.csv").write_text("n,m,x\n,1,.5\n,2,.5\n")
        argv = ("impute", tmp_path / "new.csv", "-o", tmp_path / "new-out.csv")
        assert run(*argv, "--model", tmp_path / "model") == 0
        found = cells((tmp_path / "new-out.csv").read_text())
        assert all(row[0].isdigit() for row in found[1:])

    def test_statistics(self, data, tmp_path):
        kinds = ("mean", "median", "draw")
        found = [filled(data, tmp_path / f"{k}.csv", "--statistic", k).decode() for k in kinds]
        for after in found:
            check_filled(text(), after)
        assert len(set(found)) == 3

    def test_excluded_columns_keep_their_holes(self, data, tmp_path, capsys):
        after = cells(filled(data, tmp_path / "out.csv", "--exclude", "size").decode())
        assert [row[2] for row in after] == [row[2] for row in cells(text())]
        assert "size (excluded; 8 missing)" in capsys.readouterr().out

    def test_free_text_and_empty_columns(self, tmp_path, capsys):
        path = tmp_path / "data.csv"
        notes = ["", *(f"note {i}" for i in range(79))]
        path.write_text(
            "note,no,x\n" + "".join(f"{n},,{i % 9 or ''}\n" for i, n in enumerate(notes))
        )
        filled(path, tmp_path / "out.csv")
        told = capsys.readouterr().out
        assert "note (free text; 1 missing), no (no values to learn from; 80 missing)" in told

    @pytest.mark.parametrize("content", ["x,y\n1.50,2\n2,3\n", "id\n1\n2\n", "x\n1.5\n"])
    def test_nothing_missing(self, content, tmp_path, capsys):
        path = tmp_path / "data.csv"
        path.write_text(content)
        assert filled(path, tmp_path / "out.csv") == path.read_bytes()
        assert "Nothing to fill" in capsys.readouterr().out


def test_what_was_filled_is_counted_in_words(capsys):
    tell_filled({"x": "integer"}, {"x": 1}, 1)
    assert "1 row, 1 missing value filled" in " ".join(capsys.readouterr().out.split())
    tell_filled({"x": "integer"}, {"x": 2}, 3)
    assert "3 rows, 2 missing values filled" in " ".join(capsys.readouterr().out.split())


class TestParquet:
    def test_types_and_values_stay(self, tmp_path):
        frame, holes = with_holes(mixed())
        path = tmp_path / "data.parquet"
        frame["when"] = pd.Timestamp("2024-01-01")
        frame.to_parquet(path)
        filled(path, tmp_path / "out.parquet")
        before, after = pq.read_table(path), pq.read_table(tmp_path / "out.parquet")
        assert after.schema.equals(before.schema, check_metadata=True)
        found = pd.read_parquet(tmp_path / "out.parquet")
        assert found.dtypes.equals(pd.read_parquet(path).dtypes)
        assert not found.isna().any(axis=None)
        pd.testing.assert_frame_equal(
            found.iloc[:, :6].mask(holes), pd.read_parquet(path).iloc[:, :6]
        )

    def test_whole_numbers_without_pandas(self, tmp_path):
        """Arrow's integers with nulls stay integers, of their width; so do codes of words."""
        words = pa.array(["a", "b", None, "b"] * 8).dictionary_encode()
        table = pa.table({"n": pa.array([1, 2, 2, None] * 8, pa.int32()), "w": words})
        pq.write_table(table, tmp_path / "data.parquet")
        filled(tmp_path / "data.parquet", tmp_path / "out.parquet")
        after = pq.read_table(tmp_path / "out.parquet")
        assert after.schema == table.schema
        assert after.column("n").null_count == after.column("w").null_count == 0

    def test_other_markers(self, tmp_path):
        words = pa.table({"w": ["a", "b", "none", "a"] * 8, "x": [0.5, 1.5, 1.0, 0.5] * 8})
        pq.write_table(words, tmp_path / "data.parquet")
        filled(tmp_path / "data.parquet", tmp_path / "out.parquet", "--na-values", "none")
        assert set(pq.read_table(tmp_path / "out.parquet").column("w").to_pylist()) == {"a", "b"}

    def test_a_model_of_booleans_fills_text(self, tmp_path):
        table = pa.table({"b": [True, False, None, True] * 8, "x": [0.5, 1.5, 1.0, 0.5] * 8})
        pq.write_table(table, tmp_path / "data.parquet")
        argv = ("fit", tmp_path / "data.parquet", "-o", tmp_path / "model", "--effort", "fast")
        assert run(*argv) == 0
        (tmp_path / "new.csv").write_text("x,b\n1.5,\n.5,TRUE\n,false\n")
        argv = ("impute", tmp_path / "new.csv", "-o", tmp_path / "out.csv")
        assert run(*argv, "--model", tmp_path / "model") == 0
        table = cells((tmp_path / "out.csv").read_text())
        assert table[1][1] in ("TRUE", "false")
        assert table[2] == [".5", "TRUE"]
        assert float(table[3][0]) >= 0.5

    def test_what_cannot_be_imputed_passes(self, tmp_path, capsys):
        table = pa.table({"x": [1.5, None, 2.5, 1.0] * 3, "tags": [["a"], [], None, ["b"]] * 3})
        pq.write_table(table, tmp_path / "data.parquet")
        filled(tmp_path / "data.parquet", tmp_path / "out.parquet")
        assert pq.read_table(tmp_path / "out.parquet").column("tags") == table.column("tags")
        assert "tags (of type list<" in capsys.readouterr().out

    @pytest.mark.parametrize(("kind", "named"), [("continuous", "string"), ("boolean", "string")])
    def test_a_kind_that_does_not_fit(self, kind, named, tmp_path, capsys):
        pq.write_table(pa.table({"w": ["a", None, "a"]}), tmp_path / "data.parquet")
        (tmp_path / "types.json").write_text(json.dumps({"w": kind}))
        argv = ("impute", tmp_path / "data.parquet", "-o", tmp_path / "out.parquet")
        assert run(*argv, "--types", tmp_path / "types.json") == 2
        assert f"column 'w': expected {kind} values; the file stores {named}" in (
            capsys.readouterr().err
        )


class TestModels:
    def fitted(self, data, model):
        assert run("fit", data, "-o", model, "--effort", "fast", "--seed", 3) == 0
        return model

    def test_reused(self, data, tmp_path):
        model = self.fitted(data, tmp_path / "model")
        assert run("impute", data, "-o", tmp_path / "a.csv", "--model", model) == 0
        assert (tmp_path / "a.csv").read_bytes() == filled(data, tmp_path / "b.csv", "--seed", "3")

    def test_other_rows_and_another_order_of_columns(self, data, tmp_path):
        model = self.fitted(data, tmp_path / "model.zip")
        new = tmp_path / "new.csv"
        new.write_text("colour,code,other,count,size\ngreen,007,x,,1.5\nNA,012,y,3,NA\n")
        assert run("impute", new, "-o", tmp_path / "out.csv", "--model", model) == 0
        table = cells((tmp_path / "out.csv").read_text())
        assert table[1][:3] == ["green", "007", "x"]
        assert table[2][0] in ("red", "blue, dark", "green")
        assert "" not in table[1] + table[2]

    def test_shown(self, data, tmp_path, capsys):
        model = self.fitted(data, tmp_path / "model.zip")
        assert run("info", model) == 0
        told = capsys.readouterr().out
        for word in (
            "colour",
            "categorical",
            "blue, dark",
            "effort: fast",
            "members: 1 flow\n",
            "seed: 3",
        ):
            assert word in told

    def test_not_an_imputer(self, data, tmp_path, capsys):
        (tmp_path / "model").mkdir()
        argv = ("impute", data, "-o", tmp_path / "o.csv", "--model", tmp_path / "model")
        assert run(*argv) == run("info", tmp_path / "model") == 2
        assert "is not a saved imputer" in capsys.readouterr().err

    def test_an_existing_model(self, data, tmp_path, capsys):
        model = self.fitted(data, tmp_path / "model")
        assert run("fit", data, "-o", model, "--effort", "fast") == 2
        assert "exists: choose another name, or pass --overwrite" in capsys.readouterr().err
        assert run("fit", data, "-o", model, "--effort", "fast", "--overwrite") == 0

    @pytest.mark.parametrize("option", [("--effort", "fast"), ("--exclude", "size")])
    def test_options_of_fitting(self, option, data, tmp_path, capsys):
        argv = ("impute", data, "-o", tmp_path / "o.csv", "--model", tmp_path, *option)
        assert run(*argv) == 2
        assert "is for fitting" in capsys.readouterr().err


class TestSeveral:
    def test_files(self, tmp_path):
        paths = [tmp_path / f"part{i}.csv" for i in range(2)]
        for seed, path in enumerate(paths):
            path.write_text(text(seed=seed))
        assert run("impute", *paths, "-o", tmp_path / "out", "--effort", "fast") == 0
        for path in paths:
            check_filled(path.read_text(), (tmp_path / "out" / path.name).read_text())

    def test_parquet_files(self, tmp_path):
        frame = with_holes(mixed())[0]
        paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
        frame[:40].to_parquet(paths[0])
        frame[40:].to_parquet(paths[1])
        assert run("impute", *paths, "-o", tmp_path / "out", "--effort", "fast") == 0
        found = [pd.read_parquet(tmp_path / "out" / path.name) for path in paths]
        assert not pd.concat(found).isna().any(axis=None)

    def test_draws(self, data, tmp_path):
        output = tmp_path / "out.csv"
        assert run("impute", data, "-o", output, "--draws", 3, "--effort", "fast") == 0
        found = [(tmp_path / f"out-{draw}.csv").read_text() for draw in (1, 2, 3)]
        for after in found:
            check_filled(text(), after)
        assert len(set(found)) == 3
        assert not output.exists()

    def test_one_name_twice(self, data, tmp_path, capsys):
        assert run("impute", data, data, "-o", tmp_path / "out") == 2
        assert "two files would be written" in capsys.readouterr().err


class TestLittle:
    """Few rows, columns without anything, columns of one value, more columns than rows."""

    def write(self, tmp_path, rows, line):
        path = tmp_path / "data.csv"
        path.write_text("x,y,z\n" + "".join(line(i) for i in range(rows)))
        return path

    def test_fewer_than_ten_rows_to_learn_from(self, tmp_path, capsys):
        path = self.write(tmp_path, 9, lambda i: f"{i / 2},{i % 2 or ''},\n")
        assert run("fit", path, "-o", tmp_path / "out.csv", "--effort", "fast") == 2
        told = capsys.readouterr().err
        assert f"{path}: expected at least 10 rows to learn from; got 9. Add rows" in told
        assert os.listdir(tmp_path) == ["data.csv"]

    def test_ten_in_two_files(self, tmp_path):
        for name in "ab":
            rows = "".join(f"{i / 2},{i % 2 or ''}\n" for i in range(5))
            (tmp_path / f"{name}.csv").write_text("x,y\n" + rows)
        paths = (tmp_path / "a.csv", tmp_path / "b.csv")
        assert run("impute", *paths, "-o", tmp_path / "out", "--effort", "fast") == 0

    @pytest.mark.parametrize("value", ["2.5", "k"])
    def test_a_column_of_one_value_is_filled_with_it(self, value, tmp_path):
        path = self.write(tmp_path, 20, lambda i: f"{i / 2},{i % 4 or ''},{value * (i % 3 > 0)}\n")
        table = cells(filled(path, tmp_path / "out.csv").decode())
        found = {row[2] for row in table[1:]}
        assert found == {value}


class TestBadInput:
    """What depends on the rest of the table; all else stands in `table_cases.py`, word for word."""

    def refused(self, capsys, tmp_path, *argv, output="out.csv"):
        before = sorted(tmp_path.rglob("*"))
        assert run("impute", *argv, "-o", tmp_path / output, "--effort", "fast") == 2
        assert sorted(tmp_path.rglob("*")) == before
        told = capsys.readouterr().err
        assert told.startswith("plmcmc: ")
        assert told.count("\n") == 1
        return told

    @pytest.mark.parametrize(
        ("types", "message"),
        [
            ({"colour": "continuous"}, "line 2, column 'colour': expected a number; got 'red'"),
            ({"colour": "boolean"}, "expected one of true, t, yes"),
            (["colour"], "expected column names with their kinds"),
        ],
    )
    def test_types(self, types, message, data, tmp_path, capsys):
        path = tmp_path / "types.json"
        path.write_text(json.dumps(types))
        assert message in self.refused(capsys, tmp_path, data, "--types", path)

    def test_types_of_a_column_without_anything(self, tmp_path, capsys):
        path, types = tmp_path / "data.csv", tmp_path / "types.json"
        path.write_text("x,y\n" + "".join(f"{i}.5,\n" for i in range(12)))
        types.write_text(json.dumps({"y": "integer"}))
        told = self.refused(capsys, tmp_path, path, "--types", types)
        assert "data.csv, column 'y': expected values to learn from, as --types declares" in told

    def test_a_level_in_parquet_that_a_model_has_not_seen(self, tmp_path, capsys):
        path = tmp_path / "data.parquet"
        words = {"w": ["a", "b", None, "a"] * 4, "x": [0.5, 1.5, 1.0, 0.5] * 4}
        pq.write_table(pa.table(words), path)
        assert run("fit", path, "-o", tmp_path / "model", "--effort", "fast") == 0
        pq.write_table(pa.table({"w": [None, "c"], "x": [1.0, 2.0]}), path)
        argv = ("impute", path, "-o", tmp_path / "out.parquet", "--model", tmp_path / "model")
        assert run(*argv) == 2
        told = capsys.readouterr().err
        assert "row 2, column 'w': expected one of the model's values, 'a', 'b'; got 'c'" in told

    def test_chains_that_went_astray(self, data, tmp_path, capsys, monkeypatch):
        whole = Mean.table
        monkeypatch.setattr(Mean, "table", lambda self: np.nan * whole(self))
        told = self.refused(capsys, tmp_path, data)
        assert "columns ['size', 'count', 'colour']: found no values to fill in" in told

    def test_seed(self, data, tmp_path, capsys):
        assert "must not be negative; got -1" in self.refused(capsys, tmp_path, data, "--seed", -1)

    def test_excluded_column_that_is_not_there(self, data, tmp_path, capsys):
        told = self.refused(capsys, tmp_path, data, "--exclude", "color")
        assert "'a \"note\"'; got 'color'. Correct them" in told

    def test_draws_and_statistic(self, data, tmp_path, capsys):
        assert "at least 1; got 0" in self.refused(capsys, tmp_path, data, "--draws", 0)
        told = self.refused(capsys, tmp_path, data, "--draws", 2, "--statistic", "mean")
        assert "leave out one of them" in told
