"""Every kernel keeps the same manners."""

import pytest
import torch

from exact import FLOWS, begin
from kernels import CASES
from plmcmc.kernels import Cycle, Free, NonFiniteStart
from plmcmc.rng import Streams
from toys import Handing

ROWS = 70


@pytest.fixture(scope="module")
def flow():
    return FLOWS["realnvp"]()


@pytest.fixture(scope="module")
def begun(flow):
    return begin(flow, rows=ROWS)


def stepped(kernel, start, seed=0):
    streams = Streams.of_rows(seed, "test", ROWS)
    with torch.no_grad():
        state = kernel.init(start)
        return state, *kernel.step(state, streams)


@pytest.mark.parametrize("name", CASES)
class TestEveryKernel:
    def test_states_are_tuples_of_tensors_with_rows_first(self, name, flow, begun):
        before, after, info = stepped(CASES[name](flow, begun.data), begun.start)
        assert type(before) is type(after)
        for field in (*before, *after):
            assert isinstance(field, torch.Tensor)
            assert len(field) == ROWS
            assert not field.requires_grad
        assert info.accepted.shape == info.log_ratio.shape == (ROWS,)
        assert info.accepted.dtype == torch.bool
        assert info.log_ratio.dtype == after.log_density.dtype == torch.float64
        assert isinstance(info.passes, int)

    def test_observed_values_stay_in_the_last_bit(self, name, flow, begun):
        _, after, _ = stepped(CASES[name](flow, begun.data), begun.start)
        seen = begun.data.observed
        assert torch.equal(after.completion[seen], begun.data.values[seen])

    def test_rejected_rows_stay_and_accepted_rows_move(self, name, flow, begun):
        before, after, info = stepped(CASES[name](flow, begun.data), begun.start)
        same = (before.position == after.position).all(1)
        holes = (~begun.data.observed).any(1)
        assert bool(same[~info.accepted].all())
        assert not bool(same[info.accepted & holes].any())

    def test_the_step_depends_on_its_streams_alone(self, name, flow, begun):
        kernel = CASES[name](flow, begun.data)
        torch.manual_seed(1)
        _, one, _ = stepped(kernel, begun.start, seed=5)
        torch.manual_seed(2)
        state = torch.get_rng_state()
        _, two, _ = stepped(kernel, begun.start, seed=5)
        _, other, _ = stepped(kernel, begun.start, seed=6)
        assert torch.equal(one.position, two.position)
        assert not torch.equal(one.position, other.position)
        assert torch.equal(torch.get_rng_state(), state)

    def test_a_row_does_not_depend_on_the_others(self, name, flow, begun):
        _, one, _ = stepped(CASES[name](flow, begun.data), begun.start)
        values, start = begun.data.values.clone(), begun.start.clone()
        values[1:], start[1:] = values[1:] * 0.5, start[1:] * 0.5
        other = type(begun.data)(values, begun.data.observed)
        _, two, _ = stepped(CASES[name](flow, other), start)
        assert torch.equal(one.position[0], two.position[0])

    def test_the_reported_density_is_the_target_s(self, name, flow, begun):
        kernel = CASES[name](flow, begun.data)
        _, after, _ = stepped(kernel, begun.start)
        target = kernel.kernels[0].target if isinstance(kernel, Cycle) else kernel.target
        again = target(after.position)
        torch.testing.assert_close(again.log_density, after.log_density)
        torch.testing.assert_close(again.completion, after.completion)

    def test_a_start_without_density_is_refused(self, name, flow, begun):
        start = begun.start.clone()
        start[3] = torch.inf
        values = begun.data.values.clone()
        values[3] = torch.inf
        data = type(begun.data)(values, begun.data.observed)
        with pytest.raises(NonFiniteStart) as raised:
            stepped(CASES[name](flow, data), start)
        assert raised.value.places == [3]

    @pytest.mark.parametrize("far", [torch.nan, torch.inf])
    def test_an_overflowing_proposal_is_rejected_and_the_chain_lives(self, name, far, flow, begun):
        kernel = CASES[name](Overflowing(flow, far), begun.data)
        streams = Streams.of_rows(0, "test", ROWS)
        state = kernel.init(begun.start)
        for _ in range(20):
            state, _ = kernel.step(state, streams)
        assert bool(torch.isfinite(state.log_density).all())
        assert bool(torch.isfinite(state.completion).all())


class Overflowing(Handing):
    """A flow whose density is NaN, or infinite, beyond some distance."""

    def __init__(self, flow, far):
        super().__init__(flow)
        self.far = far

    def to_latent(self, x):
        z, log_det = self.flow.to_latent(x)
        return z, torch.where(x.abs().amax(1) > 6, self.far, log_det)


def test_free_coordinates_tell_of_holes_alone():
    holes = torch.tensor([[True, False], [False, True]])
    numbers, frame = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), Free(2, holes)
    assert frame.gather(numbers).tolist() == [[[1.0, 0.0]], [[0.0, 4.0]]]
    assert torch.equal(frame.outward(-frame.inward(numbers), numbers), numbers * (1 - 2.0 * holes))
