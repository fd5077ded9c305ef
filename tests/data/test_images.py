"""Images from files of every form, and what is said of files that hold none."""

import gzip
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from plmcmc.data import DataError, load_images, load_labels
from plmcmc.data.images import channel_axis

SHARED = Path(__file__).parents[3] / "shared" / "data"
GREY = np.random.default_rng(0).integers(0, 256, (5, 6, 4), np.uint8)
COLOUR = np.random.default_rng(1).integers(0, 256, (5, 6, 4, 3), np.uint8)


def idx(array, place, compress=True):
    content = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()
    place.write_bytes(gzip.compress(content) if compress else content)
    return place


@pytest.mark.parametrize("array", [GREY, COLOUR])
def test_arrays(array, tmp_path):
    np.save(tmp_path / "a.npy", array)
    found = load_images(tmp_path / "a.npy")
    np.testing.assert_array_equal(found, array.reshape(5, 6, 4, -1))
    np.testing.assert_array_equal(load_images(tmp_path / "a.npy", first=2), found[:2])


@pytest.mark.parametrize("compress", [True, False])
def test_mnist_s_format(compress, tmp_path):
    found = load_images(idx(GREY, tmp_path / "digits", compress), first=3)
    np.testing.assert_array_equal(found[..., 0], GREY[:3])


def test_labels(tmp_path):
    labels = np.array([7, 2, 1, 0, 9], np.uint8)
    found = load_labels(idx(labels, tmp_path / "labels"))
    assert found.tolist() == labels.tolist()
    assert found.dtype == np.int64
    with pytest.raises(DataError, match=r"expected labels, one for each image; got shape \(5, 6"):
        load_labels(idx(GREY, tmp_path / "digits"))


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("array", [GREY, COLOUR])
def test_pictures_in_the_order_of_their_names(array, packed, tmp_path):
    for number, image in enumerate(array):
        Image.fromarray(image).save(tmp_path / f"{9 - number}.png")
    (tmp_path / "notes.txt").write_text("no picture")
    place = tmp_path
    if packed:
        place = tmp_path / "all.zip"
        with zipfile.ZipFile(place, "w") as archive:
            for own in tmp_path.glob("*.*g"):
                archive.write(own, own.name)
    np.testing.assert_array_equal(load_images(place), array[::-1].reshape(5, 6, 4, -1))
    assert len(load_images(place, first=2)) == 2


def broken(tmp_path):
    """Yield files that hold no images, and what is to be said."""
    whole = idx(GREY, tmp_path / "whole", compress=False).read_bytes()
    yield "short", whole[:-1], "expected 120 bytes, got 119"
    yield "huge", struct.pack(">HBB3I", 0, 8, 3, *[2**32 - 1] * 3), "is damaged"
    yield "text", b"hello", "expected .npy, an IDX file"
    yield "empty", b"", "expected .npy, an IDX file"
    yield "cut.gz", gzip.compress(whole, mtime=0)[:-9], "is damaged"
    yield "bad.zip", b"PK", "is damaged"
    yield "bad.npy", b"\x93NUMPY", "not an array"


def test_files_that_hold_no_images(tmp_path):
    for name, content, message in broken(tmp_path):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=message):
            load_images(tmp_path / name)


def test_arrays_that_are_no_images(tmp_path):
    for array, message in (
        (GREY.astype(float), "uint8.*float64"),
        (GREY[0], "1 or 3 channels"),
        (np.zeros((5, 6, 4, 2), np.uint8), "1 or 3 channels"),
        (np.zeros((0, 6, 4), np.uint8), "1 or 3 channels"),
    ):
        np.save(tmp_path / "a.npy", array)
        with pytest.raises(DataError, match=message):
            load_images(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", np.array([{"evil": 1}], dtype=object))
    with pytest.raises(DataError, match="not an array of numbers"):
        load_images(tmp_path / "a.npy")


def test_pictures_with_more_bits_are_not_cut_off(tmp_path):
    deep = np.random.default_rng(0).integers(0, 2**16, (6, 4), np.uint16)
    Image.fromarray(deep).save(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"a.png: expected 8 bits per value; got mode I"):
        load_images(tmp_path)


def test_pictures_that_do_not_fit(tmp_path):
    with pytest.raises(DataError, match="found none"):
        load_images(tmp_path)
    Image.fromarray(GREY[0]).save(tmp_path / "a.png")
    Image.fromarray(GREY[0].T).save(tmp_path / "b.png")
    with pytest.raises(DataError, match=r"b.png: expected a picture of \(6, 4\)"):
        load_images(tmp_path)
    (tmp_path / "b.png").write_text("no picture")
    with pytest.raises(DataError, match=r"b.png is not a picture"):
        load_images(tmp_path)
    with pytest.raises(ValueError, match="at least 1"):
        load_images(tmp_path, first=0)


@pytest.mark.skipif(not SHARED.exists(), reason="needs the shared data sets")
def test_the_real_files():
    assert load_images(SHARED / "mnist" / "t10k-images-idx3-ubyte.gz").shape == (10000, 28, 28, 1)
    faces = load_images(SHARED / "faces64" / "celeba10k_64.zip", first=20)
    assert faces.shape == (20, 64, 64, 3)


def test_a_picture_that_would_fill_the_memory_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("plmcmc.data.images.LARGEST_FILE", 2**16)
    place = tmp_path / "bomb.zip"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", bytes(2**17))
    assert place.stat().st_size < 2**12
    with pytest.raises(DataError, match=r"bomb\.zip, a\.png is too large for a picture"):
        load_images(place)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((5, 3, 8, 9), 1),
        ((5, 1, 8, 9), 1),
        ((5, 8, 9, 3), 3),
        ((5, 8, 9, 1), 3),
        # Either might be: flows have them first.
        ((5, 3, 8, 3), 1),
        ((5, 1, 8, 1), 1),
        ((5, 4, 8, 9), 1),
        ((5, 8, 9), None),
        ((5, 3), None),
    ],
)
def test_the_axis_of_the_channels(shape, axis):
    assert channel_axis(shape) == axis
