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
        "train a flow on images, for plmcmc.condition to complete others",
        "Train a flow on complete images by maximum likelihood, and save it with a sheet of its "
        "samples. Training stops when images held out get no likelier, and keeps the best epoch.",
        "plmcmc fit-flow faces.zip -o faces --epochs 30 --device cuda --precision bfloat16",
        "plmcmc fit-flow train-images-idx3-ubyte.gz -o digits --flow nice",
    )
    add = command.add_argument
    add(
        "data",
        metavar="DATA",
        help="images: .npy (uint8, channels last), an IDX file as MNIST's, or a directory or .zip "
        "of pictures of one size",
    )
    add("-o", "--output", required=True, metavar="DIR", help="the directory to write")
    add("--flow", choices=("glow", "nice"), default="glow", help="its family (%(default)s)")
    _add_size(command)
    _add_training(command)
    _add_mirror(command)
    add("--bits", type=int, default=8, help="of each value; fewer are easier (%(default)s)")
    add("--first", type=int, metavar="N", help="images to take of DATA (default: all)")
    add("--test", metavar="DATA", help="images to report the bits a value of, after training")
    add("--samples", metavar="PNG", help="where the sheet of samples goes (default: DIR.png)")
    add(
        "--temperature",
        type=float,
        default=0.7,
        help="of the samples: under 1 they are more alike, and cleaner (%(default)s)",
    )
    add("--seed", type=int, default=0, metavar="S", help="random seed (%(default)s)")
    add("--device", default="cpu", help="where to work, such as cuda (%(default)s)")
    add("--overwrite", action="store_true", help="replace an output that is there")
    command.set_defaults(command=_run)


def _add_size(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--levels", type=int, help="scales of a glow (default: 3)")
    add("--steps", type=int, help="steps of a glow at each scale (default: 8)")
    add("--coupling", choices=("affine", "additive"), help="of a glow (default: affine)")
    add("--couplings", type=int, help="couplings of a nice (default: 4)")
    add("--depth", type=int, help="hidden layers of each coupling of a nice (default: 5)")
    add("--width", type=int, help="of the networks (default: glow 128, nice 1000)")


def _add_training(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--epochs", type=int, default=30, help="at most (%(default)s)")
    add("--batch-size", type=int, default=128, help="images a step (%(default)s)")
    add("--learning-rate", type=float, default=1e-3, help="at the beginning (%(default)s)")
    add(
        "--noise",
        type=float,
        default=0.0,
        help="deviation of noise added to images while training, in the flow's own units (glow: 1 "
        "is the range of values; nice: a pixel's deviation): smooths what is learned, so that "
        "chains move faster, and costs bits (%(default)s)",
    )
    add("--held-out", type=float, default=0.1, help="share of DATA to stop by (%(default)s)")
    add("--patience", type=int, default=10, help="epochs without a better one (%(default)s)")
    add(
        "--precision",
        choices=("float32", "tf32", "bfloat16"),
        default="float32",
        help="that networks compute in while training; tf32 and bfloat16 are faster on a "
        "GPU (%(default)s)",
    )
    add(
        "--compiled",
        action="store_true",
        help="let torch compile the steps: faster on a GPU after a quarter of a minute; takes a C "
        "compiler",
    )


def _add_mirror(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--mirror",
        action="store_true",
        help="learn from images turned left to right, too; not for letters and digits",
    )


def _run(arguments: argparse.Namespace) -> int:
    from plmcmc.cli.fit_flow import fit_flow_command

    fit_flow_command(arguments)
    return 0
