"""The manifest: what was told of files, in whatever order workers told it."""

import pytest

from plmcmc.distributed.manifest import Manifest
from plmcmc.distributed.work_plan import Order, Source
from plmcmc.rng import PART_ROWS


def source_of(tmp_path, digest="old", rows=1):
    return Source(0, tmp_path / "a.parquet", digest, rows, [tmp_path / "b.parquet"], (1, 1))


def manifest_of(tmp_path, source):
    order = Order(tmp_path, tmp_path, None, None, None, None, (), "cpu")
    return Manifest(tmp_path / "manifest.jsonl", [source], order)


REFUSED, PART, WHOLE = (
    {"refused": 0, "problem": "bad"},
    {"part": [0, 0]},
    {"whole": 0, "written": []},
)


@pytest.mark.parametrize("lines", [[REFUSED], [PART, REFUSED], [REFUSED, PART]])
def test_a_file_that_was_refused_may_be_mended(lines, tmp_path):
    before = manifest_of(tmp_path, source_of(tmp_path))
    for line in lines:
        before.add(line)
    after = manifest_of(tmp_path, source_of(tmp_path, "mended"))
    assert not after.has(0, 0)


@pytest.mark.parametrize("lines", [[PART, REFUSED], [REFUSED, PART]])
def test_a_file_that_is_refused_no_more_may_not_change(lines, tmp_path):
    before = manifest_of(tmp_path, source_of(tmp_path))
    for line in lines:
        before.add(line)
    assert not before.begun(0)
    manifest_of(tmp_path, source_of(tmp_path))
    with pytest.raises(FileExistsError, match="has changed since"):
        manifest_of(tmp_path, source_of(tmp_path, "other"))


@pytest.mark.parametrize("lines", [[PART], [REFUSED, PART, WHOLE]])
def test_a_file_that_was_not_refused_may_not_change(lines, tmp_path):
    before = manifest_of(tmp_path, source_of(tmp_path))
    for line in lines:
        before.add(line)
    with pytest.raises(FileExistsError, match="has changed since"):
        manifest_of(tmp_path, source_of(tmp_path, "other"))


def test_whether_a_file_is_complete_is_told_without_listing_its_parts(tmp_path, monkeypatch):
    rows = 3 * PART_ROWS - 1
    source = source_of(tmp_path, rows=rows)
    assert source.part_count == len(source.parts) == 3
    manifest = manifest_of(tmp_path, source)
    monkeypatch.delattr(Source, "parts")
    for part in range(3):
        assert not manifest.complete(0)
        manifest.add({"part": [0, part]})
    assert manifest.complete(0)


def test_a_file_that_is_filled_again_is_not_written(tmp_path):
    source, part = source_of(tmp_path), tmp_path / "rows-0-0-0.parquet"
    source.places[0].write_text("done")
    before = manifest_of(tmp_path, source)
    before.add(PART)
    before.finish(0)
    assert manifest_of(tmp_path, source).stands(0, source.places)
    source.places[0].write_text("other")
    after = manifest_of(tmp_path, source)
    assert after.spoiled == source.places
    assert not after.has(0, 0)
    assert not after.begun(0)
    part.touch()
    after.add(PART)
    again = manifest_of(tmp_path, source)
    assert again.begun(0)
    assert not again.spoiled
