"""Odd tables, what is asked of them, and what must come: one list, for the command and the library.

Each case says how the file or the table is made, what is asked, the exit code or the exception, and
the whole message; `...` stands for words of another library. Fine input says what must come out.
"""

import datetime
import errno
import gzip
import io
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from plmcmc import disk
from plmcmc.data import DataError
from plmcmc.imputation import FlowImputer
from toy_tables import LEAST

ROWS = 30


@dataclass(frozen=True)
class Case:
    """One odd table.

    Attributes:
        name: says what is odd.
        given: the table: a file's text, bytes or values, what makes files in a directory, or what a
            call is given.
        ask: the command, with MODEL for the shared model, or the call, given model and table.
        outcome: the exit code, or the exception; None if a call returns.
        message: all that is told: of a command where errors go, or of the exception.
        came: says whether what came out is right; of a call it is given what it returned.
        plant: makes the machine what it has to be.
        keeps: whether the work is kept, for the same command to go on from when there is room.
    """

    name: str
    given: Any
    ask: str | Callable[[FlowImputer, Any], Any]
    outcome: int | type[Exception] | None
    message: str = ""
    came: Callable[[Any], bool] | None = None
    plant: Callable[[Any], None] | None = None
    keeps: bool = False


def frame(rows=ROWS, **more):
    """What the shared model is fitted to."""
    place = np.arange(rows)
    table = pd.DataFrame(
        {
            "x": np.where(place % 6 == 4, np.nan, np.sin(place) * 3),
            "n": pd.array(np.where(place % 7 == 3, None, place % 5), dtype="Int64"),
            "w": np.where(place % 5 == 2, None, np.array(["red", "green"])[place % 2]),
        }
    )
    return table.assign(**more)


def text(*lines, names="x,n,w", rows=ROWS):
    """The same as a file, with lines after it."""
    table = frame(rows).to_csv(index=False, header=False, lineterminator="\n")
    return "\n".join([names, *table.splitlines(), *lines]) + "\n"


def numbers(*lines, rows=ROWS):
    """Two columns of numbers, the second with holes, and lines after them."""
    own = [f"{row}.5,{'' if row % 5 == 2 else row % 3}" for row in range(rows)]
    return "\n".join(["x,y", *own, *lines]) + "\n"


def sheet(*lines):
    """A workbook's bytes; cells of each line, None for empty ones."""
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    for line in lines:
        book.active.append(line)
    book.save(buffer)
    return buffer.getvalue()


def changed_sheet(lines, change):
    book, buffer = openpyxl.load_workbook(io.BytesIO(sheet(*lines))), io.BytesIO()
    change(book.active)
    book.save(buffer)
    return buffer.getvalue()


def parquet(**columns):
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def read(place):
    place = Path(place)
    if place.name.endswith(".parquet"):
        return pd.read_parquet(place)
    return pd.read_excel(place) if place.name.endswith(".xlsx") else pd.read_csv(place)


def filled(name="out.csv", rows=None):
    """Out came a table without holes, of so many rows."""

    def came(directory):
        table = read(directory / name)
        return not table.isna().any(axis=None) and rows in (None, len(table))

    return came


def cell(name, row, column, values):
    """A cell that came out is one of these."""
    return lambda directory: read(directory / name).loc[row, column] in values


def same(name="out.csv", as_was="data.csv"):
    return lambda directory: (directory / name).read_bytes() == (directory / as_was).read_bytes()


def learn(**options):
    return lambda _, table: FlowImputer(LEAST, random_state=0, **options).fit(table)


def fill(model, table):
    return model.transform(table)


def fill_anew(_, table):
    return FlowImputer(LEAST, random_state=0).fit_transform(table)


def broken(error):
    """Raises whatever is called."""

    def call(*_, **__):
        raise error

    return call


IMPUTE = "impute data.csv -o out.csv --effort fast"
FILL = "impute data.csv -o out.csv --model MODEL"
FIT = "fit data.csv -o model --effort fast"
PARQUET = IMPUTE.replace(".csv", ".parquet")
EXCEL = IMPUTE.replace(".csv", ".xlsx")
SUFFIXES = "*.csv, *.csv.gz, *.tsv, *.tsv.gz, *.parquet, *.xlsx"
NO_BOOK = "Save it again as .xlsx, without a password"
CORRECT = "Correct it, mark it missing with --na-values, or declare"
CATEGORICAL = (
    "the column categorical with --types, if it has few different values; --exclude leaves it "
    "unchanged"
)
EMPTY = (
    "data.csv: expected column names and rows of data; the file is empty. Choose another file, or "
    "write it again"
)
KINDS = "continuous, integer, ordinal, boolean, categorical"

