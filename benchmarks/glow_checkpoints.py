"""Do checkpoints of the two public Glow projects come out the same in ours?

    python benchmarks/glow_checkpoints.py --y0ast DIR --chaiyujin DIR

DIR: clones of y0ast/Glow-PyTorch and of chaiyujin/glow-pytorch (which wants tqdm). Builds each
project's own modules with random weights, norms them by a batch, saves them in the project's
format, reads that with `plmcmc.load_glow`, and compares latents and log-likelihoods. Prints the
largest differences, and what each project's own decoding makes of its own latents.
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from plmcmc.adapters.glow_files import load_glow
from plmcmc.flows import Absolute, log_prob

SHAPES = {"y0ast": (32, 32, 3), "chaiyujin": (64, 64, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in SHAPES:
        parser.add_argument(f"--{name}", type=Path, help="directory of the project")
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--width", type=int, default=512)
    arguments = parser.parse_args()
    print("| project | coupling | factors | latents | log-likelihood | round trip: theirs | ours |")
    print("|---|---|---|---|---|---|---|")
    for name in SHAPES:
        place = getattr(arguments, name)
        if place is None:
            continue
        sys.path.insert(0, str(place))
        for coupling in ("affine", "additive"):
            for factors in (True, False):
                compare(name, coupling, factors, arguments)
        sys.path.remove(str(place))


def compare(name, coupling, factors, arguments) -> None:
    torch.manual_seed(0)
    theirs = BUILDERS[name](coupling, factors, arguments)
    height, width, channels = SHAPES[name]
    images = torch.randint(256, (8, height, width, channels)).float()
    flat = images.permute(0, 3, 1, 2)
    x = (flat + 0.5) / 256 - 0.5 if name == "y0ast" else flat / 255
    with torch.no_grad():
        for parameter in theirs.flow.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
        theirs.train().flow.encode(x.clone(), 0.0)
        theirs.eval()
        z, objective = theirs.flow.encode(x.clone(), torch.zeros(len(x)))
        mean, logs = theirs.prior(x) if name == "y0ast" else theirs.prior()
        top = -0.5 * (2 * logs + (z - mean) ** 2 / (2 * logs).exp() + math.log(2 * math.pi))
        expected = (objective + top.sum((1, 2, 3))).double()
        own = {"temperature": 1.0} if name == "y0ast" else {"eps_std": 1.0}
        back = (theirs.flow.decode(z.clone(), **own) - x).abs().max()
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "checkpoint"
        state = theirs.state_dict()
        torch.save(state if name == "y0ast" else {"graph": state, "global_step": 1}, path)
        flow = load_glow(path)
    with torch.no_grad():
        ours: Any = flow.flow
        deepest = Absolute(ours).to_latent(x)[0][:, -ours.sizes[-1] :].reshape(z.shape)
        gap = (log_prob(ours, x) - expected).abs().max()
        again = (flow.to_data(flow.to_latent(images)[0])[0] - images).abs().max() / 256
    words = [name, coupling, "LU" if factors else "full", f"{(deepest - z).abs().max():.1e}"]
    words += [f"{gap:.1e} of {expected.abs().max():.1e}", f"{back:.1e}", f"{again:.1e}"]
    print(f"| {' | '.join(words)} |", flush=True)


def y0ast(coupling, factors, arguments):
    model = importlib.import_module("model")
    return model.Glow(
        SHAPES["y0ast"], arguments.width, arguments.steps, 3, 1.0, "invconv", coupling, factors,
        10, True, False,
    )  # fmt: skip


def chaiyujin(coupling, factors, arguments):
    models = importlib.import_module("glow.models")
    glow = SimpleNamespace(
        image_shape=SHAPES["chaiyujin"], hidden_channels=arguments.width, K=arguments.steps, L=3,
        actnorm_scale=1.0, flow_permutation="invconv", flow_coupling=coupling,
        LU_decomposed=factors, learn_top=False, y_condition=False, y_classes=40,
    )  # fmt: skip
    return models.Glow(
        SimpleNamespace(
            Glow=glow,
            Device=SimpleNamespace(glow=["cpu"]),
            Train=SimpleNamespace(batch_size=8),
        )
    )


BUILDERS = {"y0ast": y0ast, "chaiyujin": chaiyujin}

if __name__ == "__main__":
    main()
