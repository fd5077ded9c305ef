"""LeNet learns digits, and its features tell sets of them apart."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from plmcmc.baselines import LeNet, fit_lenet, lenet, lenet_accuracy, lenet_features
from plmcmc.baselines.lenet import AT_ONCE
from plmcmc.data import DataError
from plmcmc.statistics import frechet_distance

TRAIN = 1200


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Digits of 8x8 pixels, each pixel three times as wide and as high, in a frame of two."""
    images, labels = load_digits(return_X_y=True)
    large = np.kron(images.reshape(-1, 8, 8) / 16, np.ones((3, 3)))
    return np.pad(large, ((0, 0), (2, 2), (2, 2))).astype(np.float32), labels


@pytest.fixture(scope="module")
def network(digits) -> LeNet:
    images, labels = digits
    return fit_lenet(images[:TRAIN], labels[:TRAIN], epochs=5, batch_size=16, random_state=0)


def test_it_learns_digits_that_it_has_not_seen(network, digits):
    images, labels = digits[0][TRAIN:], digits[1][TRAIN:]
    assert lenet_accuracy(network, images, labels) > 0.9


def test_it_learns_nothing_from_shuffled_labels(digits):
    """Negative control: what it gets right is no more than chance, within four deviations."""
    images, labels = digits
    shuffled = np.random.default_rng(0).permutation(labels[:TRAIN])
    fooled = fit_lenet(images[:TRAIN], shuffled, epochs=1, random_state=0)
    rows = len(labels) - TRAIN
    assert lenet_accuracy(fooled, images[TRAIN:], labels[TRAIN:]) < 0.1 + 4 * (0.09 / rows) ** 0.5


def test_features_are_the_last_hidden_layer(network, digits):
    features = lenet_features(network, digits[0][:7])
    assert features.shape == (7, 84)
    assert features.dtype == np.float64
    logits = network.classes(torch.as_tensor(features, dtype=torch.float32))
    np.testing.assert_allclose(logits, network(torch.as_tensor(digits[0][:7, None])), rtol=1e-5)


def test_features_do_not_hang_on_the_parts_they_are_found_in(network, digits):
    images = np.concatenate([digits[0], digits[0]])[: AT_ONCE + 3]
    np.testing.assert_allclose(
        lenet_features(network, images)[-3:], lenet_features(network, images[-3:]), rtol=1e-4
    )


def test_damaged_digits_are_further_off_than_other_digits(network, digits):
    one, other = (lenet_features(network, digits[0][part::2]) for part in (0, 1))
    noise = np.random.default_rng(0).random(digits[0][1::2].shape) < 0.2
    damaged = lenet_features(network, np.where(noise, 0.5, digits[0][1::2]))
    assert frechet_distance(one, damaged) > 5 * frechet_distance(one, other)


def test_the_rate_falls_to_nothing_along_a_cosine(digits, monkeypatch):
    made, rates = lenet.optimizer_of, []

    def watched(*given):
        optimizer = made(*given)
        optimizer.register_step_pre_hook(lambda own, *_: rates.append(own.param_groups[0]["lr"]))
        return optimizer

    monkeypatch.setattr(lenet, "optimizer_of", watched)
    images, labels = digits[0][:100], digits[1][:100]
    # Four batches in an epoch, the last of them small.
    fit_lenet(images, labels, epochs=3, batch_size=32, learning_rate=0.01, random_state=0)
    share = np.arange(12) / 12
    np.testing.assert_allclose(rates, 0.01 * (1 + np.cos(np.pi * share)) / 2)


def test_a_seed_repeats_itself_and_leaves_the_global_one(digits):
    images, labels = digits[0][:100], digits[1][:100]
    before = torch.get_rng_state()
    one, two, other = (fit_lenet(images, labels, epochs=1, random_state=s) for s in (0, 0, 1))
    assert (torch.get_rng_state() == before).all()
    for a, b, c in zip(one.parameters(), two.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((2, 8, 8)), "28 x 28"),
        (np.zeros((2, 28, 28, 1)), r"\(rows, height, width\)"),
        (np.full((2, 28, 28), 255.0), "divide by 255"),
        (np.full((2, 28, 28), np.nan), "image 0 has missing pixels"),
    ],
)
def test_what_are_no_digits_is_refused(images, message):
    with pytest.raises(DataError, match=message):
        fit_lenet(images, [0, 1])


@pytest.mark.parametrize("labels", [[0], [0, 10], [0, -1], [0.0, 1.0]])
def test_what_are_no_labels_is_refused(labels):
    with pytest.raises(DataError, match="labels must be 2 integers from 0 to 9"):
        fit_lenet(np.zeros((2, 28, 28)), labels)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_learns_as_well(digits):
    images, labels = digits
    options = {"epochs": 5, "batch_size": 16, "random_state": 0, "device": "cuda"}
    network = fit_lenet(images[:TRAIN], labels[:TRAIN], **options)
    assert lenet_accuracy(network, images[TRAIN:], labels[TRAIN:]) > 0.9
