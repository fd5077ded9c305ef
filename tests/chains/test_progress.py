"""Progress: bars for those who look, lines for those who will, and silence."""

import pytest

from plmcmc.chains import progress
from plmcmc.chains.progress import going_on, progress_bar


@pytest.fixture
def clock(monkeypatch):
    """A clock that is moved by hand."""
    times = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: times[0])
    return times


def test_a_file_gets_a_line_a_minute(clock, capsys):
    with progress_bar("Walking", 1_000, show=True) as report:
        for second in range(0, 200, 10):
            clock[0] = float(second)
            report(5 * second, "well" if second < 100 else "")
    assert capsys.readouterr().err.splitlines() == [
        "Walking: 300 of 1,000 after 1.0 minutes; well",
        "Walking: 600 of 1,000 after 2.0 minutes",
        "Walking: 900 of 1,000 after 3.0 minutes",
    ]


@pytest.mark.parametrize("show", [None, False])
def test_nobody_who_did_not_ask_gets_any(show, clock, capsys):
    with progress_bar("Walking", 2, show=show) as report:
        clock[0] = 1e6
        report(1, "")
    assert capsys.readouterr().err == ""


def test_who_goes_on_says_so_at_once(clock, capsys):
    with progress_bar("Walking", 1_000, show=True) as report:
        going_on(report, "step")(600)
        clock[0] = 61.0
        report(601, "well")
    assert capsys.readouterr().err.splitlines() == [
        "Walking: resuming at step 601 of 1,000",
        "Walking: 601 of 1,000 after 1.0 minutes; well",
    ]


def test_a_bar_begins_where_it_goes_on(monkeypatch, capsys):
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    with progress_bar("Walking", 10) as report:
        going_on(report, "step")(6)
    shown = capsys.readouterr().err
    assert "6/10" in shown
    assert "resuming at step 7" in shown


def test_a_terminal_gets_a_bar(monkeypatch, capsys):
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    with progress_bar("Walking", 2) as report:
        report(2, "well")
    assert "2/2" in capsys.readouterr().err
