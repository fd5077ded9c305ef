"""Preprocessing steps by hand: values, log-determinants, and noise that stays in its bin."""

import math

import pytest
import torch
from scipy.stats import kstest

from flow_cases import DTYPES, nice
from plmcmc.flows import Dequantise, Flatten, Linear, Logit, Preprocessed, Whiten, log_prob


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def numbers(values) -> list:
    return torch.as_tensor(values).tolist()


def test_whiten_by_hand():
    step = Whiten(torch.tensor([5.0, -1.0]), torch.tensor([2.0, 0.5]))
    z, log_det = step.to_latent(torch.tensor([[9.0, 0.0], [5.0, -1.0]]))
    assert numbers(z) == [[2, 2], [0, 0]]
    # Scales of 2 and 1/2 together keep the volume.
    assert numbers(log_det) == [0, 0]
    x, log_det = step.to_data(z)
    assert numbers(x) == [[9, 0], [5, -1]]
    assert numbers(Whiten(torch.zeros(2), torch.tensor([2.0, 3.0])).to_data(z)[1]) == (
        pytest.approx([math.log(6)] * 2)
    )


@pytest.mark.parametrize("scale", [torch.tensor(2.0), torch.tensor([2.0]), torch.full((3,), 2.0)])
@pytest.mark.parametrize("mean", [torch.tensor(1.0), torch.ones(3)])
def test_one_scale_for_all_columns_counts_once_for_each(mean, scale):
    step = Whiten(mean, scale)
    z, log_det = step.to_latent(torch.full((2, 3), 5.0))
    assert numbers(z) == [[2] * 3] * 2
    assert numbers(log_det) == pytest.approx([-3 * math.log(2)] * 2)


@pytest.mark.parametrize("scale", [[1.0, 0.0], [1.0, -1.0], [1.0, math.nan]])
def test_whiten_refuses_to_divide_by_nothing(scale):
    with pytest.raises(ValueError, match="scale must be positive everywhere"):
        Whiten(torch.zeros(2), torch.tensor(scale))


def test_whiten_keeps_its_own_copy():
    mean = torch.zeros(2)
    step = Whiten(mean, torch.ones(2))
    mean += 7
    assert numbers(step.mean) == [0, 0]


def test_logit_by_hand():
    step = Logit(low=-1.0, high=3.0, margin=0.0)
    x = torch.tensor([[1.0], [0.0], [2.0]])
    z, log_det = step.to_latent(x)
    assert numbers(z.flatten()) == pytest.approx([0, -math.log(3), math.log(3)])
    # dz/dx = 1 / (4 p (1 - p)) with p = 1/2, 1/4, 3/4.
    assert numbers(log_det) == pytest.approx([0, math.log(4 / 3), math.log(4 / 3)], abs=1e-6)
    torch.testing.assert_close(step.to_data(z)[0], x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 3.0), (0.0, 255.0)])
def test_logit_is_finite_at_the_end_points(low, high, dtype):
    step = Logit(low, high)
    x = torch.tensor([[low], [high]], dtype=dtype)
    z, log_det = step.to_latent(x)
    assert torch.isfinite(z).all()
    assert torch.isfinite(log_det).all()
    # logit(1e-6) is -13.8; in single precision 1 - 1e-6 is a few per cent off.
    assert numbers(z.flatten()) == pytest.approx([-13.8155, 13.8155], abs=0.1)
    torch.testing.assert_close(step.to_data(z)[0], x, atol=1e-5 * (high - low), rtol=0)


def test_logit_draws_leave_the_interval_by_a_sliver_at_most():
    step = Logit(-1.0, 3.0, margin=1e-3)
    x, _ = step.to_data(torch.tensor([[-1e4], [1e4]], dtype=torch.float64))
    sliver = 4 * 1e-3 / (1 - 2e-3)
    assert numbers(x.flatten()) == pytest.approx([-1 - sliver, 3 + sliver])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, 1.0), "low must be below high; got 1.0 and 1.0"),
        ((0.0, 1.0, 0.5), r"margin must be in \[0, 0\.5\); got 0\.5"),
        ((0.0, 1.0, -0.1), r"margin must be in \[0, 0\.5\); got -0\.1"),
    ],
)
def test_logit_refuses_an_empty_interval(arguments, message):
    with pytest.raises(ValueError, match=message):
        Logit(*arguments)


