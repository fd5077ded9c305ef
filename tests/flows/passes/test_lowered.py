"""Flows in a lower precision: nearly the same, and still flows."""

import math
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import torch

import plmcmc
from flow_cases import shaken
from plmcmc.flows import (
    NICE,
    Glow,
    Linear,
    Preprocessed,
    RealNVP,
    Whiten,
    full_precision,
    home,
    lowered,
    sample,
)
from plmcmc.flows.passes.arithmetic import rounded_products
from plmcmc.flows.passes.grid import BITS, on_grid, step_for
from plmcmc.flows.passes.lowered import WIDTH, _Lowered, is_lowered
from plmcmc.flows.passes.products import Product

FLOWS = {
    "nice": lambda: NICE(7, width=20, depth=2, latent="logistic", random_state=0),
    "realnvp": lambda: RealNVP(7, width=20, depth=2, activation="silu", random_state=0),
}


def built(name):
    inner = shaken(FLOWS[name](), 0.1).eval()
    return Preprocessed([Whiten(torch.ones(7), torch.full((7,), 2.0))], inner).eval()


def drawn(flow, rows=200):
    with torch.no_grad():
        return sample(flow, rows, torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", FLOWS)
@pytest.mark.parametrize(("precision", "tolerance"), [("tf32", 1e-4), ("bfloat16", 0.05)])
def test_nearly_the_same_flow(name, precision, tolerance):
    flow = built(name)
    other, x = lowered(flow, precision), drawn(flow)
    with torch.no_grad():
        (z, log_det), (low, low_det) = flow.to_latent(x), other.to_latent(x)
    assert low.dtype == torch.float32
    assert low_det.dtype == torch.float64
    torch.testing.assert_close(low, z, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(low_det, log_det, rtol=tolerance, atol=5 * tolerance)


def test_bfloat16_rounds_and_comes_back():
    flow = built("realnvp")
    other, x = lowered(flow, "bfloat16"), drawn(flow)
    with torch.no_grad():
        z = other.to_latent(x)[0]
        back = other.to_data(z)[0]
        assert not torch.equal(z, flow.to_latent(x)[0])
    # A row whose half came back different in its last bit may be rounded the other way.
    off = (back - x).abs().amax(1)
    assert float((off < 1e-4).double().mean()) > 0.9
    assert float(off.max()) < 0.1


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e4])
@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
def test_additive_couplings_come_back_exactly(precision, unit):
    flow = shaken(NICE(40, width=60, depth=3, latent="logistic", random_state=0), 0.15).eval()
    with torch.no_grad():
        flow.log_scale.sub_(math.log(unit))
        for first, last in ((shift[0], shift[-1]) for shift in flow.shifts):
            # The same flow of data in another unit.
            first.weight.div_(unit)
            last.weight.mul_(unit)
            last.bias.mul_(unit)
    other = lowered(flow, precision)
    x = on_grid(drawn(flow, 500), other.grid_step)
    with torch.no_grad():
        z = other.to_latent(x)[0]
        assert not torch.equal(z, flow.to_latent(x)[0])
        assert torch.equal(other.to_data(z)[0], x)
        # Negative control: without the grid, some rows are rounded the other way.
        plain = deepcopy(flow)
        plain.shifts = torch.nn.ModuleList(_Lowered(own, precision) for own in flow.shifts)
        off = (plain.to_data(plain.to_latent(x)[0])[0] - x).abs().amax(1)
    assert float(off.max()) / unit > (1e-3 if precision == "bfloat16" else 0)


def test_slopes_do_not_see_the_grid():
    x = torch.tensor([0.3, -1.7]).requires_grad_()
    step, rounded = 0.25, partial(on_grid, step=0.25)
    found, slope = torch.func.jvp(rounded, (x,), (torch.ones(2),))
    assert torch.equal(slope, torch.ones(2))
    assert not torch.equal(found, x)
    assert float((found - x).detach().abs().max()) <= step / 2
    assert torch.equal(found / step, (found / step).round())
    assert torch.equal(torch.autograd.grad(rounded(x).sum(), x)[0], torch.ones(2))
    assert torch.equal(torch.func.vmap(rounded)(x), found)


def test_hidden_layers_are_widened_by_nothing():
    low = lowered(built("nice"), "tf32")
    parts = [part for part in low.modules() if isinstance(part, _Lowered)]
    assert len(parts) == 4
    assert {tuple(part.layers[1].weight.shape) for part in parts} == {(WIDTH, WIDTH)}
    assert home(low).dtype == torch.float32


def test_the_flow_itself_stays_as_it_was():
    flow = built("nice")
    before = {key: value.clone() for key, value in flow.state_dict().items()}
    lowered(flow, "bfloat16")
    assert lowered(flow, "float32") is flow
    after = flow.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)


def test_what_cannot_be_lowered_says_so():
    with pytest.raises(ValueError, match="precision must be one of"):
        lowered(built("nice"), "float16")
    for flow in (Linear(3), Glow((1, 4, 4), levels=1, steps=1, width=4, random_state=0)):
        with pytest.raises(TypeError, match=r"NICE, RealNVP\); got (Linear|Glow)"):
            lowered(flow, "bfloat16")


