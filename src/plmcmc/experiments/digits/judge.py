"""How good completed digits are: reconstruction error, and the distance of a classifier's features.

Tests of one training are kept one by one: what was stopped goes on with those that are left.

Distances of features (FID) are those of a LeNet trained here, not the one of the paper, nor of
anybody else: numbers of different nets are not comparable, and nothing is rescaled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from safetensors.torch import save as packed

from plmcmc.baselines import LeNet, fit_lenet, lenet_accuracy, lenet_features
from plmcmc.data import Mechanism
from plmcmc.disk import hash_of, write
from plmcmc.experiments.cache import made_once, shared_path
from plmcmc.experiments.digits.filler import Filler
from plmcmc.experiments.sources import Digits, Pixels, enlarged
from plmcmc.experiments.study import Place
from plmcmc.statistics import (
    FeatureMoments,
    feature_moments,
    frechet_distance,
    reconstruction_rmse,
)

Scores = dict[str, float]
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

    def scores(self, completed: NDArray, observed: NDArray[np.bool_]) -> Scores:
        """Return RMSE and FID of completed digits."""
        features = lenet_features(self.network, _large(completed.astype(np.float32)))
        return {
            "RMSE": reconstruction_rmse(self.truth, completed, ~observed),
            "FID": frechet_distance(features, self.moments),
        }


def kept_scores(
    path: Path, identity: str, seeds: Sequence[int], test: Callable[[int], Scores]
) -> dict[str, list[float]]:
    """Return every score of all tests, in the order of their seeds.

    Args:
        path: where tests are kept that are done.
        identity: all that they depend on beside their seeds. Those of another are run again.
        seeds: of the tests.
        test: runs one.
    """
    done = _read(path, identity)
    for seed in map(str, seeds):
        if seed not in done:
            done[seed] = test(int(seed))
            write(path, json.dumps({"of": identity, "tests": done}).encode())
    lines = [done[str(seed)] for seed in seeds]
    return {score: [line[score] for line in lines] for score in lines[0]}


def scored(filler: Filler, judge: Judge, hide: Mechanism, seed: int) -> Scores:
    """Return how good completions of the judge's digits are, and what else is known of them."""
    observed = hide(judge.truth, seed)
    completed = filler.complete(judge.truth, observed, seed)
    found: dict[str, list[float]] = {}
    for way, digits in completed.ways:
        for score, value in judge.scores(digits, observed).items():
            found.setdefault(f"{score}{way}", []).append(value)
    scores = {key: round(float(np.mean(values)), 6) for key, values in found.items()}
    return scores | dict(completed.told)


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


def _read(path: Path, identity: str) -> dict[str, Scores]:
    if not path.exists():
        return {}
    try:
        kept = json.loads(path.read_bytes())
        return kept["tests"] if kept["of"] == identity else {}
    except (ValueError, KeyError, TypeError):
        # Ours are written whole: what else lies there is made again.
        return {}
