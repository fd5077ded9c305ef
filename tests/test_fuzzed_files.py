"""A few hundred spoilt files, by seed; `benchmarks/fuzz_files.py` tries a hundred thousand."""

import time
from collections import Counter
from dataclasses import replace

import pytest

import spoilt_tables
from fuzzing import _imputed, campaign, outcome, table_campaign, written
from plmcmc.flows import FileError, load
from plmcmc.imputation import FlowImputer
from plmcmc.storage import stored
from plmcmc.tables import excel
from spoilt_files import KINDS, Case, packed, spoilt, whole_files

EACH = 120


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return whole_files(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("kind", KINDS)
def test_spoilt_files_load_or_are_refused(kind, whole, tmp_path):
    found = campaign([Case(kind, number) for number in range(EACH)], whole, tmp_path)
    assert found.wrong == []
    # Whatever is counted as loaded has filled a row.
    asks_for_much = found.counts[kind]["loaded, not filled"]
    assert asks_for_much < EACH / 20 if kind.startswith("imputer") else asks_for_much == 0
    # Some are spoilt where it does not matter, or into other files that are good.
    assert 0 < found.counts[kind]["loaded"] < EACH / 2


@pytest.mark.parametrize("kind", spoilt_tables.KINDS)
def test_spoilt_tables_are_read_or_refused_by_name(kind, tmp_path):
    found = table_campaign([Case(kind, number) for number in range(4 * EACH)], tmp_path)
    assert found.wrong == []
    assert 0 < found.counts[kind]["loaded"] < 2 * EACH


def test_spoilt_bytes_never_load_unless_hashed_again(whole, tmp_path):
    """One bit, anywhere in either file of a flow."""
    files = whole.flows[0]
    for name, content in files.items():
        for place in range(0, len(content), 7):
            other = bytearray(content)
            other[place] ^= 1 << place % 8
            both = files | {name: bytes(other)}
            for spoiling in (both, packed(both)):
                where = written(spoiling, tmp_path / f"flow-{isinstance(spoiling, bytes)}.zip")
                with pytest.raises(FileError):
                    load(where)


def test_cases_are_the_same_again(whole):
    assert spoilt(Case("flow", 3), whole) == spoilt(Case("flow", 3), whole)
    assert spoilt(Case("flow", 3), whole) != spoilt(Case("flow", 4), whole)


class TestJudge:
    """Negative controls: what must not happen is seen."""

    def test_errors_of_other_kinds(self, whole, tmp_path, monkeypatch):
        monkeypatch.setattr(stored, "DAMAGE", (ZeroDivisionError,))
        found = campaign([Case("flow", number) for number in range(40)], whole, tmp_path)
        assert Counter(told.name for _, told in found.wrong)["crashed"] > 10

    def test_errors_that_do_not_name_a_table(self, tmp_path, monkeypatch):
        monkeypatch.setattr(excel, "_DAMAGE", (ZeroDivisionError,))
        cases = [Case("table.xlsx", number) for number in range(40)]
        found = table_campaign(cases, tmp_path)
        assert Counter(told.name for _, told in found.wrong)["crashed"] > 10

    def test_what_hangs(self):
        assert outcome(lambda: time.sleep(5), limit=0.05).name == "hung"

    def test_what_takes_too_much_memory(self):
        def greedy():
            with stored.damage_named("model"):
                raise MemoryError

        assert outcome(greedy).name == "too much memory"

    @pytest.mark.parametrize(
        "code",
        [
            lambda: eval("1 + 1"),
            lambda: __import__("this_is_nowhere"),
            lambda: open("/dev/null", "w").close(),
            lambda: __import__("os").system("true"),
            lambda: __import__("socket").socket().close(),
        ],
    )
    def test_what_runs_or_writes(self, code):
        assert outcome(code).name == "did what it may not"

    def test_models_that_ask_for_too_much_are_not_counted_as_filled(self, whole, tmp_path):
        loaded = FlowImputer.load(written(whole.of("imputer")[0], tmp_path / "model"))
        assert outcome(lambda: _imputed(loaded)).name == "loaded"
        loaded.effort_ = replace(loaded.effort_, states=10_000)
        assert outcome(lambda: _imputed(loaded)).name == "loaded, not filled"

    def test_what_is_allowed(self):
        assert outcome(lambda: 1).name == "loaded"