FILES = [
    Case("empty file", "", IMPUTE, 2, EMPTY),
    Case("byte order mark and nothing", "\ufeff\n\n", IMPUTE, 2, EMPTY),
    Case(
        "names only",
        "x,y\n",
        IMPUTE,
        2,
        "data.csv: expected rows of data; it has column names only. Add rows, or choose another "
        "file",
    ),
    Case(
        "no file",
        lambda directory: None,
        IMPUTE,
        2,
        "data.csv: expected a file; it does not exist. Correct the name",
    ),
    Case(
        "a directory",
        lambda directory: (directory / "data.csv").mkdir(),
        FIT,
        2,
        "data.csv: expected a file; this is a directory. Name the files in it, such as "
        "data.csv/*.parquet",
    ),
    Case(
        "a file that may not be read",
        numbers(),
        "impute data.csv -o out/out.csv",
        2,
        "data.csv: expected a readable file; permission was denied. Change its permissions",
        # As root every file may be read.
        plant=lambda patch: patch.setattr(os, "access", lambda place, mode: mode != os.R_OK),
    ),
    Case(
        "a suffix that is not known",
        "x,y\n1,2\n",
        "impute data.xls -o out.csv",
        2,
        f"data.xls: expected a file named {SUFFIXES}. Rename or convert it",
    ),
    Case(
        "too many cells",
        numbers("1,2,3"),
        IMPUTE,
        2,
        "data.csv, line 32: expected 2 cells, as in the first line; got 3. Quote cells that hold a "
        "','",
    ),
    Case(
        "too few cells after a cell of two lines",
        'x,y\n"1\n2",2\n1\n',
        FIT,
        2,
        "data.csv, line 4: expected 2 cells, as in the first line; got 1. Quote cells that hold a "
        "','",
    ),
    Case(
        "a quote that is not closed",
        'x,y\n1,"2\n3,4\n',
        IMPUTE,
        2,
        "data.csv, line 2: expected a closing quote; there is none. Close it, or double it if it "
        "is part of the text",
    ),
    Case(
        "a doubled quote that closes nothing",
        'x,y\n1,"2""\n3,4\n',
        IMPUTE,
        2,
        "data.csv, line 2: expected a closing quote; there is none. Close it, or double it if it "
        "is part of the text",
    ),
    Case(
        "two columns of one name",
        "x,y,x\n1,2,\n",
        IMPUTE,
        2,
        "data.csv: expected unique column names; these occur more than once: 'x'. Rename them",
    ),
    Case(
        "two columns without a name",
        "x,,\n1,2,\n",
        FIT,
        2,
        "data.csv: expected unique column names; these occur more than once: ''. Rename them",
    ),
    Case(
        "semicolons",
        "x;y\n1,5;2\n",
        IMPUTE,
        2,
        "data.csv: expected columns separated by ','; the first line is a single column, 'x;y', "
        "and seems to be separated by ';'. Write the file with ',', and numbers with a decimal "
        "point",
    ),
    Case(
        "one line with semicolons",
        numbers("1.5;2"),
        IMPUTE,
        2,
        "data.csv, line 32: expected 2 cells, as in the first line; got 1. Quote cells that hold a "
        "','",
    ),
    Case(
        "a note to Excel",
        "sep=,\n" + numbers(),
        IMPUTE,
        2,
        "data.csv, line 1: expected column names; got 'sep=', a line that tells Excel the "
        "separator. Delete the line",
    ),
    Case(
        "decimal commas",
        "x\ty\n" + "".join(f"{row % 7},5\t{row % 3 or ''}\n" for row in range(20)),
        "impute data.tsv -o out.tsv",
        2,
        "data.tsv, line 2, column 'x': expected numbers with a decimal point and no commas; got "
        f"'0,5'. Rewrite them, or declare {CATEGORICAL}",
    ),
    Case(
        "another encoding",
        "name,y\nth\xe9,1\n".encode("latin-1"),
        IMPUTE,
        2,
        "data.csv, line 2: expected UTF-8 text; got the byte 0xe9, as found in other encodings. "
        "Save it as UTF-8",
    ),
    Case(
        "UTF-16",
        numbers().encode("utf-16"),
        IMPUTE,
        2,
        "data.csv: expected UTF-8 text; the file is UTF-16. Save it as UTF-8",
    ),
    Case(
        "UTF-16 without a mark",
        numbers().encode("utf-16-le"),
        IMPUTE,
        2,
        "data.csv, line 1: expected UTF-8 text; got a zero byte, as found in UTF-16 and binary "
        "files. Save it as UTF-8",
    ),
    Case(
        "gzip by another name",
        gzip.compress(numbers().encode()),
        IMPUTE,
        2,
        "data.csv: expected UTF-8 text; the file is compressed with gzip. Name it *.gz",
    ),
    Case(
        "a workbook by another name",
        sheet(["x", "y"], [1, 2]),
        IMPUTE,
        2,
        "data.csv: expected UTF-8 text; the file is a zip archive, as Excel workbooks are. Name "
        "it *.xlsx if it is a workbook; unpack it otherwise",
    ),
    Case(
        "Parquet by another name",
        parquet(x=[1.5, 2.5]),
        IMPUTE,
        2,
        "data.csv: expected UTF-8 text; the file is Parquet. Name it *.parquet",
    ),
    Case(
        "a first column that begins as Parquet does",
        "PAR1,PAR2\n1.5,2\n2.5,3\n",
        IMPUTE,
        0,
        came=same(),
    ),
    Case(
        "text that is said to be packed",
        numbers(),
        "impute data.csv.gz -o out.csv.gz",
        2,
        "data.csv.gz: expected a complete gzip file: .... Compress it again, or remove .gz from "
        "its name if it is not compressed",
    ),
    Case(
        "gzip that ends too soon",
        gzip.compress(numbers().encode())[:-20],
        "impute data.csv.gz -o out.csv.gz",
        2,
        "data.csv.gz: expected a complete gzip file: .... Compress it again, or remove .gz from "
        "its name if it is not compressed",
    ),
    Case(
        "gzip",
        gzip.compress(text().encode()),
        "impute data.csv.gz -o out.csv.gz --model MODEL",
        0,
        came=filled("out.csv.gz", ROWS),
    ),
    Case(
        "a byte order mark",
        "\ufeff" + text(),
        FILL,
        0,
        came=lambda directory: (directory / "out.csv").read_text().startswith("\ufeffx,n,w\n"),
    ),
    Case("ends of lines of old", text().replace("\n", "\r"), FILL, 0, came=filled(rows=ROWS)),
    Case(
        "two forms of file",
        lambda directory: [
            (directory / "data.csv").write_text(numbers()),
            (directory / "more.parquet").write_bytes(parquet(x=[1.5], y=[2])),
        ],
        "impute data.csv more.parquet -o out",
        2,
        "data.csv and more.parquet: expected all files to be text, all Parquet or all Excel. "
        "Convert one of them",
    ),
    Case(
        "two files of other columns",
        lambda directory: [
            (directory / "data.csv").write_text(numbers()),
            (directory / "more.csv").write_text("x,z\n1,2\n"),
        ],
        "fit data.csv more.csv -o model",
        2,
        "more.csv: expected the columns of data.csv; missing: 'y'; unknown: 'z'. Rename, add or "
        "remove columns",
    ),
]

