"""Grids of pictures: every image in its place, in its colours."""

import numpy as np
import pytest
from PIL import Image

from plmcmc.experiments.pictures import (
    COVER,
    GAP,
    LARGE,
    LEAST,
    WIDE,
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
    # Few and small: as large as they may be.
    times = LARGE // 8
    for colour, count in (((255, 0, 0), 2), ((0, 255, 0), 3)):
        rows, columns = np.nonzero((sheet == colour).all(2))
        # Give and take a pixel at each side: figures have whole dots, places on them do not.
        assert len(rows) == pytest.approx(count * (8 * times) ** 2, rel=0.05)
        assert np.ptp(columns) == pytest.approx(count * 8 * times + (count - 1) * GAP, abs=3)
    above = np.nonzero((sheet == (255, 0, 0)).all(2))[0].max()
    assert above < np.nonzero((sheet == (0, 255, 0)).all(2))[0].min()


def test_one_channel_is_grey(tmp_path):
    """As images of `plmcmc fit-flow` have it."""
    grey = np.arange(0, 250, 50, dtype=np.uint8).reshape(5, 1, 1, 1).repeat(8, 1).repeat(8, 2)
    one, same = (
        write_strips(tmp_path / f"{own.ndim}.png", [("", own)]) for own in (grey, grey[..., 0])
    )
    assert one.read_bytes() == same.read_bytes()


def size_of(path):
    with Image.open(path) as image:
        return image.size


def test_few_small_images_make_no_small_sheet(tmp_path):
    """Four patches of 4 x 4 pixels, with names above them that need room."""
    few = write_strips(tmp_path / "a.png", [("", plain((9, 9, 9), 4, 4))], ["1", "2", "3", "4"])
    assert size_of(few)[0] >= 0.95 * WIDE
    # As soon as there are many, each has its least height.
    many = write_strips(tmp_path / "b.png", [("", plain((9, 9, 9), 20, 4))])
    assert size_of(many)[0] == pytest.approx(20 * (LEAST + GAP), abs=20)
    # What is large stays as it is.
    large = write_strips(tmp_path / "c.png", [("", plain((9, 9, 9), 1, 200))])
    assert size_of(large)[1] == pytest.approx(200, abs=30)


def test_a_unit_stands_above_the_names(tmp_path):
    images, names = [("", plain((255, 0, 0), 4, 4))], ["1", "2", "3", "4"]
    bare = write_strips(tmp_path / "a.png", images, names)
    named = write_strips(tmp_path / "b.png", images, names, "flow passes")
    assert size_of(named)[1] > size_of(bare)[1] + 10
    with Image.open(named) as image:
        sheet = np.asarray(image.convert("L"))
    # Ink in the line of the unit, too, and whole: none at the sheet's rim.
    assert (sheet[: size_of(named)[1] - size_of(bare)[1]] < 128).any()
    assert (sheet[:2] == 255).all()


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
    strips = strips_of(images, 2)
    assert {name for name, _ in strips} == {""}
    assert [own.ravel().tolist() for _, own in strips] == [[0, 1], [2, 3], [4]]
