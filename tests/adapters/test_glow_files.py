"""Checkpoints of two public Glow projects: the same latents and densities as by their arithmetic.

The arithmetic is written down here from its description, plainly, tensor by tensor; the projects'
own modules are compared with in `benchmarks/glow_checkpoints.py`.
"""

import math
import zipfile

import pytest
import torch
from torch.nn.functional import conv2d, relu

from plmcmc.adapters.glow_files import load_glow
from plmcmc.flows import Absolute, FileError, check_flow, log_prob

LEVELS, STEPS, WIDTH, CHANNELS, SIDE = 2, 2, 6, 3, 8
SPELLINGS = {
    "y0ast": {
        "net": "block",
        "conv": ".conv",
        "top": "learn_top_fn",
        "factors": ("lower", "upper"),
    },
    "chaiyujin": {"net": "f", "conv": "", "top": "learn_top", "factors": ("l", "u")},
}


def checkpoint(spelling, *, affine=True, triangular=True, seed=0):
    """Return random weights under a project's names."""
    own, source, found = SPELLINGS[spelling], torch.Generator().manual_seed(seed), {}

    def put(name, *shape, scale=0.1):
        found[name] = scale * torch.randn(*shape, generator=source)

    def zero(name, inputs, outputs):
        put(f"{name}{own['conv']}.weight", outputs, inputs, 3, 3)
        put(f"{name}{own['conv']}.bias", outputs)
        put(f"{name}.logs", outputs, 1, 1)

    channels, place = CHANNELS, 0
    for level in range(LEVELS):
        channels *= 4
        for _ in range(STEPS):
            place += 1
            at, net = f"flow.layers.{place}", f"flow.layers.{place}.{own['net']}"
            put(f"{at}.actnorm.bias", 1, channels, 1, 1)
            put(f"{at}.actnorm.logs", 1, channels, 1, 1)
            put(f"{at}.invconv.weight", channels, channels)
            # Near a reflection, whose factors have signs and an order.
            found[f"{at}.invconv.weight"] += torch.eye(channels).flip(0)
            if triangular:
                p, lower, upper = torch.linalg.lu(found.pop(f"{at}.invconv.weight"))
                sizes = upper.diagonal()
                found |= {f"{at}.invconv.p": p, f"{at}.invconv.sign_s": sizes.sign()}
                found[f"{at}.invconv.log_s"] = sizes.abs().log()
                found |= {
                    f"{at}.invconv.{name}": part
                    for name, part in zip(own["factors"], (lower, upper), strict=True)
                }
            for number, (inputs, size) in ((0, (channels // 2, 3)), (2, (WIDTH, 1))):
                put(f"{net}.{number}{own['conv']}.weight", WIDTH, inputs, size, size)
                put(f"{net}.{number}.actnorm.bias", 1, WIDTH, 1, 1)
                put(f"{net}.{number}.actnorm.logs", 1, WIDTH, 1, 1)
            zero(f"{net}.4", WIDTH, channels if affine else channels // 2)
        place += 1
        if level < LEVELS - 1:
            zero(f"flow.layers.{place}.conv", channels // 2, channels)
            channels //= 2
        place += 1
    zero(own["top"], 2 * channels, 2 * channels)
    side = SIDE // 2**LEVELS
    found["prior_h"] = torch.zeros(1, 2 * channels, side, side)
    return found


def encoded(weights, spelling, x):
    """Return the deepest latents and the log-density of images, by the projects' arithmetic."""
    own, total, place = SPELLINGS[spelling], torch.zeros(len(x)), 0

    def zero(name, y):
        y = conv2d(y, weights[f"{name}{own['conv']}.weight"], padding=1)
        y = y + weights[f"{name}{own['conv']}.bias"][:, None, None]
        return y * (3 * weights[f"{name}.logs"]).exp()

    def normal(y, mean, logs):
        terms = -0.5 * (2 * logs + (y - mean) ** 2 / (2 * logs).exp() + math.log(2 * math.pi))
        return terms.sum((1, 2, 3))

    for level in range(LEVELS):
        rows, channels, height, width = x.shape
        x = x.reshape(rows, channels, height // 2, 2, width // 2, 2).permute(0, 1, 3, 5, 2, 4)
        x = x.reshape(rows, 4 * channels, height // 2, width // 2)
        for _ in range(STEPS):
            place += 1
            at, net = f"flow.layers.{place}", f"flow.layers.{place}.{own['net']}"
            logs = weights[f"{at}.actnorm.logs"]
            x = (x + weights[f"{at}.actnorm.bias"]) * logs.exp()
            total = total + logs.sum() * x[0, 0].numel()
            matrix = weights.get(f"{at}.invconv.weight")
            if matrix is None:
                lower, upper = (weights[f"{at}.invconv.{name}"] for name in own["factors"])
                sizes = weights[f"{at}.invconv.sign_s"] * weights[f"{at}.invconv.log_s"].exp()
                lower = lower.tril(-1) + torch.eye(len(lower))
                matrix = weights[f"{at}.invconv.p"] @ lower @ (upper.triu(1) + sizes.diag())
            x = torch.einsum("ij,njhw->nihw", matrix, x)
            total = total + torch.linalg.slogdet(matrix)[1] * x[0, 0].numel()
            given, moved = x.chunk(2, 1)
            y = given
            for number in (0, 2):
                kernel = weights[f"{net}.{number}{own['conv']}.weight"]
                y = conv2d(y, kernel, padding=kernel.shape[2] // 2)
                y = y + weights[f"{net}.{number}.actnorm.bias"]
                y = relu(y * weights[f"{net}.{number}.actnorm.logs"].exp())
            y = zero(f"{net}.4", y)
            if y.shape[1] == moved.shape[1]:
                moved = moved + y
            else:
                scale = torch.sigmoid(y[:, 1::2] + 2)
                moved = (moved + y[:, 0::2]) * scale
                total = total + scale.log().sum((1, 2, 3))
            x = torch.cat([given, moved], 1)
        place += 1
        if level < LEVELS - 1:
            x, left = x.chunk(2, 1)
            h = zero(f"flow.layers.{place}.conv", x)
            total = total + normal(left, h[:, 0::2], h[:, 1::2])
        place += 1
    mean, logs = zero(own["top"], weights["prior_h"]).chunk(2, 1)
    return x, total + normal(x, mean, logs)


@pytest.fixture
def saved(tmp_path):
    def save(content):
        torch.save(content, tmp_path / "checkpoint")
        return tmp_path / "checkpoint"

    return save


def images(rows=5):
    source = torch.Generator().manual_seed(1)
    return torch.randint(256, (rows, SIDE, SIDE, CHANNELS), generator=source).float()


@pytest.mark.parametrize("triangular", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_latents_and_densities_are_the_projects(spelling, affine, triangular, saved):
    weights = checkpoint(spelling, affine=affine, triangular=triangular)
    whole = weights if spelling == "y0ast" else {"graph": weights, "global_step": 7}
    flow, x = load_glow(saved(whole)), images()
    first = x.permute(0, 3, 1, 2)
    first = (first + 0.5) / 256 - 0.5 if spelling == "y0ast" else first / 255
    deepest, density = encoded(weights, spelling, first)
    found = Absolute(flow.flow).to_latent(first)[0][:, -deepest[0].numel() :]
    torch.testing.assert_close(found, deepest.flatten(1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(log_prob(flow.flow, first).float(), density, rtol=1e-4, atol=1e-2)
    unit = math.log(256 if spelling == "y0ast" else 255) * first[0].numel()
    torch.testing.assert_close(log_prob(flow, x).float(), density - unit, rtol=1e-4, atol=1e-2)
    torch.testing.assert_close(flow.to_data(flow.to_latent(x)[0])[0], x, rtol=0, atol=0.05)


def test_what_was_read_keeps_a_flows_promises(saved):
    flow = load_glow(saved(checkpoint("y0ast")))
    assert check_flow(flow, images()).skipped == ()


def test_what_was_read_is_not_normed_again(saved):
    assert load_glow(saved(checkpoint("y0ast"))).flow.met


def test_prefixes_of_parallel_training_are_dropped(saved):
    weights = checkpoint("y0ast")
    plain, wrapped = (
        load_glow(saved(content))
        for content in (weights, {"model": {f"module.{k}": v for k, v in weights.items()}})
    )
    x = images()
    assert torch.equal(plain.to_latent(x)[0], wrapped.to_latent(x)[0])


FIRST = "flow.layers.1.block.0.conv.weight"


class Hostile:
    """Runs code where it is unpickled."""

    def __reduce__(self):
        return (print, ("this must not run",))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: {}, "is not a checkpoint of y0ast"),
        (lambda w: [1, 2], "is not a checkpoint of y0ast"),
        (lambda w: w | {"project_ycond.linear.weight": torch.zeros(1)}, "class-conditional"),
        (
            lambda w: {k: v for k, v in w.items() if "invconv" not in k},
            "without recording the order",
        ),
        (lambda w: {k: v for k, v in w.items() if k != "prior_h"}, "is incomplete"),
        (lambda w: {k: v for k, v in w.items() if "block.2" not in k}, "is incomplete"),
        (lambda w: w | {"flow.layers.1.actnorm.bias": torch.zeros(1, 8, 1, 1)}, "is incomplete"),
        (lambda w: w | {"evil": Hostile()}, "as a file of plain tensors"),
        # One number, told a billion times.
        (lambda w: w | {"more": torch.zeros(1).expand(10**9)}, "tensors claim 4000"),
        (lambda w: w | {FIRST: torch.zeros(3000, 6, 3, 3)}, "is incomplete: its first layer"),
    ],
)
def test_files_that_cannot_be_read(change, message, saved, capsys):
    with pytest.raises(FileError, match=message):
        load_glow(saved(change(checkpoint("y0ast"))))
    assert "this must not run" not in capsys.readouterr().out


def test_a_file_that_was_compressed(saved, tmp_path):
    path = saved(checkpoint("y0ast"))
    with (
        zipfile.ZipFile(path) as own,
        zipfile.ZipFile(tmp_path / "small.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in own.namelist():
            packed.writestr(name, own.read(name))
    with pytest.raises(FileError, match="in it is compressed: save it with torch"):
        load_glow(tmp_path / "small.pt")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_glow(tmp_path / "nothing")
    (tmp_path / "text").write_text("no tensors")
    with pytest.raises(FileError, match="cannot be read"):
        load_glow(tmp_path / "text")
