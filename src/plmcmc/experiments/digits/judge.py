"""How good completed digits are: reconstruction error, and the distance of a classifier's features.

Distances of features (FID) are those of a LeNet trained here, not the one of the paper, nor of
anybody else: numbers of different nets are not comparable, and nothing is rescaled.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from safetensors.torch import save as packed

from plmcmc.baselines import LeNet, fit_lenet, lenet_accuracy, lenet_features
from plmcmc.disk import hash_of, write
from plmcmc.experiments.cache import made_once, shared_path
from plmcmc.experiments.sources import Digits, Pixels, enlarged
from plmcmc.experiments.study import Place
from plmcmc.statistics import (
    FeatureMoments,
    feature_moments,
    frechet_distance,
    reconstruction_rmse,
)

SIDE = 28


@dataclass(frozen=True)
class Judge:
    """Judges completions of one set of test digits.

    Attributes:
        network: the classifier.
        truth: the test digits.
        moments: of their features.
        accuracy: of the classifier on them.
        name: a hash of its weights. What one classifier says is no measure for another's.
    """

    network: LeNet
    truth: Pixels
    moments: FeatureMoments
    accuracy: float
    name: str

    @classmethod
    def of(cls, digits: Digits, epochs: int, place: Place) -> Judge:
        """Return a judge whose classifier is trained once, and kept."""
        path = _classifier(digits, epochs, place)
        network = LeNet()
        network.load_state_dict(load_file(path))
        network = network.to(torch.device(place.device)).eval().requires_grad_(False)
        features = lenet_features(network, _large(digits.test))
        accuracy = lenet_accuracy(network, _large(digits.test), digits.test_labels)
        return cls(network, digits.test, feature_moments(features), accuracy, hash_of(path)[:12])

    def scores(self, completed: NDArray, observed: NDArray[np.bool_]) -> dict[str, float]:
        """Return RMSE and FID of completed digits."""
        features = lenet_features(self.network, _large(completed.astype(np.float32)))
        return {
            "RMSE": reconstruction_rmse(self.truth, completed, ~observed),
            "FID": frechet_distance(features, self.moments),
        }


def _classifier(digits: Digits, epochs: int, place: Place) -> Path:
    """Return where the classifier is, trained now or before."""
    path = shared_path(place, "lenet", epochs, digits.train, digits.train_labels)
    path = path.with_suffix(".safetensors")
    with made_once(path) as wanted:
        if wanted:
            network = fit_lenet(
                _large(digits.train),
                digits.train_labels,
                epochs=epochs,
                random_state=0,
                device=place.device,
                progress=place.progress,
            )
            write(path, packed({key: own.cpu() for key, own in network.state_dict().items()}))
    return path


def _large(digits: Pixels) -> Pixels:
    """Return digits as a LeNet takes them."""
    return digits if digits.shape[1] == SIDE else enlarged(digits)
