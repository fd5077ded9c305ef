"""`plmcmc fit-flow`: images in, a flow and a sheet of its samples out."""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plmcmc import __version__
from plmcmc.chains import described
from plmcmc.cli.request import (
    check_device,
    check_model_place,
    check_seed,
)
from plmcmc.cli.say import say, warnings_in_words
from plmcmc.data import Incomplete, load_images, observed_moments
from plmcmc.disk import check_directory
from plmcmc.experiments.pictures import as_bytes, strips_of, write_strips
from plmcmc.flows import (
    NICE,
    ChannelsFirst,
    Dequantise,
    Flatten,
    Glow,
    Preprocessed,
    Whiten,
    log_prob,
    sample,
    save,
)
from plmcmc.tables.claims import is_ours
from plmcmc.tables.job import claimed_places, part_of, working
from plmcmc.tables.places import check_free
from plmcmc.training import Fitted, bits_per_value, fit_flow

Images = NDArray[np.uint8]
# Options that one family has, and their defaults.
SIZES = {
    "glow": {"levels": 3, "steps": 8, "coupling": "affine", "width": 128},
    "nice": {"couplings": 4, "depth": 5, "width": 1000},
}
# Deviations of pixels at the rim are next to nothing; whitening must not blow them up.
PIXEL_FLOOR = 0.02
SAMPLES, ACROSS = 64, 8
# Images whose bits are counted at once.
AT_ONCE = 256


def fit_flow_command(arguments: Namespace) -> None:
    """Train a flow on images, and save it."""
    began = time.perf_counter()
    place = Path(arguments.output)
    sheet = Path(arguments.samples or f"{place}.png")
    part = part_of(place, several=False)
    # What stands there may be this very job's, stopped while it wrote it.
    ours = claimed_places(part)
    overwrite = arguments.overwrite or is_ours(place, ours)
    size = _checked(arguments, place, sheet, overwrite=overwrite)
    check_free([sheet], overwrite=arguments.overwrite, ours=ours)
    images = _read(arguments.data, arguments.bits, arguments.first)
    test = _read(arguments.test, arguments.bits) if arguments.test else None
    if test is not None and test.shape[1:] != images.shape[1:]:
        raise ValueError(
            f"{arguments.test}: expected images of {images.shape[1:]}, as in {arguments.data}; "
            f"got {test.shape[1:]}"
        )
    flow = _built(arguments.flow, size, images, arguments.bits, arguments.seed)
    weights = sum(p.numel() for p in flow.flow.parameters())
    rows, *shape = images.shape
    say(f"{rows:,} images of {' x '.join(map(str, shape))}; {weights:,} trainable weights.")
    identity = _identity(arguments, size, images)
    with (
        warnings_in_words(),
        working(part, identity, overwrite=arguments.overwrite, tell=say) as job,
    ):
        fitted = _trained(flow.to(arguments.device), images, arguments, job.checkpoint)
        _tell(fitted, images)
        if test is not None:
            found = bits_per_value(_likelihood(fitted.flow, test), test[0].size)
            say(f"Images of {arguments.test}: {found:.3f} bits per value.")
        source = torch.Generator(arguments.device).manual_seed(arguments.seed)
        with torch.no_grad():
            drawn = sample(fitted.flow, SAMPLES, source, temperature=arguments.temperature)
        # Somebody may have put something there meanwhile.
        check_model_place(place, "flow", overwrite=overwrite)
        check_free([sheet], overwrite=arguments.overwrite, ours=ours)
        job.claim([sheet, place])
        shown = as_bytes(drawn.cpu().numpy(), 2**arguments.bits - 1)
        write_strips(sheet, strips_of(shown, ACROSS))
        save(fitted.flow.cpu(), place, overwrite=overwrite)
    say(f"Written: {place} (load it with plmcmc.load)\nWritten: {sheet}")
    say(f"{time.perf_counter() - began:.1f} s in all.")