CELLS = [
    Case(
        "text in a column of numbers",
        numbers("six,1"),
        FIT,
        2,
        "data.csv, line 32, column 'x': expected a number, like nearly all values of this column; "
        f"got 'six'. {CORRECT} {CATEGORICAL}",
    ),
    Case(
        "infinity",
        numbers("-inf,1"),
        IMPUTE,
        2,
        "data.csv, line 32, column 'x': expected a finite number; got '-inf'. "
        f"{CORRECT} the column's kind with --types when fitting",
    ),
    Case(
        "more than a number can be",
        numbers("1e400,1"),
        IMPUTE,
        2,
        "data.csv, line 32, column 'x': expected a finite number; got '1e400'. "
        f"{CORRECT} the column's kind with --types when fitting",
    ),
    Case(
        "a huge number",
        numbers("1e200,1"),
        FIT,
        2,
        "data.csv, line 32, column 'x': expected a number up to 1e+150 (change its units if "
        f"necessary); got '1e200'. {CORRECT} the column's kind with --types when fitting",
    ),
    Case(
        "huge and tiny numbers",
        "x,y\n" + "".join(f"{row + 1}e{20 * row - 320},{row % 3 or ''}\n" for row in range(22)),
        IMPUTE,
        0,
        came=lambda directory: (
            filled()(directory) and "4e-260," in (directory / "out.csv").read_text()
        ),
    ),
    Case(
        "nine rows",
        numbers(rows=9),
        IMPUTE,
        2,
        "data.csv: expected at least 10 rows to learn from; got 9. Add rows, or fill them with "
        "--model, using a model fitted on other data",
    ),
    Case("one row, by a model", text(rows=0) + ",,\n", FILL, 0, came=filled(rows=1)),
    Case(
        "one column",
        "x\n" + "".join(f"{row % 7}.5\n" for row in range(20)) + '""\n',
        IMPUTE,
        0,
        came=filled(rows=21),
    ),
    Case("a row with nothing in it", text(",,"), FILL, 0, came=filled(rows=ROWS + 1)),
    Case(
        "a column with nothing in it",
        "x,y\n" + "1.5,\n" * 12,
        IMPUTE,
        0,
        came=same(),
    ),
    Case(
        "nothing to learn from",
        "x,y\n" + "".join(f"{row},\n" for row in range(12)),
        IMPUTE,
        2,
        "no column can be learned from; all would pass through untouched: x (identifier), y (no "
        "values to learn from; 12 missing). Declare column kinds with --types",
    ),
    Case(
        "a constant column",
        "x,y\n" + "".join(f"{row}.5,{'7' * (row % 3 > 0)}\n" for row in range(20)),
        IMPUTE,
        0,
        came=lambda directory: set(read(directory / "out.csv")["y"]) == {7},
    ),
    Case("whole numbers", text("1.5,,red"), FILL, 0, came=cell("out.csv", 30, "n", range(5))),
    Case(
        "whole numbers beyond 64 bits",
        "x,y\n" + "".join(f"{r}.5,{('', 10**25 + 1, 10**25)[r % 3]}\n" for r in range(20)),
        IMPUTE,
        0,
        came=lambda directory: (
            "\n1.5,10000000000000000000000001\n" in (directory / "out.csv").read_text()
        ),
    ),
    Case(
        "booleans",
        "x,b\n" + "".join(f"{row}.5,{('TRUE', 'false', '')[row % 3]}\n" for row in range(20)),
        IMPUTE,
        0,
        came=lambda directory: (
            set(read(directory / "out.csv")["b"].astype(str)) == {"True", "False"}
        ),
    ),
    Case(
        "dates",
        "x,when\n" + "".join(f"{row}.5,2024-01-{row + 1:02d}\n" for row in range(20)),
        IMPUTE,
        0,
        came=same(),
    ),
    Case(
        "5,000 different words",
        "w\n" + "".join(f"w{row // 2}\n" for row in range(10_000)),
        IMPUTE,
        0,
        came=same(),
    ),
    Case(
        "columns in another order, and one more",
        "w,note,n,x\nred,hi,,1.5\n,ho,2,\n",
        FILL,
        0,
        came=lambda directory: (
            list(read(directory / "out.csv")) == ["w", "note", "n", "x"]
            and filled(rows=2)(directory)
        ),
    ),
    Case(
        "a word that the model has not seen",
        "x,n,w\n1,,red\n1,,pink\n",
        FILL,
        2,
        "data.csv, line 3, column 'w': expected one of the model's values, 'green', 'red'; got "
        "'pink'. Correct it, mark it missing with --na-values, or fit a model to rows that have it",
    ),
    Case(
        "a column that is missing",
        "x,m,w\n1,,red\n",
        FILL,
        2,
        "data.csv: expected the columns of the model; missing: 'n'; unknown: 'm'. Rename, add or "
        "remove columns",
    ),
    Case(
        "a fraction where the model has whole numbers",
        "x,n,w\n1,2.5,\n",
        FILL,
        2,
        "data.csv, line 2, column 'n': expected an integer; got '2.5'. "
        f"{CORRECT} the column's kind with --types when fitting",
    ),
    Case(
        "a word where the model has numbers",
        "x,n,w\nlow,2,\n",
        FILL,
        2,
        "data.csv, line 2, column 'x': expected a number; got 'low'. "
        f"{CORRECT} the column's kind with --types when fitting",
    ),
    Case(
        "more columns than rows",
        ",".join(f"c{n}" for n in range(14))
        + "\n"
        + (",".join(["1.5"] * 13) + ",\n" + ",".join(["2.5"] * 14) + "\n") * 6,
        IMPUTE,
        0,
        "plmcmc: warning: there are more columns (14) than rows (12): filled-in values will "
        "reflect little more than each column's own distribution. Add rows, or --exclude columns",
        came=filled(rows=12),
    ),
]

