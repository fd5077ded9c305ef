"""Images of the experiments: from files as they are, and patches of photographs."""

import zipfile

import numpy as np
import pytest
from PIL import Image

from plmcmc.data import DataError
from plmcmc.experiments.sources import cifar, embedded_photographs, faces
from plmcmc.experiments.study import Place


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path, tmp_path, data=tmp_path)


def test_test_images_of_cifar(place):
    images = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
    (place.data / "cifar10").mkdir()
    np.save(place.data / "cifar10" / "test.npy", images)
    found = cifar(place, 3)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, images[:3])


def test_faces_come_from_an_archive_or_a_directory(place):
    folder = place.data / "faces64"
    folder.mkdir()
    for number in range(4):
        Image.new("RGB", (64, 64), (number, 0, 0)).save(folder / f"{number}.png")
    assert faces(place, 2, 2)[:, 0, 0, 0].tolist() == [2, 3]
    with pytest.raises(DataError, match="expected 5 pictures; found 4"):
        faces(place, 2, 3)
    with zipfile.ZipFile(folder / "all.zip", "w") as archive:
        for number in (3, 1):
            archive.write(folder / f"{number}.png", f"{number}.png")
    assert faces(place, 1, 1)[:, 0, 0, 0].tolist() == [3]


def test_patches_are_repeatable_and_differ_by_seed():
    one, same, other = (embedded_photographs(6, 8, seed) for seed in (0, 0, 1))
    assert one.shape == (6, 8, 8, 3)
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert ((one >= 0) & (one <= 255) & (one == one.round())).all()
