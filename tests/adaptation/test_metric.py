"""The pullback metric, and frames made of matrices."""

import pytest
import torch
from torch import nn

from exact import FLOWS, begin, shaken
from plmcmc.adaptation import warmup
from plmcmc.adaptation.metric import (
    MetricWarning,
    _spread,
    frame_of_covariance,
    frame_of_precision,
    pullback,
    pullback_of_one,
    widened,
)
from plmcmc.flows import Linear, RealNVP
from plmcmc.kernels import Holes
from plmcmc.posterior import condition


def encoder(flow):
    return lambda x: flow.to_latent(x)[0]


def test_on_a_linear_flow_it_is_the_conditional_s_own_precision():
    flow = FLOWS["linear"]()
    begun = begin(flow, rows=20)
    holes = Holes.of(begun.data.observed, 5)
    found = pullback(encoder(flow), begun.truth, holes)
    precision = torch.linalg.inv((flow.factor() @ flow.factor().T).detach())
    for row in range(20):
        places = holes.places[row][holes.present[row]]
        expected = precision[places][:, places]
        # A Gaussian's conditional precision is the block of the joint one.
        torch.testing.assert_close(found[row, : len(places), : len(places)], expected)


def test_it_is_the_jacobian_s_square_averaged_over_chains():
    flow = shaken(RealNVP(5, width=16, random_state=0), 0.7)
    begun = begin(flow, rows=6)
    holes = Holes.of(begun.data.observed[::2], 5)
    weights = torch.rand(5, generator=torch.Generator().manual_seed(0)).double() + 0.5
    found = pullback(lambda y: encoder(flow)(y) * weights.sqrt(), begun.truth, holes)
    for row in range(3):
        places = holes.places[row]
        expected = torch.zeros(5, 5).double()
        for chain in (0, 1):
            x = begun.truth[2 * row + chain]
            full = torch.autograd.functional.jacobian(lambda v: flow.to_latent(v[None])[0][0], x)
            part = full[:, places]
            expected += part.T @ (weights[:, None] * part) / 2
        own = int(holes.present[row].sum())
        torch.testing.assert_close(found[row, :own, :own], expected[:own, :own])


@pytest.mark.parametrize("chains", [1, 2, 3, 12])
def test_dealt_out_among_chains_it_is_that_of_the_first_one(chains):
    flow = shaken(RealNVP(5, width=16, random_state=0), 0.7)
    begun = begin(flow, rows=12)
    holes = Holes.of(begun.data.observed[::chains], 5)
    found = pullback_of_one(encoder(flow), begun.truth, holes)
    expected = pullback(encoder(flow), begun.truth[::chains], holes)
    both = holes.present[:, :, None] & holes.present[:, None]
    torch.testing.assert_close(found[both], expected[both])


def test_without_forward_mode_finite_differences_serve_and_it_says_so():
    flow = shaken(RealNVP(5, width=16, random_state=0), 0.7)
    begun = begin(flow, rows=6)
    holes = Holes.of(begun.data.observed, 5)
    exact = pullback(encoder(flow), begun.truth, holes)
    with pytest.warns(MetricWarning, match="finite differences"):
        found = pullback(encoder(Opaque(flow)), begun.truth, holes)
    torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-4)


