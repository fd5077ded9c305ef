"""Every odd table of the list, by the command or the library: what comes, and all that is said."""

import re
import warnings

import pytest

from plmcmc.imputation import EFFORTS, FlowImputer
from table_cases import CASES, frame
from table_files import run
from toy_tables import LEAST


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """One model for all: fitted, and where it is saved."""
    imputer = FlowImputer(LEAST, random_state=0).fit(frame())
    return imputer, imputer.save(tmp_path_factory.mktemp("shared") / "model")


def told(message):
    """The whole of a message, whatever stands for `...` in it."""
    return re.compile(re.escape(message).replace(r"\.\.\.", ".*"), re.DOTALL)


def written(case, directory):
    """Make the files of a case."""
    name = case.ask.split()[1]
    if callable(case.given):
        case.given(directory)
    elif isinstance(case.given, bytes):
        (directory / name).write_bytes(case.given)
    else:
        (directory / name).write_bytes(case.given.encode())


def contents(directory):
    return {place: place.is_file() and place.read_bytes() for place in directory.rglob("*")}


@pytest.mark.parametrize(
    "case", [case for case in CASES if isinstance(case.ask, str)], ids=lambda case: case.name
)
def test_by_the_command(case, model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(EFFORTS, "fast", LEAST)
    written(case, tmp_path)
    before = contents(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        if case.plant:
            case.plant(patch)
        code = run(*(model[1] if word == "MODEL" else word for word in case.ask.split()))
    said = capsys.readouterr().err.removesuffix("\n")
    assert told(f"plmcmc: {case.message}" if case.outcome else case.message).fullmatch(said), said
    assert code == case.outcome
    after = contents(tmp_path)
    if case.outcome == 0:
        assert case.came(tmp_path)
    assert {place: after[place] for place in before} == before
    if case.outcome:
        assert case.keeps == any(place.name.endswith(".part") for place in after)
        assert case.keeps or after == before


@pytest.mark.parametrize(
    "case", [case for case in CASES if callable(case.ask)], ids=lambda case: case.name
)
def test_by_the_library(case, model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if case.outcome is None:
            assert case.came(case.ask(model[0], case.given))
            return
        with pytest.raises(case.outcome) as found:
            case.ask(model[0], case.given)
    assert type(found.value) is case.outcome
    assert told(case.message).fullmatch(str(found.value)), str(found.value)


def test_there_are_many_and_each_has_a_name():
    names = [(isinstance(case.ask, str), case.name) for case in CASES]
    assert len(set(names)) == len(names) > 60


def test_a_message_that_differs_by_a_word_is_not_taken():
    assert told("data.csv: expected ...").fullmatch("data.csv: expected rows")
    assert not told("data.csv: expected rows").fullmatch("data.csv: expected row")
    assert not told("data.csv: expected rows").fullmatch("data.csv: expected rows. And more")
