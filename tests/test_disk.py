"""Files and directories are whole or not there, whatever goes wrong on the way."""

import errno
import os
import resource
import shutil
import stat
from contextlib import contextmanager
from pathlib import Path

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


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def part_by_part(path, content):
    with disk.writing(path) as file:
        file.write(content[:1])
        file.write(content[1:])


WAYS = [disk.write, part_by_part]


@pytest.fixture
def done(monkeypatch):
    """What goes to the disk, and what takes its place, in their order."""
    done, fsync, replace = [], os.fsync, os.replace

    def synced(handle):
        found = os.fstat(handle)
        done.append("folder" if stat.S_ISDIR(found.st_mode) else f"file of {found.st_size}")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", lambda *given: done.append("place") or replace(*given))
    return done


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

    def test_on_the_disk_before_it_takes_its_place_and_its_name_after(self, tmp_path, done):
        disk.write(tmp_path / "a", NEW)
        assert done == [f"file of {len(NEW)}", "place", "folder"]

    def test_one_written_part_by_part_too(self, tmp_path, done):
        with disk.writing(tmp_path / "a") as file:
            file.write(NEW)
        assert done == [f"file of {len(NEW)}", "place", "folder"]

    def test_none_of_several_takes_its_place_before_all_are_ready(self, tmp_path):
        disk.write(tmp_path / "a", OLD)
        with at_most(len(NEW) // 2), pytest.raises(WriteError, match="b could not be written"):
            disk.write_all({tmp_path / "a": b"small", tmp_path / "b": NEW})
        assert (tmp_path / "a").read_bytes() == OLD
        assert names(tmp_path) == ["a"]

    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
    @pytest.mark.parametrize("write", WAYS)
    def test_a_private_file_stays_private(self, write, mode, tmp_path, monkeypatch):
        seen, fresh = [], disk._fresh
        disk.write(tmp_path / "a", OLD)
        (tmp_path / "a").chmod(mode)

        def watched(temporary, path):
            file = fresh(temporary, path)
            # Before there is anything in it.
            seen.append((mode_of(temporary), temporary.stat().st_size))
            return file

        monkeypatch.setattr(disk, "_fresh", watched)
        write(tmp_path / "a", NEW)
        assert seen == [(mode, 0)]
        assert mode_of(tmp_path / "a") == mode

    @pytest.mark.parametrize("there", [False, True])
    @pytest.mark.parametrize("write", WAYS)
    def test_a_link_in_its_way_is_not_followed(self, write, there, tmp_path):
        (tmp_path / "precious").write_bytes(OLD)
        (tmp_path / "precious").chmod(0o600)
        if there:
            disk.write(tmp_path / "a", OLD)
        disk.partial_of(tmp_path / "a").symlink_to("precious")
        write(tmp_path / "a", NEW)
        assert (tmp_path / "precious").read_bytes() == OLD
        assert mode_of(tmp_path / "precious") == 0o600
        assert not (tmp_path / "a").is_symlink()
        assert (tmp_path / "a").read_bytes() == NEW

    def test_a_link_put_in_its_way_at_the_last_moment_is_not_followed(self, tmp_path, monkeypatch):
        (tmp_path / "precious").write_bytes(OLD)
        unlink = Path.unlink

        def then_linked(path, **options):
            unlink(path, **options)
            path.symlink_to("precious")

        monkeypatch.setattr(Path, "unlink", then_linked)
        with pytest.raises(WriteError, match="a could not be written"):
            disk.write(tmp_path / "a", NEW)
        assert (tmp_path / "precious").read_bytes() == OLD


class TestDirectory:
    @pytest.fixture
    def there(self, tmp_path):
        disk.write_directory(tmp_path / "model", {"x": OLD, "y": OLD})
        return tmp_path / "model"

    def test_replaces_another_whole(self, there):
        disk.write_directory(there, {"x": NEW})
        assert names(there) == ["x"]
        assert names(there.parent) == ["model"]

    def test_a_private_one_stays_private(self, there):
        (there / "x").chmod(0o600)
        there.chmod(0o750)
        disk.write_directory(there, {"x": NEW, "z": NEW})
        assert (mode_of(there), mode_of(there / "x")) == (0o750, 0o600)

    def test_on_the_disk_with_its_names_before_it_takes_its_place(self, tmp_path, done):
        disk.write_directory(tmp_path / "model", {"x": NEW, "y": OLD})
        files = [f"file of {len(NEW)}", f"file of {len(OLD)}"]
        assert done == [*files, "folder", "place", "folder"]

    def test_a_link_in_its_way_is_not_followed(self, there):
        (there.parent / "precious").mkdir()
        (there.parent / "precious" / "x").write_bytes(OLD)
        disk.partial_of(there).symlink_to("precious")
        disk.write_directory(there, {"x": NEW})
        assert not there.is_symlink()
        assert (there / "x").read_bytes() == NEW
        assert (there.parent / "precious" / "x").read_bytes() == OLD

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
        disk.partial_of(there).mkdir()
        with at_most(len(NEW) // 2), pytest.raises(WriteError):
            disk.write_directory(there, {"x": NEW})
        assert (there / "x").read_bytes() == OLD
        assert names(there.parent) == ["model"]

    def test_one_that_was_replaced_does_not_come_back(self, there):
        # Killed before the old one was gone; then somebody deleted the new one.
        shutil.copytree(there, disk.replaced_of(there))
        shutil.rmtree(there)
        assert disk.standing(there) == there
        disk.write_directory(there, {"x": NEW})
        assert (there / "x").read_bytes() == NEW
        assert names(there.parent) == ["model"]

    def test_the_old_one_stands_in_until_it_is_back(self, there, monkeypatch):
        replace = os.replace

        def once(here, to):
            if to == there:
                raise OSError(errno.EIO, "no more")
            replace(here, to)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", once)
            with pytest.raises(WriteError):
                disk.write_directory(there, {"x": NEW})
        assert (disk.standing(there) / "x").read_bytes() == OLD
        disk.tidy(there)
        assert (there / "x").read_bytes() == OLD
        assert names(there.parent) == ["model"]


class TestPlace:
    def test_one_that_cannot_be_written_to(self, tmp_path, monkeypatch):
        disk.check_directory(tmp_path / "to" / "be" / "made")
        # Root may write wherever a disk can be written to.
        monkeypatch.setattr(os, "access", lambda *given: False)
        with pytest.raises(PermissionError, match="is not writable: choose another"):
            disk.check_directory(tmp_path / "to" / "be" / "made")

    def test_a_file(self, tmp_path):
        (tmp_path / "a").write_bytes(b"")
        with pytest.raises(ValueError, match="is a file: expected a directory"):
            disk.check_directory(tmp_path / "a")