BINARY = [
    Case(
        "empty Parquet",
        b"",
        PARQUET,
        2,
        "data.parquet: expected a Parquet file; it is empty. Choose another file, or write it "
        "again",
    ),
    Case(
        "text that is said to be Parquet",
        "x,y\n1,2\n",
        PARQUET,
        2,
        "data.parquet: expected a complete Parquet file; it cannot be read: ... Write it again",
    ),
    Case(
        "Parquet that ends too soon",
        parquet(x=[1.5] * 9)[:-9],
        PARQUET,
        2,
        "data.parquet: expected a complete Parquet file; it cannot be read: ... Write it again",
    ),
    Case(
        "infinity in Parquet",
        parquet(x=[1.5, None, float("inf"), 2.5] * 4),
        PARQUET,
        2,
        "data.parquet, row 3, column 'x': expected a finite number; got inf. Correct it, or leave "
        "it empty",
    ),
    Case(
        "a huge number in Parquet",
        parquet(x=[1.5, None, 2.5, 1e200] * 4),
        PARQUET,
        2,
        "data.parquet, row 4, column 'x': expected a number up to 1e+150; got 1e+200. Correct it, "
        "or leave it empty",
    ),
    Case(
        "100,000 categories in Parquet",
        lambda directory: pq.write_table(
            pa.table({"w": pa.array([f"w{n // 2}" for n in range(200_000)]).dictionary_encode()}),
            directory / "data.parquet",
        ),
        PARQUET,
        0,
        came=lambda directory: len(read(directory / "out.parquet")) == 200_000,
    ),
    Case(
        "Parquet",
        lambda directory: frame().to_parquet(directory / "data.parquet"),
        "impute data.parquet -o out.parquet --model MODEL",
        0,
        came=filled("out.parquet", ROWS),
    ),
    Case(
        "a workbook",
        lambda directory: frame().to_excel(directory / "data.xlsx", index=False),
        "impute data.xlsx -o out.xlsx --model MODEL",
        0,
        came=filled("out.xlsx", ROWS),
    ),
    Case(
        "a workbook and no openpyxl",
        sheet(["x"], [1.5]),
        EXCEL,
        2,
        "data.xlsx: reading Excel files needs openpyxl, which is not installed. Run pip install "
        "'plmcmc[excel]', or save the table as CSV",
        plant=lambda patch: patch.setitem(sys.modules, "openpyxl", None),
    ),
    Case(
        "text that is said to be a workbook",
        "x,y\n1,2\n",
        EXCEL,
        2,
        f"data.xlsx: expected a complete Excel workbook; it cannot be read: .... {NO_BOOK}",
    ),
    Case(
        "kinds nested too deeply",
        lambda directory: (
            (directory / "data.csv").write_text(numbers()),
            (directory / "kinds.json").write_text("[" * 100_000),
        ),
        f"{IMPUTE} --types kinds.json",
        2,
        'kinds.json: expected JSON, such as {"age": "integer"}; it cannot be read: lists and '
        "objects are nested too deeply. Correct it",
    ),
    Case(
        "a cell of a million letters",
        numbers(f"1,{'six' * 333_333}"),
        IMPUTE,
        2,
        "data.csv, line 32, column 'y': expected a number, like nearly all values of this column; "
        f"got '{('six' * 13)[:37]}...{('six' * 13)[-38:]}'. {CORRECT} {CATEGORICAL}",
    ),
    Case(
        "text that was packed twice",
        lambda directory: (directory / "data.csv.gz").write_bytes(
            gzip.compress(gzip.compress(numbers().encode()))
        ),
        "impute data.csv.gz -o out.csv",
        2,
        "data.csv.gz: expected UTF-8 text; the file is compressed with gzip twice. Decompress it "
        "once",
    ),
    Case(
        "a pipe",
        lambda directory: os.mkfifo(directory / "data.csv"),
        IMPUTE,
        2,
        "data.csv: expected a regular file; this is a pipe or a device. Save its contents to a "
        "file first",
    ),
    Case(
        "a workbook that was cut",
        sheet(["x", "y"], [1, 2])[:-300],
        EXCEL,
        2,
        f"data.xlsx: expected a complete Excel workbook; it cannot be read: .... {NO_BOOK}",
    ),
    Case(
        "a note in the last cell of a sheet",
        changed_sheet([["x", "y"], [1, 2]], lambda own: own.cell(2**20, 2**14, "mind this")),
        EXCEL,
        2,
        "data.xlsx, cell XFD1048576: expected no value in a column without a name; got 'mind "
        "this'. Name the column, or move the value to another sheet",
    ),
    Case(
        "an empty sheet",
        sheet(),
        EXCEL,
        2,
        "data.xlsx: expected column names and rows of data; the first sheet is empty. Put the "
        "table on the first sheet",
    ),
    Case(
        "a title above the names",
        sheet(["Survey", None, "2024"], ["x", "y", "z"], [1, 2, 3]),
        EXCEL,
        2,
        "data.xlsx, cell B1: expected a column name, as in the cells next to it; it is empty. "
        "Name the column, or delete anything above the table",
    ),
    Case(
        "a note beside the table",
        sheet(["x", "y"], [1, 2], [1, 2, None, "mind this"]),
        EXCEL,
        2,
        "data.xlsx, cell D3: expected no value in a column without a name; got 'mind this'. Name "
        "the column, or move the value to another sheet",
    ),
    Case(
        "an error in a cell",
        sheet(["x", "y"], [1, 2], [1, "#DIV/0!"]),
        EXCEL,
        2,
        "data.xlsx, cell B3, column 'y': expected a value; got '#DIV/0!'. Correct it, or mark it "
        "missing with --na-values",
    ),
    Case(
        "a formula that was never calculated",
        sheet(["x", "y"], [1, 2], [1, "=A2+B2"]),
        EXCEL,
        2,
        "data.xlsx, cell B3, column 'y': expected a value; got a formula without a stored value. "
        "Let Excel calculate and save it, or replace it with a value",
    ),
    Case(
        "merged cells",
        changed_sheet([["x", "y"], [1, 2], [None, 3]], lambda own: own.merge_cells("A2:A3")),
        EXCEL,
        2,
        "data.xlsx, cells A2:A3: expected separate cells; these are merged. Unmerge them",
    ),
    Case(
        "text among a workbook's numbers",
        sheet(["x"], *([row + 0.5] for row in range(30)), ["six"]),
        EXCEL,
        2,
        "data.xlsx, row 32, column 'x': expected a number, like nearly all values of this column; "
        f"got 'six'. {CORRECT} {CATEGORICAL}",
    ),
    Case(
        "a blank row in a workbook",
        sheet(["x", "n", "w"], [1.5, None, "red"], [None, None, None], [None, 2, "green"]),
        "impute data.xlsx -o out.xlsx --model MODEL",
        0,
        came=lambda directory: (
            read(directory / "out.xlsx").isna().all(axis=1).tolist() == [False, True, False]
        ),
    ),
]

