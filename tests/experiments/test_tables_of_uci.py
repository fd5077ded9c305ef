"""Tables of the paper from CSV files: read as they are, or what is wrong is named."""

import numpy as np
import pytest

from plmcmc.data import DataError
from plmcmc.experiments.sources import uci
from plmcmc.experiments.study import Place


def read(path, content):
    (path / "own.csv").write_bytes(content)
    return uci("own", Place(path, path, data=path))


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_numbers_below_a_header(tmp_path, start):
    rows = np.random.default_rng(0).standard_normal((5, 3))
    lines = "".join(",".join(map(repr, row)) + "\r\n" for row in rows.tolist())
    found = read(tmp_path, start + b"a,b,c\r\n" + lines.encode() + b"\r\n\n")
    np.testing.assert_array_equal(found, rows)
    assert found.dtype == np.float64
    assert read(tmp_path, b"a\n 1 \n2e3\n").tolist() == [[1.0], [2000.0]]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a,b\n1,2\n3,word\n", "own.csv, line 3, column 2: expected a number; got 'word'"),
        (b"a,b\n1,\n", "own.csv, line 2, column 2: expected a number; got ''"),
        (b"a,b\n1,nan\n", "own.csv, line 2, column 2: expected a number; got 'nan'"),
        (b"a,b\n\n1,2\n3\n", "own.csv, line 4: expected 2 values, as in the header; got 1"),
        (b"a;b\n1;2\n", "own.csv, line 2, column 1: expected a number; got '1;2'"),
        (b"", "own.csv: expected a header, then rows .*; it has no rows"),
        (b"a,b\n", "it has no rows"),
        (b"a,b\n1,\xff\n", "own.csv: expected a header, .*; it cannot be read"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, content, words):
    with pytest.raises(DataError, match=words):
        read(tmp_path, content)
