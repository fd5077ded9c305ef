"""The options of `plmcmc fit-flow`, and what they say of themselves.

Nothing heavy is imported here: help must answer at once.
"""

from __future__ import annotations

import argparse

from plmcmc.cli.parser import Commands, added


def add_fit_flow(commands: Commands) -> None:
    """Add `plmcmc fit-flow`."""
    command = added(
        commands,
        "fit-flow",
        "train a flow on images, to complete other images with plmcmc.condition",
        "Train a flow on complete images by maximum likelihood, and save it with a sheet of its "
        "samples. Training stops when the likelihood of held-out images no longer improves; the "
        "best epoch is kept.",
        "plmcmc fit-flow faces.zip -o faces --epochs 30 --device cuda --precision bfloat16",
        "plmcmc fit-flow train-images-idx3-ubyte.gz -o digits --flow nice",
        wrong="out of memory",
    )
    add = command.add_argument
    add(
        "data",
        metavar="DATA",
        help="images: .npy (uint8, channels last), an IDX file (as used for MNIST), or a directory "
        "or .zip of pictures that all have the same size",
    )
    add("-o", "--output", required=True, metavar="DIR", help="directory to write")
    add(
        "--flow",
        choices=("glow", "nice"),
        default="glow",
        help="flow family (default: %(default)s)",
    )
    _add_size(command)
    _add_training(command)
    add(
        "--bits",
        type=int,
        default=8,
        help="bits per pixel value (1-8); fewer are easier to learn (default: %(default)s)",
    )
    add("--first", type=int, metavar="N", help="use only the first N images of DATA (default: all)")
    add("--test", metavar="DATA", help="test images on which to report bits per value")
    add("--samples", metavar="PNG", help="file for the sheet of samples (default: DIR.png)")
    add(
        "--temperature",
        type=float,
        default=0.7,
        help="sampling temperature for the sheet; below 1, samples are cleaner and less varied "
        "(default: %(default)s)",
    )
    add("--seed", type=int, default=0, metavar="S", help="random seed (default: %(default)s)")
    add("--device", default="cpu", help="device to use, such as cuda (default: %(default)s)")
    add("--overwrite", action="store_true", help="replace existing output")
    command.set_defaults(command=_run)


def _add_size(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--levels", type=int, help="number of scales of a glow (default: 3)")
    add("--steps", type=int, help="flow steps at each scale of a glow (default: 8)")
    add(
        "--coupling",
        choices=("affine", "additive"),
        help="coupling type of a glow (default: affine)",
    )
    add("--couplings", type=int, help="number of couplings of a nice (default: 4)")
    add("--depth", type=int, help="hidden layers in each coupling of a nice (default: 5)")
    add(
        "--width",
        type=int,
        help="width of the hidden layers (default: 128 for glow, 1000 for nice)",
    )


def _add_training(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--epochs", type=int, default=30, help="maximum number of epochs (default: %(default)s)")
    add(
        "--batch-size",
        type=int,
        default=128,
        help="images per training step (default: %(default)s)",
    )
    add(
        "--learning-rate",
        type=float,
        default=1e-3,
        help="initial learning rate (default: %(default)s)",
    )
    add(
        "--noise",
        type=float,
        default=0.0,
        help="standard deviation of noise added to training images, in the flow's own units (glow: "
        "1 is the full range of values; nice: one standard deviation of each pixel): smooths "
        "the learned density, so that chains move faster, but costs bits per value (default: "
        "%(default)s)",
    )
    add(
        "--held-out",
        type=float,
        default=0.1,
        help="fraction of DATA held out for early stopping (default: %(default)s)",
    )
    add(
        "--patience",
        type=int,
        default=10,
        help="stop after this many epochs without improvement (default: %(default)s)",
    )
    add(
        "--precision",
        choices=("float32", "tf32", "bfloat16"),
        default="float32",
        help="precision of the networks during training; tf32 and bfloat16 are faster on a GPU "
        "(default: %(default)s)",
    )
    add(
        "--compiled",
        action="store_true",
        help="compile the training steps with torch: faster on a GPU, after about 15 seconds of "
        "compilation; needs a C compiler",
    )
    add(
        "--mirror",
        action="store_true",
        help="also train on images mirrored left to right; not for letters or digits",
    )


def _run(arguments: argparse.Namespace) -> int:
    from plmcmc.cli.fit_flow import fit_flow_command

    fit_flow_command(arguments)
    return 0