PLACES = [
    Case(
        "an output that exists",
        lambda directory: [
            (directory / name).write_text(numbers()) for name in ("data.csv", "out.csv")
        ],
        IMPUTE,
        2,
        "out.csv exists: choose another name, or pass --overwrite",
    ),
    Case(
        "a model that exists",
        lambda directory: [
            (directory / "data.csv").write_text(numbers()),
            (directory / "model").mkdir(),
        ],
        FIT,
        2,
        "model exists: choose another name, or pass --overwrite",
    ),
    Case(
        "an output that is the input",
        numbers(),
        "impute data.csv -o data.csv",
        2,
        "data.csv is one of the input files, which --overwrite does not replace: choose another "
        "name or directory",
    ),
    Case(
        "an output that is the input, and may be overwritten",
        numbers(),
        "impute data.csv -o data.csv --overwrite",
        2,
        "data.csv is one of the input files, which --overwrite does not replace: choose another "
        "name or directory",
    ),
    Case(
        "an output that is a directory",
        lambda directory: [
            (directory / "data.csv").write_text(numbers()),
            (directory / "out.csv").mkdir(),
        ],
        IMPUTE,
        2,
        "out.csv is a directory: expected a file, as there is only one table. Give a file name",
    ),
    Case(
        "an output below a file",
        numbers(),
        "impute data.csv -o data.csv/out.csv",
        2,
        "data.csv is a file: expected a directory to write to. Choose another place",
    ),
    Case(
        "a directory that cannot be written to",
        numbers(),
        FIT,
        2,
        ". is not writable: choose another directory",
        plant=lambda patch: patch.setattr(os, "access", lambda *_: False),
    ),
    Case(
        "an output of another form",
        numbers(),
        "impute data.csv -o out.parquet",
        2,
        "out.parquet: expected a .csv file, like data.csv. Use that suffix",
    ),
    Case(
        "too long a name",
        numbers(),
        f"impute data.csv -o {'o' * 300}.csv",
        2,
        f"{'o' * 300}.csv: expected a name of at most 241 bytes; this one has 304. Choose a "
        "shorter one",
    ),
    Case(
        "too long a name of a directory",
        numbers(),
        f"impute data.csv -o {'o' * 300}/out.csv",
        2,
        f"{'o' * 300}/out.csv could not be read or written (...): choose a place that can be used",
    ),
    Case(
        "a full disk",
        text(),
        FILL,
        2,
        "out.csv.part/job.json could not be written (No space left on device): make room there, "
        "and run the same again. No partial output was left behind",
        plant=lambda patch: patch.setattr(
            disk, "_write", broken(OSError(errno.ENOSPC, "No space left on device"))
        ),
    ),
    Case(
        "too little memory to learn",
        numbers(),
        IMPUTE,
        1,
        "ran out of memory (DefaultCPUAllocator: can't allocate memory: you tried to allocate 80 "
        "bytes). Use fewer rows or columns, --effort fast, or a machine with more memory",
        plant=lambda patch: patch.setattr(
            FlowImputer,
            "fit",
            broken(
                RuntimeError(
                    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 80 bytes"
                )
            ),
        ),
    ),
    Case(
        "too little memory to read",
        numbers(),
        FIT,
        1,
        "ran out of memory (MemoryError). Use fewer rows or columns, --effort fast, or a machine "
        "with more memory",
        plant=lambda patch: patch.setattr(Path, "read_bytes", broken(MemoryError())),
    ),
    Case(
        "kinds that are not there",
        numbers(),
        IMPUTE + " --types kinds.json",
        2,
        "kinds.json: expected a file; it does not exist. Correct the name",
    ),
    Case(
        "kinds that are no JSON",
        numbers(),
        IMPUTE + " --types data.csv",
        2,
        'data.csv: expected JSON, such as {"age": "integer"}; it cannot be read: .... Correct it',
    ),
    Case(
        "kinds of other columns",
        lambda directory: [
            (directory / "data.csv").write_text(numbers()),
            (directory / "kinds.json").write_text('{"z": "integer"}'),
        ],
        FIT + " --types kinds.json",
        2,
        "--types: expected columns of the table, 'x', 'y'; got 'z'. Correct them",
    ),
    Case(
        "a kind that there is not",
        lambda directory: [
            (directory / "data.csv").write_text(numbers()),
            (directory / "kinds.json").write_text('{"y": "colour"}'),
        ],
        FIT + " --types kinds.json",
        2,
        f"kinds.json: expected the kind of 'y' to be one of {KINDS}; got 'colour'. Choose one",
    ),
    Case(
        "no model",
        numbers(),
        "impute data.csv -o out.csv --model none",
        2,
        "none is not a saved imputer: it does not exist. Correct the name",
    ),
]


