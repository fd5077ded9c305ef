"""Grids of pictures: every image in its place, in its colours."""

import numpy as np
import pytest
from PIL import Image

from plmcmc.experiments.pictures import (
    COVER,
    GAP,
    LEAST,
    as_bytes,
    covered,
    strips_of,
    write_strips,
)


def plain(colour, count=2, side=8):
    return np.broadcast_to(np.array(colour, np.uint8), (count, side, side, 3))


def test_images_stand_where_they_belong_pixel_by_pixel(tmp_path):
    red, green = plain((255, 0, 0)), plain((0, 255, 0), count=3)
    path = write_strips(tmp_path / "a.png", [("red", red), ("green", green)], ["1", "2", "3"])
    sheet = np.asarray(Image.open(path).convert("RGB"))
    times = LEAST // 8
    for colour, count in (((255, 0, 0), 2), ((0, 255, 0), 3)):
        rows, columns = np.nonzero((sheet == colour).all(2))
        # Give and take a pixel at each side: figures have whole dots, places on them do not.
        assert len(rows) == pytest.approx(count * (8 * times) ** 2, rel=0.05)
        assert np.ptp(columns) == pytest.approx(count * 8 * times + (count - 1) * GAP, abs=3)
    above = np.nonzero((sheet == (255, 0, 0)).all(2))[0].max()
    assert above < np.nonzero((sheet == (0, 255, 0)).all(2))[0].min()


def test_grey_and_colour_may_stand_together_other_sizes_may_not(tmp_path):
    grey = np.zeros((2, 8, 8), np.uint8)
    write_strips(tmp_path / "a.png", [("", grey), ("", plain((9, 9, 9)))])
    with pytest.raises(ValueError, match="one size"):
        write_strips(tmp_path / "b.png", [("", grey), ("", grey[:, :4])])
    with pytest.raises(ValueError, match=r"one size; got \[\]"):
        write_strips(tmp_path / "b.png", [])


@pytest.mark.parametrize("shape", [(1, 2, 2), (1, 2, 2, 3)])
def test_what_is_not_seen_is_covered(shape):
    observed = np.ones(shape, bool)
    observed[0, 0, 1] = False
    shown = covered(np.full(shape, 7, np.uint8), observed)
    assert shown.shape == (1, 2, 2, 3)
    assert tuple(shown[0, 0, 1]) == COVER
    assert (shown[0, 1] == 7).all()


def test_values_beyond_the_range_are_shown_at_its_end():
    assert as_bytes(np.array([-5.0, 31.0, 40.0, np.inf, np.nan]), 31).tolist() == [
        0,
        255,
        255,
        255,
        0,
    ]


def test_many_images_are_cut_into_strips():
    images = np.arange(5, dtype=np.uint8).reshape(5, 1, 1)
    strips = strips_of(images, 2, "first")
    assert [name for name, _ in strips] == ["first", "", ""]
    assert [own.ravel().tolist() for _, own in strips] == [[0, 1], [2, 3], [4]]
