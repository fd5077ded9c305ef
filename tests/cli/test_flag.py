"""`--flag`: a last column that says of each row whether what was filled in has converged."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from plmcmc.imputation.convergence import Convergence
from table_files import cells, run, text
from toy_tables import mixed, with_holes

pytestmark = pytest.mark.usefixtures("tiny")


@pytest.fixture
def every_third(monkeypatch):
    """Every third row with holes is said not to have converged."""
    monkeypatch.setattr(
        Convergence, "rows", property(lambda self: np.arange(self.rhat.shape[1]) % 3 > 0)
    )


def expected(holes):
    """What `every_third` makes of rows with holes and rows without."""
    found = np.ones(len(holes), dtype=bool)
    found[holes] = np.arange(holes.sum()) % 3 > 0
    return found.tolist()


@pytest.mark.usefixtures("every_third")
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_text(end, data, tmp_path):
    data.write_bytes(text(end=end).encode())
    plain, flagged = tmp_path / "plain.csv", tmp_path / "flagged.csv"
    assert run("impute", data, "-o", plain) == 0
    assert run("impute", data, "-o", flagged, "--flag", "has, settled") == 0
    old, new = cells(plain.read_bytes().decode()), cells(flagged.read_bytes().decode())
    assert [row[:-1] for row in new] == old
    assert new[0][-1] == "has, settled"
    holes = np.array([bool({"", "NA", "?"} & set(row)) for row in cells(text())[1:]])
    assert 0 < holes.sum() < len(holes)
    assert [row[-1] == "true" for row in new[1:]] == expected(holes)
    assert {row[-1] for row in new[1:]} == {"true", "false"}
    assert flagged.read_bytes().count(end.encode()) == data.read_bytes().count(end.encode())


@pytest.mark.usefixtures("every_third")
def test_parquet(tmp_path):
    frame, holes = with_holes(mixed(), share=0.1)
    frame.to_parquet(tmp_path / "data.parquet")
    argv = ("impute", tmp_path / "data.parquet", "-o", tmp_path / "out.parquet")
    assert run(*argv, "--flag", "settled") == 0
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.column_names[-1] == "settled"
    assert found.column("settled").to_pylist() == expected(holes.any(1))


def test_nothing_missing(tmp_path):
    (tmp_path / "data.csv").write_text("x,y\n1.5,2\n2.5,4")
    argv = ("impute", tmp_path / "data.csv", "-o", tmp_path / "out.csv")
    assert run(*argv, "--flag", "settled") == 0
    assert (tmp_path / "out.csv").read_text() == "x,y,settled\n1.5,2,true\n2.5,4,true"


@pytest.mark.usefixtures("every_third")
def test_a_table_without_holes_beside_one_with(tmp_path):
    """What was found of the one before is not taken for its own."""
    rows = [f"{i / 4},{i % 5}.5\n" for i in range(12)]
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(rows) + "1.25,\n")
    (tmp_path / "b.csv").write_text("x,y\n" + "".join(rows))
    argv = ("impute", tmp_path / "a.csv", tmp_path / "b.csv", "-o", tmp_path / "out")
    assert run(*argv, "--flag", "settled") == 0
    ends = [
        [row[-1] for row in cells((tmp_path / "out" / name).read_text())[1:]]
        for name in ("a.csv", "b.csv")
    ]
    assert ends == [["true"] * 12 + ["false"], ["true"] * 12]


class TestRefused:
    def refused(self, capsys, data, tmp_path, *more):
        before = sorted(tmp_path.iterdir())
        assert run("impute", data, "-o", tmp_path / "out.csv", *more) == 2
        assert sorted(tmp_path.iterdir()) == before
        return capsys.readouterr().err

    def test_a_name_that_is_there(self, data, tmp_path, capsys):
        told = self.refused(capsys, data, tmp_path, "--flag", "size")
        assert "a column of that name exists: choose another" in told

    def test_no_name(self, data, tmp_path, capsys):
        assert "needs a name" in self.refused(capsys, data, tmp_path, "--flag", " ")

    def test_an_effort_that_cannot_tell(self, data, tmp_path, capsys):
        told = self.refused(capsys, data, tmp_path, "--flag", "settled", "--effort", "fast")
        assert (
            "--effort fast runs too few steps to check convergence: choose --effort default" in told
        )

    @pytest.mark.parametrize("option", [("--draws", 2), ("--statistic", "draw")])
    def test_single_states(self, option, data, tmp_path, capsys):
        told = self.refused(capsys, data, tmp_path, "--flag", "settled", *option)
        assert f"{option[0]} " in told
        assert "keeps a single state of each" in told

    def test_a_model_that_cannot_tell(self, data, tmp_path, capsys):
        assert run("fit", data, "-o", tmp_path / "model", "--effort", "fast") == 0
        told = self.refused(
            capsys, data, tmp_path, "--flag", "settled", "--model", tmp_path / "model"
        )
        assert "the model's effort runs too few steps to check convergence" in told
        assert "when fitting" in told