def column(values):
    return frame(c=values)


LIBRARY = [
    Case(
        "no table",
        None,
        learn(),
        DataError,
        "expected an array, or a DataFrame of pandas or "
        "polars; got NoneType. Convert it, or read the file first",
    ),
    Case(
        "the name of a file",
        "data.csv",
        learn(),
        DataError,
        "expected an array, or a DataFrame of pandas or polars; got str. Convert it, or read the "
        "file first",
    ),
    Case(
        "a table of Arrow",
        pa.table({"x": [1.5, None]}),
        learn(),
        DataError,
        "expected an array, or a DataFrame of pandas or polars; got Table. Convert it, or read the "
        "file first",
    ),
    Case(
        "a lazy frame",
        pl.LazyFrame({"x": [1.5, None]}),
        learn(),
        DataError,
        "expected an array, or a DataFrame of pandas or polars; got LazyFrame. Convert it, or read "
        "the file first",
    ),
    Case(
        "no rows",
        frame(0),
        learn(),
        DataError,
        "expected a table of at least 2 rows; got 0 rows. Add rows",
    ),
    Case(
        "no columns",
        pd.DataFrame(index=range(5)),
        learn(),
        DataError,
        "expected a table with columns; it has none. Include the columns to fill",
    ),
    Case(
        "one row of an array",
        np.zeros((1, 3)),
        learn(),
        ValueError,
        "Found array with 1 sample(s) (shape=(1, 3)) while a minimum of 2 is required by "
        "FlowImputer.",
    ),
    Case(
        "an array of one dimension",
        np.zeros(2),
        learn(),
        ValueError,
        "Expected 2D array, got 1D array instead:...Reshape your data ...",
    ),
    Case(
        "text in an array",
        np.array([[1.0, 2.0], [3.0, "six"]], dtype=object),
        learn(),
        DataError,
        "expected an array of numbers; row 1, column '1' holds 'six'. Mark it missing with NaN, or "
        "give a DataFrame, whose columns may hold text",
    ),
    Case(
        "infinity in an array",
        np.array([[1.0, 2.0], [3.0, np.inf]]),
        learn(),
        DataError,
        "column '1', row 1: expected a finite number; got inf. Mark it missing, or correct it",
    ),
    Case(
        "a huge number",
        column([1e200] + [1.0] * (ROWS - 1)),
        learn(),
        DataError,
        "column 'c', row 0: expected numbers up to 1e+150; got 1e+200. Mark it missing, or give "
        "the column in other units",
    ),
    Case(
        "a column with nothing in it",
        column(np.nan),
        learn(),
        DataError,
        "column 'c': expected values to learn from; all are missing. Leave it out",
    ),
    Case(
        "two columns of one name",
        frame().set_axis(["x", "n", "x"], axis=1),
        learn(),
        DataError,
        "expected unique column names; these occur more than once: ['x']. Rename them",
    ),
    Case(
        "text among numbers",
        column([1.5] * (ROWS - 1) + ["six"]),
        learn(),
        DataError,
        "column 'c': expected values of one kind, text or numbers; got 1.5 in row 0, 'six' in row "
        "29. Turn them into one kind, and marks of missing values into None",
    ),
    Case(
        "dates",
        column(pd.date_range("2024", periods=ROWS, unit="s")),
        learn(),
        DataError,
        "column 'c': expected numbers, booleans, text or categories; got datetime64[s], which "
        "cannot be imputed. Leave it out, or turn it into numbers or text",
    ),
    Case(
        "dates of Python",
        column([datetime.date(2024, 1, 1 + row % 3) for row in range(ROWS)]),
        learn(),
        DataError,
        "column 'c': expected numbers, booleans, text or categories; got date, which cannot be "
        "imputed. Leave it out, or turn it into numbers or text",
    ),
    Case(
        "identifiers",
        column([f"id{row}" for row in range(ROWS)]),
        learn(),
        DataError,
        f"column 'c': expected levels that repeat; got {ROWS} among {ROWS} values, as in "
        "identifiers and free text. Leave it out",
    ),
    Case(
        "100,000 categories",
        pd.DataFrame({"c": pd.Categorical(np.arange(200_000) // 2)}),
        learn(),
        DataError,
        "column 'c': expected at most 200 levels; got 100000. Merge rare ones, or leave the "
        "column out",
    ),
    Case(
        "words said to be booleans",
        frame(),
        learn(types={"w": "boolean"}),
        DataError,
        "column 'w', row 0: expected True or False, as types says it is boolean; got 'red'. Turn "
        "it into booleans, or say that it is categorical",
    ),
    Case(
        "a fraction said to be whole",
        frame(),
        learn(types={"x": "integer"}),
        DataError,
        "column 'x', row 1: expected an integer; got 2.5244129544236893. Round it, or fit with "
        "types={'x': 'continuous'}",
    ),
    Case(
        "kinds of another column",
        frame(),
        learn(types={"z": "integer"}),
        DataError,
        "types: expected columns of the table, ['x', 'n', 'w']; got 'z'. Correct it",
    ),
    Case(
        "a level never seen",
        frame(w="pink"),
        fill,
        DataError,
        "column 'w', row 0: expected one of the fitted table's values, ['green', 'red']; got "
        "'pink'. Mark it missing, or fit to rows that have it",
    ),
    Case(
        "a word where numbers were",
        frame(x="low"),
        fill,
        DataError,
        "column 'x', row 0: expected a number; got 'low'. Mark it missing, or fit with types={'x': "
        "'categorical'}",
    ),
    Case(
        "a column that is missing",
        frame().drop(columns="w"),
        fill,
        ValueError,
        "The feature names should match those that were passed during fit.\n"
        "Feature names seen at fit time, yet now missing:\n- w\n",
    ),
    Case(
        "columns in another order",
        frame()[["w", "x", "n"]],
        fill,
        ValueError,
        "The feature names should match those that were passed during fit.\n"
        "Feature names must be in the same order as they were in fit.\n",
    ),
    Case(
        "an array of another width",
        np.zeros((5, 2)),
        lambda _, table: FlowImputer(LEAST).fit(np.zeros((12, 3))).transform(table),
        ValueError,
        "X has 2 features, but FlowImputer is expecting 3 features as input.",
    ),
    Case(
        "a row with nothing in it",
        frame(6).mask(np.ones((6, 3), bool)),
        fill,
        None,
        came=lambda found: not found.isna().any(axis=None),
    ),
    Case(
        "numbers as objects",
        pd.DataFrame({"c": pd.Series([*np.arange(29.0), None], dtype=object)}),
        fill_anew,
        None,
        came=lambda found: isinstance(found["c"][29], float) and 0 <= found["c"][29] <= 28,
    ),
    Case(
        "the largest integers",
        pd.DataFrame({"c": pd.array([2**63 - 1, 2**63 - 2, None] * 5, dtype="Int64")}),
        fill_anew,
        None,
        came=lambda found: found["c"].tolist()[:3] == [2**63 - 1, 2**63 - 2, 2**63 - 1],
    ),
    Case(
        "the largest integers of polars",
        pl.DataFrame({"c": pl.Series([2**64 - 1, 5, None] * 5, dtype=pl.UInt64)}),
        fill_anew,
        None,
        came=lambda found: found["c"].null_count() == 0 and found["c"][0] == 2**64 - 1,
    ),
]

CASES = [*FILES, *CELLS, *BINARY, *PLACES, *LIBRARY]