def test_dequantise_by_hand():
    step = Dequantise(4)
    x = torch.tensor([[0.0, 1.0], [2.0, 3.0]])
    z, log_det = step.to_latent(x)
    assert numbers(z) == [[1 / 8, 3 / 8], [5 / 8, 7 / 8]]
    assert numbers(log_det) == pytest.approx([-2 * math.log(4)] * 2)
    assert numbers(step.to_data(z)[0]) == numbers(x)
    assert numbers(step.to_data(z)[1]) == pytest.approx([2 * math.log(4)] * 2)


def test_dequantise_refuses_a_single_level():
    with pytest.raises(ValueError, match="levels must be at least 2; got 1"):
        Dequantise(1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_noise_fills_its_bin_and_stays_within(dtype):
    levels, rows = 8, 4000
    step = Dequantise(levels)
    x = (torch.arange(rows) % levels).to(dtype)[:, None]
    noisy = step.dequantised(x, generator())
    assert noisy.dtype == dtype
    assert (noisy - x).abs().max() <= 0.5
    z, _ = step.to_latent(noisy)
    assert 0 <= z.min() < z.max() <= 1
    # Uniform in its bin, and so in the whole interval when levels are equally frequent.
    assert kstest((noisy - x).flatten().double().numpy() + 0.5, "uniform").pvalue > 1e-4
    assert torch.equal(step.dequantised(x, generator()), noisy)
    assert not torch.equal(step.dequantised(x, generator(1)), noisy)


def test_only_dequantise_adds_noise():
    x = torch.rand(5, 4, generator=generator())
    for step in (Whiten(torch.zeros(4), torch.ones(4)), Logit(), Flatten((4,))):
        assert torch.equal(step.dequantised(x, generator()), x)


def test_flatten_keeps_the_order_of_memory():
    x = torch.arange(12.0).reshape(1, 3, 4)
    step = Flatten((3, 4))
    z, log_det = step.to_latent(x)
    assert numbers(z) == [list(range(12))]
    assert numbers(log_det) == [0]
    assert torch.equal(step.to_data(z)[0], x)
    assert numbers(step.to_data(z)[1]) == [0]


def test_the_first_step_meets_the_users_data():
    flow = Preprocessed([Dequantise(4), Logit(margin=0.0)], Linear(1))
    # 2 -> 5/8 -> log(5/3)
    z, log_det = flow.to_latent(torch.tensor([[2.0]]))
    assert z.item() == pytest.approx(math.log(5 / 3), rel=1e-6)
    assert log_det.item() == pytest.approx(-math.log(4) - math.log(15 / 64), rel=1e-6)
    x, back = flow.to_data(z)
    assert x.item() == pytest.approx(2, rel=1e-6)
    assert back.item() == pytest.approx(-log_det.item())


def test_a_preprocessed_density_is_in_the_users_units():
    flow = Preprocessed([Whiten(torch.tensor([5.0]), torch.tensor([2.0]))], Linear(1)).double()
    x = torch.tensor([[4.0], [9.0]], dtype=torch.float64)
    exact = torch.distributions.Normal(5.0, 2.0).log_prob(x).flatten()
    torch.testing.assert_close(log_prob(flow, x).detach(), exact)


def test_prepare_gives_the_inner_flow_what_it_will_see():
    steps = [Dequantise(16), Logit(), Flatten((2, 2))]
    flow = Preprocessed(steps, nice(4)).double()
    x = torch.randint(16, (50, 2, 2), generator=generator()).double()
    seen, log_det = flow.prepare(x, generator(3))
    noisy = steps[0].dequantised(x, generator(3))
    assert torch.equal(flow.flow.to_latent(seen)[0], flow.to_latent(noisy)[0])
    torch.testing.assert_close(log_prob(flow.flow, seen) + log_det, log_prob(flow, noisy))
    # Each time afresh, but never out of the bins.
    again, _ = flow.prepare(x, generator(4))
    assert not torch.equal(again, seen)
    levels = Preprocessed(steps, Linear(4).double()).to_data(seen)[0]
    assert torch.equal(levels.round(), x)
    # The flow itself adds none: an observed integer stands for the middle of its bin.
    assert torch.equal(flow.to_latent(x)[0], flow.to_latent(x)[0])


def test_prepare_without_steps_changes_nothing():
    x = torch.rand(5, 4, generator=generator())
    seen, log_det = Preprocessed([], nice(4)).prepare(x, generator())
    assert torch.equal(seen, x)
    assert numbers(log_det) == [0] * 5


def test_only_modules_can_be_preprocessed():
    with pytest.raises(TypeError, match="flow must be a torch module; got object"):
        Preprocessed([], object())