def _checked(
    arguments: Namespace, place: Path, sheet: Path, *, overwrite: bool
) -> dict[str, int | str]:
    """Refuse what cannot be done before any work; return the flow's size."""
    check_seed(arguments.seed)
    check_device(arguments.device)
    if not 1 <= arguments.bits <= 8:
        raise ValueError(f"--bits must be 1 to 8; got {arguments.bits}")
    if not arguments.temperature > 0:
        raise ValueError(f"--temperature must be above 0; got {arguments.temperature}")
    if sheet.suffix.lower() != ".png":
        raise ValueError(f"--samples {sheet}: expected a file name that ends in .png")
    check_model_place(place, "flow", overwrite=overwrite)
    check_directory(place.parent)
    size = dict(SIZES[arguments.flow])
    for option in {name for own in SIZES.values() for name in own}:
        given = getattr(arguments, option)
        if given is not None and option not in size:
            raise ValueError(f"--{option} does not apply to --flow {arguments.flow}: leave it out")
        size |= {} if given is None else {option: given}
    return size


def _read(path: str, bits: int, first: int | None = None) -> Images:
    return load_images(path, first=first) // np.uint8(2 ** (8 - bits))


def _built(
    family: str, size: dict[str, int | str], images: Images, bits: int, seed: int
) -> Preprocessed:
    """Return a flow of images as they are."""
    height, width, channels = images.shape[1:]
    integers = Dequantise(2**bits)
    options: dict = {**size, "random_state": seed}
    if family == "glow":
        centre = Whiten(torch.full((1,), 0.5), torch.ones(1))
        inner = Glow((channels, height, width), **options)
        return Preprocessed([integers, centre, ChannelsFirst()], inner)
    shares = ((images + 0.5) / 2**bits).astype(np.float32)
    moments = observed_moments(Incomplete.of(shares), floor=PIXEL_FLOOR)
    inner = NICE(height * width * channels, latent="logistic", **options)
    return Preprocessed([integers, Whiten(*moments), Flatten(images.shape[1:])], inner)


def _trained(flow: Preprocessed, images: Images, arguments: Namespace, checkpoint: Path) -> Fitted:
    return fit_flow(
        flow,
        images.astype(np.float32),
        epochs=arguments.epochs,
        batch_size=arguments.batch_size,
        learning_rate=arguments.learning_rate,
        weight_decay=0.0,
        noise=arguments.noise,
        precision=arguments.precision,
        compiled=arguments.compiled,
        augment=_mirrored if arguments.mirror else None,
        held_out=arguments.held_out,
        patience=arguments.patience,
        random_state=arguments.seed,
        checkpoint=checkpoint,
    )


def _mirrored(images: Tensor, source: torch.Generator) -> Tensor:
    """Return images, each turned left to right or not."""
    turned = torch.rand(len(images), generator=source, device=source.device).to(images.device) < 0.5
    return torch.where(turned[:, None, None, None], images.flip(2), images)


def _identity(arguments: Namespace, size: dict[str, int | str], images: Images) -> dict:
    options = ("flow", "bits", "epochs", "batch_size", "learning_rate", "held_out", "patience")
    options += ("precision", "compiled", "mirror", "noise", "seed", "device")
    return {
        "command": "fit-flow",
        "plmcmc": __version__,
        "data": described(images),
        **{name.replace("_", "-"): getattr(arguments, name) for name in options},
        **size,
    }


def _tell(fitted: Fitted, images: Images) -> None:
    epochs, values = len(fitted.train), images[0].size
    if np.isnan(fitted.held_out[-1]):
        say(f"{epochs} epochs; {bits_per_value(fitted.train[-1], values):.3f} bits per value.")
        return
    best = bits_per_value(fitted.held_out[fitted.best_epoch - 1], values)
    words = f"best epoch {fitted.best_epoch}: {best:.3f} bits per value on held-out images."
    say(f"{epochs} epochs; {words}")


@torch.no_grad()
def _likelihood(flow: Preprocessed, images: Images) -> float:
    """Return the mean log-likelihood of images, each integer spread over its bin once."""
    device = next(flow.parameters()).device
    source = torch.Generator(device).manual_seed(0)
    found = []
    for part in torch.as_tensor(images).split(AT_ONCE):
        x, log_det = flow.prepare(part.to(device).float(), source)
        found.append(log_prob(flow.flow, x) + log_det)
    return float(torch.cat(found).mean())
