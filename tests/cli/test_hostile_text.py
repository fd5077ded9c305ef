"""Text of strangers in tables and models: shown as it is, written as it was, and never obeyed."""

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from plmcmc.cli.printable import LONGEST, named, printable
from plmcmc.cli.report.page import html, picture
from table_files import cells, run

pytestmark = pytest.mark.usefixtures("tiny")
# Sets a terminal's title, then clears it; a bell; a single-character introducer.
TITLE = "\x1b]0;owned\x07\x1b[2Jsize\x9b1m"
FORMULAS = ("=1+1", "+cmd|' /C calc'!A0", "@SUM(A1)", "-2+3", '"=HYPERLINK(""x"")"')
COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def table(name, levels):
    rows = [f"{i / 3 if i % 4 else ''},{levels[i % 5] if i % 7 else ''}" for i in range(40)]
    return f"{name},word\n" + "\n".join(rows) + "\n"


def test_a_terminal_is_not_commanded(tmp_path, capfd):
    data, model = tmp_path / "data.csv", tmp_path / "model"
    data.write_text(table(TITLE, ["a", "b\x1b[31m", "c", "d", "e"]))
    assert run("fit", data, "-o", model, "--effort", "fast") == 0
    assert run("info", model) == 0
    assert run("impute", data, "-o", tmp_path / "out.csv", "--model", model) == 0
    data.write_text(table(TITLE, ["a", "b", "never\x1b[31m", "d", "e"]))
    assert run("impute", data, "-o", tmp_path / "more.csv", "--model", model) == 2
    told = capfd.readouterr()
    for words in (told.out, told.err):
        assert not COMMANDS.search(words)
    assert r"\x1b]0;owned\x07\x1b[2Jsize\x9b1m" in told.out.replace("\n", "")
    assert TITLE in (tmp_path / "out.csv").read_text()


FORGED = "plmcmc: warning: all is lost"
# A line of its own, a tab, and words that read backwards.
LINES = f"size\n{FORGED}\t\u202etxt\u2066"
SPELLED = rf"size\n{FORGED}\t\u202etxt\u2066"
LONG = "n" * 200_000


@pytest.fixture
def forging(tmp_path):
    """A table of names that forge lines, are too long, and of which one is passed through."""
    frame = pd.DataFrame({LINES: [i / 3 if i % 4 else None for i in range(40)]})
    frame[LONG] = [i * i % 17 if i % 5 else None for i in range(40)]
    frame[f"text{LINES}"] = [f"words of their own, {i}" for i in range(40)]
    frame[f"text{LONG}"] = frame[f"text{LINES}"]
    frame["word"] = [("a", f"b{LINES}", f"c{LONG}")[i % 3] if i % 7 else None for i in range(40)]
    frame.to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


def test_names_forge_no_lines_and_are_cut(forging, tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    model, page = tmp_path / "model", tmp_path / "r.html"
    assert run("fit", forging, "-o", model, "--effort", "fast") == 0
    assert run("info", model) == 0
    argv = ("impute", forging, "-o", tmp_path / "out.csv", "--model", model, "--report", page)
    assert run(*argv) == 0
    told = capfd.readouterr()
    shown = page.read_text(encoding="utf-8")
    for words in (told.out, told.err, shown):
        assert not re.search("[\x1b\t\u202a-\u202e\u2066-\u2069]", words)
        assert not any(line.strip().startswith(FORGED) for line in words.splitlines())
        assert "n" * (LONGEST + 1) not in words
    for words in (told.out, shown):
        assert SPELLED in words
        assert "... (200,000 characters)" in words
    # What is written is as it was.
    written = pd.read_csv(tmp_path / "out.csv").columns
    assert list(written) == list(pd.read_csv(forging).columns)


def test_a_table_of_which_nothing_can_be_learned_is_told_of_so_too(forging, capfd):
    text = pd.read_csv(forging)[[f"text{LINES}", f"text{LONG}"]]
    text.iloc[0] = None
    text.to_csv(forging, index=False)
    assert run("impute", forging, "-o", forging.parent / "out.csv") == 2
    told = capfd.readouterr().err
    assert f"text{SPELLED} (" in told
    assert told.count("\n") == 1
    assert len(told) < 1000


def test_a_page_spells_out_what_a_browser_would_obey():
    assert html("a\x1b[2J\u202e<b>\n") == r"a\x1b[2J\u202e&lt;b&gt;\n"
    assert r'alt="\u202e&quot;"' in picture(b"", '\u202e"')


@pytest.mark.parametrize("mark", [*"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"])
def test_marks_that_turn_text_are_spelled_out_in_words_too(mark):
    assert printable(f"a{mark}b") == rf"a\u{ord(mark):04x}b"


def test_a_name_is_cut_only_where_it_is_long():
    assert named("n" * LONGEST) == "n" * LONGEST
    assert named("n" * (LONGEST + 1)) == "n" * LONGEST + f"... ({LONGEST + 1} characters)"


@pytest.mark.parametrize("text", ["ordinary words, 名前\n\tand é", "[red]brackets[/]", ""])
def test_what_commands_nothing_is_printed_as_it_is(text):
    assert printable(text) == text


def test_halves_of_characters_can_be_printed():
    printable("\ud800").encode()


def test_formulas_stay_as_they_were(tmp_path):
    """They are text of the user's: seen cells byte for byte, and filled with what was seen."""
    data, out = tmp_path / "data.csv", tmp_path / "out.csv"
    data.write_text(table("=A1", FORMULAS))
    assert run("impute", data, "-o", out, "--effort", "fast") == 0
    before, after = cells(data.read_text()), cells(out.read_text())
    assert after[0] == ["=A1", "word"]
    known = {row[1] for row in before[1:]} - {""}
    for old, new in zip(before[1:], after[1:], strict=True):
        assert new[1] == old[1] if old[1] else new[1] in known
        assert new[0] == old[0] or not old[0]


def test_the_page_says_how_to_neutralise_them():
    page = (Path(__file__).parents[2] / "docs" / "command.md").read_text()
    script = page.split("```python\n# neutral.py\n")[1].split("```")[0]
    given = '=1,-2.5,+3,@x,-2+3,,text,"=A(1,2)"\n'
    ran = subprocess.run(
        [sys.executable, "-c", script], input=given, capture_output=True, text=True, check=True
    )
    assert cells(ran.stdout)[0] == ["'=1", "-2.5", "+3", "'@x", "'-2+3", "", "text", "'=A(1,2)"]
