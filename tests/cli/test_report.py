"""`--report`: one page that stands alone, says what it should, and runs nothing of the user's."""

import base64
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from plmcmc.cli.report import assembly as module
from plmcmc.cli.report.assembly import _diagnosed
from plmcmc.cli.report.cautions import Column, warnings_of
from plmcmc.cli.report.diagnosis import level_row, width_row
from plmcmc.cli.report.figures import LINES, SHOWN, _by_pattern, _lines, most_holes, pattern_png
from plmcmc.cli.report.page import html_list
from plmcmc.imputation import FlowImputer
from plmcmc.imputation.diagnosis import ROWS, Diagnosis
from plmcmc.tables.fill import Found
from table_files import run, text

pytestmark = pytest.mark.usefixtures("tiny")
TAGS = {"html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "ul", "li", "b"}
TAGS |= {"span", "i", "div", "table", "thead", "tbody", "tr", "th", "td", "figure", "figcaption"}
TAGS |= {"img"}
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "style", "alt", "src"}


class Reader(HTMLParser):
    """What a browser would see."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.pictures, self.text = set(), set(), [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.pictures += [value for name, value in attrs if name == "src"]

    def handle_data(self, data):
        self.text += data


def reported(data, tmp_path, *more):
    place = tmp_path / "report.html"
    argv = ("impute", data, "-o", tmp_path / f"out{data.suffix}", "--report", place, *more)
    assert run(*argv) == 0
    page = Reader(place.read_text(encoding="utf-8"))
    page.source = place.read_text(encoding="utf-8")
    return page


@pytest.mark.parametrize("name", ["size", "count", "colour"])
def test_a_column_without_a_value_that_the_model_knows(name, data, tmp_path):
    assert run("fit", data, "-o", tmp_path / "model", "--effort", "default") == 0
    table = pd.read_csv(data, dtype=str, keep_default_na=False)
    table[name] = ""
    (tmp_path / "new").mkdir()
    table.to_csv(tmp_path / "new" / "data.csv", index=False)
    page = reported(tmp_path / "new" / "data.csv", tmp_path, "--model", tmp_path / "model")
    assert len(page.pictures) == 3
    found = pd.read_csv(tmp_path / "out.csv", dtype=str, keep_default_na=False)
    assert (found[name] != "").all()


class TestPage:
    def test_stands_alone(self, data, tmp_path):
        page = reported(data, tmp_path)
        assert page.tags == TAGS
        assert page.attributes <= ATTRIBUTES
        assert not re.search(r"https?:|url\(|@import|<script|<link", page.source)
        assert len(page.pictures) == 3
        for source in page.pictures:
            kind, content = source.split(",", 1)
            assert kind == "data:image/png;base64"
            assert base64.b64decode(content).startswith(b"\x89PNG")

    def test_says_what_was_missing_asked_and_found(self, data, tmp_path):
        page = reported(data, tmp_path, "--seed", 7, "--flag", "settled", "--exclude", "code")
        for words in (
            "data.csv (40 rows)",
            "marked in column settled",
            "missing values filled, 16.7% of the cells",
            "passed through: identifier",
            "passed through: excluded",
            "lay in their 90% interval",
            "were guessed correctly",
            "of the missing values have converged",
            "There are only 40 rows to learn from",
            "What to watch out for",
        ):
            assert words in page.text
        rows = re.findall(r"<tr>(.*?)</tr>", page.source)
        assert any("size" in row and ">8<" in row and "20.0%" in row for row in rows)
        assert any("seed" in row and ">7<" in row for row in rows)

    def test_is_the_same_again(self, data, tmp_path):
        first = reported(data, tmp_path, "--effort", "fast").source
        assert reported(data, tmp_path, "--effort", "fast", "--overwrite").source == first

    def test_nothing_of_the_users_is_run(self, tmp_path):
        """Names of columns and files, levels and markers that would be HTML, or mathematics."""
        path = tmp_path / "<b>data<b>.csv"
        evil = '"<script>alert(1)</script>"'
        head = f'{evil},"$\\frac$","a\nb & <i>","名前","x"" onerror=""y"\n'
        levels = ('"<img src=x onerror=alert(2)>"', "'>\"", "</td>", "")
        rows = "".join(
            f"{i / 3 if i % 4 else ''},{i % 5 or ''},{levels[i % 4]},{i * 1.5},{i % 7}.5\n"
            for i in range(24)
        )
        path.write_text(head + rows.replace("'>\"", '"\'>"""'))
        page = reported(path, tmp_path, "--effort", "fast", "--na-values", "<h3>")
        assert page.tags == TAGS
        assert page.attributes <= ATTRIBUTES
        assert "<script>alert(1)</script>" in page.text
        assert "<h3>" in page.text
        assert "<b>data<b>.csv" in page.text
        assert r"a\nb & <i>" in page.text

    def test_what_is_not_escaped_would_be_seen(self, monkeypatch):
        """Negative control: names of columns, taken for HTML."""
        names = ["<script>alert(1)</script>", "<p onerror=x>"]
        assert Reader(html_list(names)).tags == {"ul", "li"}
        monkeypatch.setattr(sys.modules[html_list.__module__], "escape", str)
        page = Reader(html_list(names))
        assert "script" in page.tags
        assert "onerror" in page.attributes

    def test_nothing_missing(self, tmp_path):
        (tmp_path / "data.csv").write_text("x,y\n" + "1.5,2\n2.5,3\n" * 60)
        page = reported(tmp_path / "data.csv", tmp_path)
        assert page.pictures == []
        assert "Nothing stood out." in page.text

    def test_several_files_and_draws(self, tmp_path):
        paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
        for seed, path in enumerate(paths):
            path.write_text(text(seed=seed))
        argv = ("impute", *paths, "-o", tmp_path / "out", "--draws", 2, "--effort", "fast")
        assert run(*argv, "--report", tmp_path / "out" / "page.html") == 0
        page = Reader((tmp_path / "out" / "page.html").read_text())
        assert "a.csv (40 rows)" in page.text
        assert "b.csv (40 rows)" in page.text
        assert "2 tables of draws" in page.text
        names = {path.name for path in (tmp_path / "out").iterdir()}
        assert names == {"a-1.csv", "a-2.csv", "b-1.csv", "b-2.csv", "page.html"}


