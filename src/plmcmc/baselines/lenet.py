"""LeNet-5, a classifier of digits: its last hidden layer says how far apart sets of digits are.

LeCun et al. (1998), with what has replaced its units since: rectifiers for sigmoids, maxima for
trained averages, a softmax for radial basis functions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from plmcmc.baselines.pixels import as_batch, checked_images, device_for
from plmcmc.chains import progress_bar
from plmcmc.data.incomplete import DataError
from plmcmc.flows.base import seeded
from plmcmc.rng import RandomState, generator, seed_of
from plmcmc.training.optimizers import optimizer_of
from plmcmc.training.refusal import refuse_less_than_one

SIDE, CLASSES, FEATURES = 28, 10, 84
# Images that are judged at once.
AT_ONCE = 2000


class LeNet(nn.Module):
    """Logits of ten classes from images `(rows, 1, 28, 28)` of pixels in [0, 1]."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            # Padded: the original's images have a rim of two pixels.
            nn.Conv2d(1, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.hidden = nn.Sequential(
            nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, FEATURES), nn.ReLU()
        )
        self.classes = nn.Linear(FEATURES, CLASSES)

    def features(self, images: Tensor) -> Tensor:
        """Return the last hidden layer, `(rows, 84)`."""
        return self.hidden(self.convolutions(images))

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits, `(rows, 10)`."""
        return self.classes(self.features(images))


def fit_lenet(
    images: Any,
    labels: Any,
    *,
    epochs: int = 10,
    batch_size: int = 64,
    learning_rate: float = 2e-3,
    random_state: RandomState = None,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> LeNet:
    """Train a LeNet on complete digits, and return it.

    Args:
        images: `(rows, 28, 28)`, pixels in [0, 1].
        labels: `(rows,)`, integers 0 to 9.
        epochs: passes over the images; the more, the longer the rate falls.
        batch_size: images per step.
        learning_rate: of Adam at first; it falls to nothing along a cosine.
        random_state: seed of the weights and of the shuffling.
        device: where to train; by default where the images are.
        progress: show a bar; by default on a terminal only.
    """
    refuse_less_than_one(epochs=epochs, batch_size=batch_size)
    where, seed = device_for(images, device), seed_of(random_state)
    x, y = as_batch(_digits(images), where), _classes(labels, len(images)).to(where)
    with seeded(seed):
        network = LeNet().to(where)
    optimizer = optimizer_of("adam", list(network.parameters()), learning_rate)
    steps = epochs * math.ceil(len(x) / batch_size)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    source = generator(seed, "lenet", device=where)
    with progress_bar("Training LeNet", epochs, show=progress) as report:
        for epoch in range(1, epochs + 1):
            loss = torch.zeros((), device=where)
            for batch in torch.randperm(len(x), generator=source, device=where).split(batch_size):
                optimizer.zero_grad()
                lost = functional.cross_entropy(network(x[batch]), y[batch])
                lost.backward()
                optimizer.step()
                falling.step()
                loss += lost.detach() * len(batch) / len(x)
            report(epoch, f"loss {float(loss):.4f}")
    return network.eval().requires_grad_(False)


def lenet_features(network: LeNet, images: Any) -> NDArray[np.float64]:
    """Return the last hidden layer of complete digits `(rows, 28, 28)`, as `(rows, 84)`."""
    return _in_parts(network, images, network.features).double().cpu().numpy()


def lenet_accuracy(network: LeNet, images: Any, labels: Any) -> float:
    """Return the share of digits whose class is found."""
    found = _in_parts(network, images, network).argmax(1).cpu()
    return float((found == _classes(labels, len(found))).double().mean())


@torch.no_grad()
def _in_parts(network: LeNet, images: Any, layer: Any) -> Tensor:
    where = next(network.parameters()).device
    values = _digits(images)
    starts = range(0, len(values), AT_ONCE)
    return torch.cat([layer(as_batch(values[start : start + AT_ONCE], where)) for start in starts])


def _digits(images: Any) -> NDArray[Any]:
    values, seen = checked_images(images)
    if values.shape[1:] != (SIDE, SIDE):
        raise DataError(f"LeNet takes images of 28 x 28 pixels; got shape {values.shape}")
    if not seen.all():
        row = int(np.argwhere(~seen)[0, 0])
        raise DataError(
            f"LeNet takes complete images; image {row} has missing pixels: fill it first"
        )
    return values


def _classes(labels: Any, rows: int) -> Tensor:
    found = np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels)
    whole = found.shape == (rows,) and found.dtype.kind in "iu"
    if not whole or not ((found >= 0) & (found < CLASSES)).all():
        raise DataError(
            f"labels must be {rows} integers from 0 to {CLASSES - 1}, one for each image; got "
            f"{found.dtype} of shape {found.shape}"
        )
    return torch.as_tensor(found.astype(np.int64))
