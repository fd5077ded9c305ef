"""What experiments share is made by one at a time, and by one only."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from plmcmc.experiments.cache import made_once


def test_one_of_several_makes_it(tmp_path, capsys):
    # A lock is of an open file: threads stand for processes.
    path, began = tmp_path / "deep" / "flow", Barrier(3)

    def make(_):
        began.wait()
        with made_once(path) as wanted:
            if wanted:
                time.sleep(0.3)
                path.write_text("there")
            return wanted

    with ThreadPoolExecutor(3) as threads:
        assert sorted(threads.map(make, range(3))) == [False, False, True]
    assert (
        capsys.readouterr().err.count(f"Waiting for another process that is creating {path}") == 2
    )


def test_who_fails_leaves_it_to_others(tmp_path):
    path = tmp_path / "flow"

    def fail():
        with made_once(path) as wanted:
            assert wanted
            raise FileExistsError("something else")

    for _ in range(2):
        with pytest.raises(FileExistsError, match="something else"):
            fail()
    path.write_text("there")
    with made_once(path) as wanted:
        assert not wanted