class TestRefused:
    def test_an_existing_page(self, data, tmp_path, capsys):
        (tmp_path / "page.html").write_text("mine")
        argv = ("impute", data, "-o", tmp_path / "out.csv", "--report", tmp_path / "page.html")
        assert run(*argv) == 2
        assert "page.html exists" in capsys.readouterr().err
        assert (tmp_path / "page.html").read_text() == "mine"
        assert not (tmp_path / "out.csv").exists()

    def test_another_suffix(self, data, tmp_path, capsys):
        argv = ("impute", data, "-o", tmp_path / "out.csv", "--report", tmp_path / "page.pdf")
        assert run(*argv) == 2
        assert "ends in .html" in capsys.readouterr().err

    def test_interrupted_writes_neither(self, data, tmp_path, monkeypatch):
        argv = ("impute", data, "-o", tmp_path / "out.csv", "--effort", "fast")
        argv += ("--report", tmp_path / "page.html")

        def interrupt(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(module, "_diagnosed", interrupt)
            assert run(*argv) == 130
        assert {path.name for path in tmp_path.iterdir()} == {"data.csv", "out.csv.part"}
        assert run(*argv) == 0
        assert {path.name for path in tmp_path.iterdir()} == {"data.csv", "out.csv", "page.html"}


def diagnosis(columns=2, **more):
    """What might have been found: each column with ten holes, drawn from a standard normal."""
    rng = np.random.default_rng(0)
    found = {
        "names": tuple(f"c{place}" for place in range(columns)),
        "holes": np.full(columns, 0.1),
        "rhat": np.ones(columns),
        "converged": np.ones(columns),
        "ess": np.full(columns, 100.0),
        "coverage": np.full(columns, 0.9),
        "hidden": np.full(columns, 90.0),
        "rows": 100,
        "kinds": ("continuous",) * columns,
        "levels": (None,) * columns,
        "observed": tuple(4 * rng.normal(size=4000) for _ in range(columns)),
        "imputed": tuple(rng.normal(size=(200, 10, 8)) for _ in range(columns)),
    }
    return Diagnosis(**(found | more))


KNOWN = [Column("a", "continuous", None, 10, 90), Column("b", "categorical", None, 0, 3)]
SETTLED = Found(10, 10, 10, 1.0)


class TestWords:
    def told(self, columns=KNOWN, rows=200, nothing_seen=0, found=SETTLED, **more):
        return warnings_of(columns, rows, nothing_seen, found, diagnosis(**more))

    def test_nothing_to_beware_of(self):
        assert self.told() == []

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"found": Found(10, 2, 10, 0.4)}, "Only 40% of the missing values have converged"),
            (
                {"converged": np.array([1.0, 0.3])},
                "Less than half of the missing values have converged in c1",
            ),
            ({"coverage": np.array([0.9, 0.7])}, "lay in their 90% interval in c1: the intervals"),
            ({"rows": 99}, "only 99 rows to learn from"),
            ({"nothing_seen": 2}, "2 rows have no observed value in the columns to fill"),
            (
                {"columns": [Column("a", "integer", None, 190, 4)]},
                "a is missing in 95% of the rows; its filled-in values are based on 10 values",
            ),
            (
                {"columns": [Column("a", "integer", None, 20, 1)]},
                "Only one distinct value was observed in",
            ),
            (
                {"columns": [Column("id", None, "identifier", 1, None)]},
                "id passed through (identifier), and still has 1 missing value",
            ),
        ],
    )
    def test_each(self, given, words):
        told = self.told(**given)
        assert len(told) == 1
        assert words in told[0]

    def test_few_values(self):
        told = self.told(columns=[Column("a", "integer", None, 85, 9)], rows=110)
        assert told == ["Fewer than 30 values were observed in a."]

    def test_more_columns_than_rows(self):
        told = self.told(columns=KNOWN * 60, rows=100)
        assert "more columns (120) than rows (100)" in told[0]

    def test_convergence_of_some_rows_where_all_were_not_told(self):
        found = Found(10, None, 10, None)
        assert self.told(found=found) == []
        told = self.told(found=found, converged=np.array([0.6, 0.6]))
        assert "Only 60% of the missing values" in told[0]