class OneWay(torch.autograd.Function):
    """An identity without a forward-mode derivative."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Opaque(nn.Module):
    def __init__(self, flow):
        super().__init__()
        self.flow = flow

    def to_latent(self, x):
        return self.flow.to_latent(OneWay.apply(x))


def test_a_frame_rounds_its_matrix_and_takes_rows_there_and_back():
    source = torch.Generator().manual_seed(0)
    begun = begin(FLOWS["linear"](), rows=8)
    holes = Holes.of(begun.data.observed[::2], 5)
    half = torch.randn(4, 5, 12, generator=source).double()
    matrix = half @ half.mT
    centre = torch.randn(4, 5, generator=source).double()
    for make, rounded in (
        (frame_of_precision, lambda f: f.root.mT @ matrix @ f.root),
        (frame_of_covariance, lambda f: f.inverse @ matrix @ f.inverse.mT),
    ):
        frame = make(matrix, centre, holes)
        u = frame.inward(begun.truth)
        torch.testing.assert_close(frame.outward(u, begun.truth), begun.truth)
        moved = frame.outward(u + 1.0, begun.truth)
        seen = begun.data.observed[::2].repeat_interleave(2, 0)
        assert torch.equal(moved[seen], begun.truth[seen])
        for row in range(4):
            count = int(holes.present[row].sum())
            block = rounded(frame)[row][:count, :count]
            torch.testing.assert_close(block, torch.eye(count).double(), atol=1e-4, rtol=0)


def test_a_singular_matrix_gets_a_ridge_and_a_hopeless_one_keeps_its_diagonal():
    holes = Holes.of(torch.zeros(3, 4, dtype=torch.bool), 4)
    singular = torch.ones(4, 4).double()
    hopeless = torch.full((4, 4), -5.0).double() + 6 * torch.eye(4).double()
    regular = torch.eye(4).double()
    with pytest.warns(MetricWarning, match="the metric of 1 of 3 rows is singular"):
        frame = frame_of_precision(
            torch.stack([singular, hopeless, regular]), torch.zeros(3, 4).double(), holes
        )
    assert bool(torch.isfinite(frame.root).all())
    torch.testing.assert_close(frame.root[1], torch.eye(4).double())
    torch.testing.assert_close(frame.root[2], torch.eye(4).double(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("entry", [torch.inf, torch.nan, 0.0])
def test_a_matrix_that_tells_nothing_is_told_of_and_leaves_the_others_alone(entry):
    holes = Holes.of(torch.zeros(2, 3, dtype=torch.bool), 3)
    regular = torch.eye(3).double() + 0.5
    lost = torch.full((3, 3), entry).double()
    with pytest.warns(MetricWarning, match="the metric of 1 of 2 rows"):
        frame = frame_of_precision(torch.stack([lost, regular]), torch.zeros(2, 3).double(), holes)
    alone = frame_of_precision(torch.stack([regular, regular]), torch.zeros(2, 3).double(), holes)
    torch.testing.assert_close(frame.root[0], torch.eye(3).double(), atol=1e-5, rtol=0)
    assert torch.equal(frame.root[1], alone.root[1])


def test_chains_of_a_row_with_a_singular_metric_still_draw_from_its_conditional(monkeypatch):
    """What the frame does not know costs steps, not exactness."""
    flow = Linear.of_moments(torch.zeros(2).double(), torch.tensor([[1.0, 0.8], [0.8, 1.0]]))
    x = torch.tensor([[1.0, torch.nan], [1.0, torch.nan]]).double()
    found = warmup.pullback

    def singular(*given):
        matrix = found(*given)
        matrix[0] = torch.nan
        return matrix

    monkeypatch.setattr(warmup, "pullback", singular)
    with pytest.warns(MetricWarning, match="the metric of 1 of 2 rows"):
        draws = condition(flow.double(), x).sample(400, chains=8, random_state=0)
    # Exact: mean .8, deviation .6; of 3,200 draws about as good as independent.
    assert abs(draws.mean()[0, 1] - 0.8) < 5 * 0.6 / 3200**0.5
    assert abs(draws.values[:, :, 0, 1].std() - 0.6) < 5 * 0.6 / (2 * 3200) ** 0.5


def test_padding_changes_nothing():
    flow = Linear.of_moments(torch.zeros(4).double(), torch.eye(4).double() + 0.5)
    observed = torch.tensor([[True, False, True, False]])
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]]).double()
    roots = []
    for width in (2, 4):
        holes = Holes.of(observed, width)
        matrix = pullback(encoder(flow), x, holes)
        frame = frame_of_precision(matrix, torch.zeros(1, width).double(), holes)
        u = torch.zeros(1, 1, width).double()
        u[..., :2] = torch.tensor([0.3, -0.7])
        roots.append(frame.outward(u, x))
    torch.testing.assert_close(*roots)


def draws_with_a_wide_direction(rows=3, width=4, count=400, spread=36.0):
    """Draws that are round but along one direction."""
    source = torch.Generator().manual_seed(0)
    direction = torch.full((width,), width**-0.5).double()
    noise = torch.randn(rows, count, width, generator=source).double()
    along = (spread**0.5 - 1) * (noise @ direction)[..., None] * direction
    return noise + along, direction


def test_widening_stretches_what_is_wide_and_nothing_else():
    draws, direction = draws_with_a_wide_direction()
    holes = Holes.of(torch.zeros(3, 4, dtype=torch.bool), 4)
    eye = torch.eye(4).double().expand(3, -1, -1)
    frame = frame_of_precision(eye, torch.zeros(3, 4).double(), holes)
    centred = draws - draws.mean(1, keepdim=True)
    wide = widened(frame, centred, draws.mean(1), draws.shape[1])
    for row in range(3):
        along = direction @ wide.root[row] @ wide.root[row].T @ direction
        # Half of the way: a variance of 36 is stretched for as 6. A sample variance of 400
        # normals is within 4 * sqrt(2 / 400) of the truth, and its root within half of that.
        assert abs(float(along) / 6 - 1) < 0.15
        torch.testing.assert_close(
            wide.root[row] @ wide.inverse[row], torch.eye(4).double(), atol=1e-6, rtol=0
        )
    round_draws = frame_of_precision(eye, torch.zeros(3, 4).double(), holes)
    # Draws whose covariance is the identity.
    corners = 2.0 * torch.cat([eye, -eye], 1) / 2**0.5
    same = widened(round_draws, corners, torch.zeros(3, 4).double(), 50)
    torch.testing.assert_close(same.root, round_draws.root)


def test_few_draws_spread_along_combinations_of_themselves():
    source = torch.Generator().manual_seed(0)
    # Six draws of nine entries, and as many as make the whole matrix the smaller one.
    few = torch.randn(2, 6, 9, generator=source).double()
    values, vectors = _spread(few)
    assert vectors.shape == (2, 9, 6)
    found = (vectors * values[:, None]) @ vectors.mT
    torch.testing.assert_close(found, few.mT @ few / 6)
    eye = torch.eye(6).double().expand(2, -1, -1)
    torch.testing.assert_close(vectors.mT @ vectors, eye)
    repeated = torch.cat([few, few], 1)
    values, vectors = _spread(repeated)
    assert vectors.shape == (2, 9, 9)
    torch.testing.assert_close((vectors * values[:, None]) @ vectors.mT, found)


def test_frames_in_float32_are_widened_by_few_draws():
    draws, direction = draws_with_a_wide_direction(width=40, count=8, spread=900.0)
    holes = Holes.of(torch.zeros(3, 40, dtype=torch.bool), 40)
    eye = torch.eye(40).double().expand(3, -1, -1)
    frame = frame_of_precision(eye, torch.zeros(3, 40), holes)
    wide = widened(frame, draws - draws.mean(1, keepdim=True), draws.mean(1), 8)
    assert wide.root.dtype == torch.float32
    both = wide.root @ wide.inverse
    torch.testing.assert_close(both, eye.float(), atol=1e-5, rtol=0)
    along = direction.float() @ wide.root @ wide.root.mT @ direction.float()
    assert bool((along > 5).all())


def test_draws_that_never_moved_leave_the_frame_as_it_is():
    holes = Holes.of(torch.zeros(3, 4, dtype=torch.bool), 4)
    eye = torch.eye(4).double().expand(3, -1, -1)
    frame = frame_of_precision(eye, torch.zeros(3, 4).double(), holes)
    for count in (2, 6):
        same = widened(frame, torch.zeros(3, count, 4).double(), torch.ones(3, 4).double(), count)
        assert torch.equal(same.root, frame.root)
        assert torch.equal(same.inverse, frame.inverse)


def test_padding_does_not_tell_how_far_draws_spread():
    """A row of two holes is widened alike, alone and beside a row of six."""
    source = torch.Generator().manual_seed(0)
    observed = torch.ones(2, 6, dtype=torch.bool)
    observed[0, :2], observed[1] = False, False
    draws = torch.randn(2, 12, 6, generator=source).double() * 4
    roots = []
    for rows, width in ((slice(0, 2), 6), (slice(0, 1), 2)):
        holes = Holes.of(observed[rows], width)
        eye = torch.eye(width).double().expand(len(holes.places), -1, -1)
        frame = frame_of_precision(eye, torch.zeros(len(holes.places), width).double(), holes)
        own = draws[rows, :, :width] * holes.present[:, None]
        own = own - own.mean(1, keepdim=True)
        roots.append(widened(frame, own, own.mean(1), 6.0).root[0, :2, :2])
    torch.testing.assert_close(*roots)
    assert float(roots[0].det()) > 1.5
