"""Files and directories are whole or not there, whatever goes wrong on the way."""

import errno
import os
import resource
import stat
from contextlib import contextmanager

import pytest

from plmcmc import disk
from plmcmc.disk import WriteError

OLD, NEW = b"old", b"new" * 1000


@contextmanager
def at_most(size):
    """Let the kernel refuse files of more bytes, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def failing(number):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    return fail


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


class TestFile:
    def test_written_over_another(self, tmp_path):
        disk.write(tmp_path / "new" / "a", OLD)
        disk.write(tmp_path / "new" / "a", NEW)
        assert (tmp_path / "new" / "a").read_bytes() == NEW
        assert names(tmp_path / "new") == ["a"]

    def test_a_disk_that_is_full_half_way(self, tmp_path):
        disk.write(tmp_path / "a", OLD)
        with (
            at_most(len(NEW) // 2),
            pytest.raises(WriteError, match=r"a could not be written .*: make room there, and run"),
        ):
            disk.write(tmp_path / "a", NEW)
        assert (tmp_path / "a").read_bytes() == OLD
        assert names(tmp_path) == ["a"]

    @pytest.mark.parametrize("operation", ["fsync", "replace"])
    @pytest.mark.parametrize(
        ("number", "advice"), [(errno.ENOSPC, "make room"), (errno.EROFS, "choose a place")]
    )
    def test_each_operation(self, operation, number, advice, tmp_path, monkeypatch):
        disk.write(tmp_path / "a", OLD)
        monkeypatch.setattr(os, operation, failing(number))
        with pytest.raises(WriteError, match=advice):
            disk.write(tmp_path / "a", NEW)
        assert (tmp_path / "a").read_bytes() == OLD
        assert names(tmp_path) == ["a"]

    def test_on_the_disk_before_it_takes_its_place_and_its_name_after(self, tmp_path, monkeypatch):
        done = []
        fsync, replace = os.fsync, os.replace

        def synced(handle):
            done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
            fsync(handle)

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(os, "replace", lambda *given: done.append("place") or replace(*given))
        disk.write(tmp_path / "a", NEW)
        assert done == ["file", "place", "folder"]

    def test_none_of_several_takes_its_place_before_all_are_ready(self, tmp_path):
        disk.write(tmp_path / "a", OLD)
        with at_most(len(NEW) // 2), pytest.raises(WriteError, match="b could not be written"):
            disk.write_all({tmp_path / "a": b"small", tmp_path / "b": NEW})
        assert (tmp_path / "a").read_bytes() == OLD
        assert names(tmp_path) == ["a"]


class TestDirectory:
    @pytest.fixture
    def there(self, tmp_path):
        disk.write_directory(tmp_path / "model", {"x": OLD, "y": OLD})
        return tmp_path / "model"

    def test_replaces_another_whole(self, there):
        disk.write_directory(there, {"x": NEW})
        assert names(there) == ["x"]
        assert names(there.parent) == ["model"]

    def test_a_disk_that_is_full_half_way(self, there):
        with at_most(len(NEW) // 2), pytest.raises(WriteError, match="model could not be written"):
            disk.write_directory(there, {"x": b"small", "y": NEW})
        assert [(there / name).read_bytes() for name in "xy"] == [OLD, OLD]
        assert names(there.parent) == ["model"]

    def test_killed_between_the_old_one_s_going_and_the_new_one_s_coming(self, there):
        # What such a kill leaves: the old one elsewhere, the new one not yet in its place.
        os.replace(there, disk.replaced_of(there))
        disk.partial_of(there).mkdir()
        assert (disk.standing(there) / "x").read_bytes() == OLD
        disk.write_directory(there, {"x": NEW})
        assert (disk.standing(there) / "x").read_bytes() == NEW
        assert names(there.parent) == ["model"]

    def test_one_that_was_killed_and_then_fails_leaves_the_old_one(self, there):
        os.replace(there, disk.replaced_of(there))
        with at_most(len(NEW) // 2), pytest.raises(WriteError):
            disk.write_directory(there, {"x": NEW})
        assert (there / "x").read_bytes() == OLD
        assert names(there.parent) == ["model"]


class TestPlace:
    def test_one_that_cannot_be_written_to(self, tmp_path, monkeypatch):
        disk.check_directory(tmp_path / "to" / "be" / "made")
        # Root may write wherever a disk can be written to.
        monkeypatch.setattr(os, "access", lambda *given: False)
        with pytest.raises(PermissionError, match="cannot be written to: choose another"):
            disk.check_directory(tmp_path / "to" / "be" / "made")

    def test_a_file(self, tmp_path):
        (tmp_path / "a").write_bytes(b"")
        with pytest.raises(ValueError, match="is a file: expected a directory"):
            disk.check_directory(tmp_path / "a")