class TestRows:
    def test_widths(self):
        """A standard normal's interval in a column four times as wide."""
        name, _, width, _, share = width_row(diagnosis(), 0)
        assert name == "c0"
        # 1,600 draws of each hole: the median of ten widths is within 3% of 3.29.
        assert abs(float(width) - 3.29) < 0.1
        assert share in ("24%", "25%", "26%")

    def test_a_column_of_one_value(self):
        found = diagnosis(observed=(np.ones(50), np.ones(50)))
        assert width_row(found, 0)[-1] == "–"

    def test_agreement(self):
        drawn = np.zeros((20, 3, 4))
        drawn[:5] = 1.0
        found = diagnosis(
            kinds=("categorical",) * 2,
            levels=(("red", "blue"),) * 2,
            observed=(np.array([1.0, 1.0, 1.0, 0.0]),) * 2,
            imputed=(drawn,) * 2,
        )
        name, words, _, share = level_row(found, 0)
        assert (name, words, share) == ("c0", "blue (75%)", "75%")


class TestPictures:
    def test_rows_of_a_pattern_stand_together(self):
        missing = np.array([[1, 0], [0, 0], [1, 1], [0, 0], [1, 0], [0, 0]], dtype=bool)
        expected = [[0, 0]] * 3 + [[1, 0]] * 2 + [[1, 1]]
        assert _by_pattern(missing).astype(int).tolist() == expected

    def test_many_rows_share_a_line(self):
        missing = np.zeros((LINES * 3 + 7, 2), dtype=bool)
        missing[0, 0] = missing[:, 1] = True
        lines = _lines(missing)
        assert len(lines) == LINES
        assert (lines[:, 1] == 1).all()
        assert 0.2 < lines[0, 0] < 0.4
        assert (lines[1:, 0] == 0).all()

    @pytest.mark.parametrize(("rows", "columns"), [(1, 1), (6000, 3), (20, 80)])
    def test_of_any_size(self, rows, columns):
        missing = np.random.default_rng(0).random((rows, columns)) < 0.3
        names = [f"${place}_{{" for place in range(columns)]
        assert pattern_png(names, missing).startswith(b"\x89PNG")

    def test_columns_with_the_most_holes_are_shown(self):
        columns = SHOWN + 6
        drawn = [np.zeros((4, 1, 2))] * columns
        drawn[5] = np.zeros((4, 0, 2))
        found = diagnosis(
            columns,
            holes=np.linspace(0.9, 0.1, columns),
            imputed=tuple(drawn),
            rhat=np.ones(columns),
        )
        names = [name for place, name in enumerate(found.names) if place != 5][:SHOWN]
        assert list(most_holes(found).names) == names


class TestRowsLookedAt:
    def test_rows_with_holes_come_first(self, monkeypatch):
        frame = pd.DataFrame({"x": np.arange(3.0 * ROWS), "y": np.arange(3.0 * ROWS)})
        frame.loc[[5, 700, 1100], "y"] = np.nan
        looked = []

        def diagnose(self, table):
            looked.append(table)
            return diagnosis()

        monkeypatch.setattr(FlowImputer, "diagnose", diagnose)
        imputer = FlowImputer("fast", random_state=0).fit(frame)
        found = _diagnosed(imputer, frame)
        assert len(looked[0]) == ROWS
        assert looked[0]["y"].isna().sum() == 3
        assert [len(own) for own in found.observed] == [3 * ROWS, 3 * ROWS - 3]
