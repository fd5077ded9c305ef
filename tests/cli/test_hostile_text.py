"""Text of strangers in tables and models: shown as it is, written as it was, and never obeyed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from plmcmc.cli.printable import printable
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