def test_a_lowered_flow_is_not_saved(tmp_path):
    with pytest.raises(TypeError, match="lower precision"):
        plmcmc.save(lowered(built("nice"), "bfloat16"), tmp_path / "flow")
    assert not (tmp_path / "flow").exists()


@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
def test_conditionals_take_a_precision(precision):
    flow = built("realnvp")
    x = drawn(flow, 6).numpy()
    x[:, 2:5] = np.nan
    posterior = plmcmc.condition(flow, x, precision=precision)
    assert is_lowered(posterior.flow)
    draws = posterior.sample(75, chains=16, random_state=0)
    expected = plmcmc.condition(flow, x).sample(75, chains=16, random_state=1)
    spread = expected.std()[:, 2:5]
    # Means of 1,200 draws each, dependent ones: worth 100 at the least.
    off = (draws.mean() - expected.mean())[:, 2:5] / spread
    assert float(np.abs(off).max()) < 4 * np.sqrt(2 / 100)
    assert np.array_equal(draws.values[..., :2], np.broadcast_to(x[:, :2], (16, 75, 6, 2)))


@pytest.mark.parametrize("rectified", [False, True])
def test_products_have_both_slopes(rectified):
    torch.manual_seed(0)
    x, weight = torch.randn(4, 3).double().requires_grad_(), torch.randn(5, 3).double()
    bias = torch.randn(5).double()
    found = Product.apply(x, weight, bias, rectified)
    expected = torch.nn.functional.linear(x, weight, bias)
    assert bool((expected < 0).any())
    torch.testing.assert_close(found, expected.relu() if rectified else expected)
    assert torch.autograd.gradcheck(
        lambda x: Product.apply(x, weight, bias, rectified),
        (x,),
        check_forward_ad=True,
        check_backward_ad=True,
    )


def test_rounding_ends_with_its_context():
    switch = torch.backends.cuda.matmul
    if not hasattr(switch, "fp32_precision"):
        pytest.skip("this torch has the older switch")
    before = switch.fp32_precision
    with full_precision():
        assert switch.fp32_precision == "ieee"
        with rounded_products():
            assert switch.fp32_precision == "tf32"
        assert switch.fp32_precision == "ieee"
    assert switch.fp32_precision == before


def test_flows_in_float64_take_a_precision_too():
    flow = built("nice").double()
    x = drawn(flow, 3)
    for precision in ("tf32", "bfloat16"):
        assert lowered(flow, precision).to_latent(x)[0].dtype == torch.float64


def test_no_flow_is_lowered_twice():
    with pytest.raises(TypeError, match="already"):
        lowered(lowered(built("nice"), "bfloat16"), "tf32")


@pytest.mark.parametrize("largest", [0.3, 1.0, 5.0, 900.0])
def test_a_grid_leaves_room_above_the_largest_samples(largest):
    step = step_for(torch.tensor([0.1, -largest]))
    assert step == 2.0 ** (math.ceil(math.log2(largest)) - BITS)
    source = torch.Generator().manual_seed(0)
    # Sums of four such numbers are exact; on a grid of all 24 bits they would not be.
    parts = on_grid(largest * (2 * torch.rand(4, 1000, generator=source) - 1), step)
    exact = parts.double().sum(0)
    assert torch.equal(parts.sum(0).double(), exact)
    fine = on_grid(largest * (2 * torch.rand(4, 1000, generator=source) - 1), step / 2**3)
    assert not torch.equal(fine.sum(0).double(), fine.double().sum(0))


def test_a_grid_is_of_both_ends_of_the_couplings():
    flow = shaken(NICE(8, width=10, depth=1, random_state=0), 0.1).eval()
    near = lowered(flow, "tf32").grid_step
    with torch.no_grad():
        # Latents are where they were; data lie far away.
        flow.shifts[-1][-1].bias.add_(1000.0)
    assert lowered(flow, "tf32").grid_step >= 2.0 ** (10 - BITS) > near


def test_a_grid_is_wide_enough_for_wide_latents():
    """Couplings may take back what a scale made wide: data do not show it."""
    flow, wide = NICE(2, couplings=2, width=2, depth=1, random_state=0), 1024.0
    with torch.no_grad():
        flow.log_scale.copy_(torch.tensor([wide, 1 / wide]).log())
        for shift, slope in zip(flow.shifts, (wide, -1 / wide), strict=True):
            # Both signs of a rectifier: a line.
            shift[0].weight.copy_(torch.tensor([[1.0], [-1.0]]))
            shift[-1].weight.copy_(slope * torch.tensor([[1.0, -1.0]]))
            shift[0].bias.zero_()
            shift[-1].bias.zero_()
    # Of 256 standard normal numbers one is beyond 1, and none beyond 8.
    assert step_for(drawn(flow, 256)) <= 2.0 ** (4 - BITS)
    assert lowered(flow, "tf32").grid_step >= 2.0 ** (11 - BITS)
