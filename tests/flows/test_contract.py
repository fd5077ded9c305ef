"""`check_flow` passes every flow of ours, and convicts every broken one in words."""

import re

import numpy as np
import pytest
import torch

from broken_flows import (
    BROKEN,
    BatchStatistics,
    Disagrees,
    Dropped,
    Honest,
    Noisy,
    NotANumber,
    SignFlipped,
    SignFlippedOnce,
)
from flow_cases import CASES, DTYPES, realnvp, rows_of
from plmcmc.flows import BrokenFlow, ContextualFlow, Flow, RealNVP, check_flow
from plmcmc.flows.contract import LARGEST_JACOBIAN


@pytest.fixture
def x():
    return rows_of(Honest())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_our_flows_keep_their_promises(build, dtype):
    flow = build().to(dtype)
    x = rows_of(flow)
    assert x.dtype == dtype
    checked = check_flow(flow, x)
    assert len(checked.kept) == 9
    assert checked.skipped == ()


@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_our_flows_hold_more_than_their_precision_asks(build):
    flow = build().double()
    check_flow(flow, rows_of(flow), tolerance=1e-9)


@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_our_flows_need_no_context(build):
    flow = build()
    assert isinstance(flow, Flow)
    assert not isinstance(flow, ContextualFlow)


@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_log_terms_are_in_double_precision(build):
    flow = build().float()
    x = rows_of(flow)
    z, log_det = flow.to_latent(x)
    terms = (log_det, flow.to_data(z)[1], flow.latent_log_prob(z))
    assert [term.dtype for term in terms] == [torch.float64] * 3
    assert z.dtype == torch.float32


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_our_flows_keep_their_promises_on_a_gpu(build, dtype):
    flow = build().to("cuda", dtype)
    x = rows_of(build().to(dtype))
    assert len(check_flow(flow, x).kept) == 9
    z, _ = flow.to_latent(x.cuda())
    assert z.device.type == "cuda"
    tolerance = {"atol": 1e-3, "rtol": 1e-3} if dtype == torch.float32 else {}
    torch.testing.assert_close(z.cpu(), build().to(dtype).to_latent(x)[0], **tolerance)


def test_the_honest_flow_passes(x):
    assert check_flow(Honest(), x).skipped == ()
    assert check_flow(BatchStatistics().eval(), x).skipped == ()


@pytest.mark.parametrize(("build", "words"), BROKEN.values(), ids=BROKEN)
def test_a_broken_flow_is_convicted_in_words(build, words, x):
    torch.manual_seed(0)
    with pytest.raises(BrokenFlow, match=re.compile(words, re.DOTALL)):
        check_flow(build(), x)


@pytest.mark.parametrize("fault", [SignFlippedOnce, Disagrees])
def test_every_broken_promise_is_named(fault, x):
    class Both(fault, Noisy):
        pass

    with pytest.raises(BrokenFlow, match="Both breaks its promises") as caught:
        check_flow(Both(), x)
    assert str(caught.value).count("\n- ") >= 2


def test_nan_is_reported_once_and_not_as_everything_else(x):
    with pytest.raises(BrokenFlow) as caught:
        check_flow(NotANumber(), x)
    assert str(caught.value).count("\n- ") == 1


def test_the_jacobian_can_be_left_out(x):
    checked = check_flow(Dropped(), x, jacobian=False)
    assert "the log-det is the derivative's" not in checked.kept


def test_the_tolerance_can_be_raised(x):
    with pytest.raises(BrokenFlow):
        check_flow(Disagrees(), x)
    assert check_flow(Disagrees(), x, tolerance=0.1).skipped == ()


def test_too_wide_a_jacobian_is_skipped_and_said():
    flow = realnvp(LARGEST_JACOBIAN + 1, couplings=1)
    (skipped,) = check_flow(flow, rows_of(flow, 2)).skipped
    assert f"the Jacobian of {LARGEST_JACOBIAN + 1} columns is too large" in skipped


def test_a_flow_without_derivative_is_not_called_broken(x):
    class Detached(Honest):
        def to_latent(self, x):
            with torch.no_grad():
                return super().to_latent(x)

    (skipped,) = check_flow(Detached(), x).skipped
    assert "the flow has no derivative" in skipped


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_rows_are_enough(rows, x):
    check_flow(Honest(), x[:rows])
    with pytest.raises(BrokenFlow):
        check_flow(SignFlipped(), x[:rows])


def test_rows_may_come_as_an_array_of_another_precision(x):
    check_flow(Honest(), x.double())
    check_flow(Honest(), x.double().numpy())
    check_flow(Honest().flow.double(), np.asarray(x))


def test_the_check_leaves_no_trace(x):
    flow = Honest()
    before = torch.get_rng_state()
    check_flow(flow, x)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(parameter.grad is None for parameter in flow.flow.parameters())
    assert x.grad is None


class Overflowing(RealNVP):
    """Decodes no latents whose first coordinate is above a limit."""

    def __init__(self, limit):
        super().__init__(3, width=4, random_state=0)
        self.limit = limit

    def to_data(self, z):
        x, log_det = super().to_data(z)
        return torch.where(z[:, :1] > self.limit, torch.nan, x), log_det


def test_a_flow_may_overflow_now_and_then():
    x = torch.full((40, 3), -1.0)
    # The latents that are tried are standard normal: of 40, six are above 1 on average.
    check_flow(Overflowing(1.0).eval(), x)
    with pytest.raises(BrokenFlow, match=r"to_data is NaN or infinite for \d+ of 40 drawn latents"):
        check_flow(Overflowing(-0.9).eval(), x)
