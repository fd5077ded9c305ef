"""Tables as files, spoilt at random by seed: what is packed, what it is packed in, and cells.

Most of what is packed is packed again after it was spoilt: readers behind the packing are then met.
"""

import gzip
import io
import random
import zipfile
from pathlib import Path

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from spoilt_files import Case, changed_bytes

KINDS = ("table.csv.gz", "table.parquet", "table.xlsx")
ROWS = 12
# What a byte of XML or text may become to mean something else.
MARKS = (b"<", b">", b"/", b'"', b"&", b",", b"\n", b"\r", b"=", b"0", b"9", b"-", b"e", b"\0")
MARKS += (b"\xff", b"&#0;", b"&#x1b;", b"<!--", b"<row/>", b"<c/>", b't="s"', b't="e"', b't="d"')
MARKS += (b"XFD1048576", b"A0", b"1e999", b"-1", b"99999999999999999999", b'<c r="A1"/>')


def frame() -> pd.DataFrame:
    """A table of every kind of column, with holes."""
    place = range(ROWS)
    return pd.DataFrame(
        {
            "x": [None if row % 5 == 2 else row / 7 for row in place],
            "n": pd.array([None if row % 6 == 3 else row % 4 for row in place], dtype="Int64"),
            "word": [None if row % 4 == 1 else ("red", 'a "b", c')[row % 2] for row in place],
            "yes": pd.array([None if row == 3 else row % 2 == 0 for row in place], dtype="boolean"),
            "when": pd.date_range("2024-01-01", periods=ROWS),
        }
    )


def whole_tables() -> dict[str, list[bytes]]:
    """Return files as they should be, by kind."""
    table = pa.Table.from_pandas(frame())
    parquet = []
    for options in ({}, {"compression": "gzip", "data_page_version": "2.0"}, {"compression": None}):
        buffer = io.BytesIO()
        pq.write_table(table, buffer, **options)
        parquet.append(buffer.getvalue())
    text = frame().to_csv(index=False).encode()
    return {
        "table.csv.gz": [gzip.compress(text, mtime=0)],
        "table.parquet": parquet,
        "table.xlsx": [_workbook()],
    }


def _workbook() -> bytes:
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    book.active.append(list(frame().columns))
    for line in frame().itertuples(index=False):
        book.active.append([None if pd.isna(own) else own for own in line])
    book.create_sheet("other").append(["mine"])
    book.save(buffer)
    return buffer.getvalue()


def spoilt_table(case: Case, whole: dict[str, list[bytes]]) -> bytes:
    """Return the bytes of a case."""
    rng = random.Random(f"{case.kind} {case.number}")
    content = rng.choice(whole[case.kind])
    inside = {"table.csv.gz": _packed_text, "table.xlsx": _packed_parts}.get(case.kind)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if inside is not None and rng.random() < 0.75:
            content = inside(content, rng)
        else:
            content = changed_bytes(content, rng)
    return content


def _marked(content: bytes, rng: random.Random) -> bytes:
    """Change bytes, or put a mark somewhere."""
    if rng.random() < 0.5:
        return changed_bytes(content, rng)
    start = rng.randrange(len(content) + 1)
    return content[:start] + rng.choice(MARKS) + content[start + rng.choice((0, 1, 1, 5)) :]


def _packed_text(content: bytes, rng: random.Random) -> bytes:
    try:
        return gzip.compress(_marked(gzip.decompress(content), rng), mtime=0)
    except Exception:
        # What is spoilt already cannot always be unpacked.
        return content


def _packed_parts(content: bytes, rng: random.Random) -> bytes:
    """Change a part of a workbook, or drop, double or rename it; the sheet more often."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as package:
            parts = [(name, package.read(name)) for name in package.namelist()]
        named = [place for place, (name, _) in enumerate(parts) if "sheet1" in name]
        place = rng.choice(named) if named and rng.random() < 0.5 else rng.randrange(len(parts))
        name, own = parts[place]
        way = rng.random()
        if way < 0.05:
            del parts[place]
        elif way < 0.08:
            parts.append((rng.choice(("../x", "/x", "xl/workbook.xml", name)), own))
        else:
            parts[place] = name, _marked(own, rng)
        buffer = io.BytesIO()
        with zipfile.ZipFile(
            buffer, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
        ) as copy:
            for name, own in dict(parts).items():
                copy.writestr(zipfile.ZipInfo(name), own)
        return buffer.getvalue()
    except Exception:
        return content


def read_and_written(place: Path) -> bytes:
    """Read a table, decide what its columns are, fill its holes with anything, and write it."""
    from argparse import Namespace

    from plmcmc.tables import read_table
    from plmcmc.tables.columns import plan_of_tables

    table = read_table(place)
    known = plan_of_tables([table], Namespace(types=None, exclude=[])).known
    found = table.frame(known)
    for name in found.columns:
        seen = found[name].dropna()
        # As the imputer gives them: numbers as they are, levels among those that are there.
        found[name] = found[name].fillna(seen.iloc[0]) if len(seen) else found[name]
    return table.filled(known, found)
