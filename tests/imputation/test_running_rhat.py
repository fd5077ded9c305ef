"""R-hat from running sums is R-hat."""

from types import SimpleNamespace

import numpy as np
import torch

from plmcmc.imputation.convergence import Convergence

ROWS, CHAINS, MEMBERS, SCORES, STATES = 6, 2, 3, 4, 30


def found_of(draws, free):
    """Run `(states, rows, chains, members, scores)` through the running sums."""
    model = SimpleNamespace(members=MEMBERS, schema=SimpleNamespace(width=SCORES))
    found = Convergence(model, ROWS, len(draws))
    halves = found.of(slice(0, ROWS), free)
    for state, scores in enumerate(draws):
        halves.add(state, scores.reshape(-1, SCORES))
    return found


def test_it_is_the_textbook_s():
    source = torch.Generator().manual_seed(0)
    draws = torch.randn(STATES, ROWS, CHAINS, MEMBERS, SCORES, generator=source)
    # One chain of the second row's second member is elsewhere.
    draws[:, 1, 0, 1] += 3.0
    free = torch.ones(ROWS, SCORES, dtype=torch.bool)
    free[:, 3] = False
    found = found_of(draws, free)
    halves = draws.double().numpy().reshape(2, STATES // 2, ROWS, CHAINS, MEMBERS, SCORES)
    sequences = halves.transpose(1, 0, 3, 2, 4, 5).reshape(STATES // 2, -1, ROWS, MEMBERS, SCORES)
    within = sequences.var(0, ddof=1).mean(0)
    between = sequences.mean(0).var(0, ddof=1)
    expected = np.sqrt(1 - 2 / STATES + between / within).transpose(1, 0, 2)
    np.testing.assert_allclose(found.rhat[:, :, :3], expected[:, :, :3], rtol=1e-5)
    assert np.isnan(found.rhat[:, :, 3]).all()
    assert (found.rhat[1, 1, :3] > 1.5).all()
    assert found.share < 1
    assert found.rows[1]


def test_a_row_of_which_most_members_have_not_converged_is_flagged():
    source = torch.Generator().manual_seed(0)
    draws = 0.1 * torch.randn(STATES, ROWS, CHAINS, MEMBERS, SCORES, generator=source)
    draws[:, 2, 0, :2, 0] += 3.0
    found = found_of(draws, torch.ones(ROWS, SCORES, dtype=torch.bool))
    assert found.rows.tolist() == [True, True, False, True, True, True]


def test_chains_that_never_moved_have_not_converged_and_few_states_say_nothing():
    still = torch.zeros(STATES, ROWS, CHAINS, MEMBERS, SCORES)
    free = torch.ones(ROWS, SCORES, dtype=torch.bool)
    assert found_of(still, free).share == 0.0
    few = found_of(still[:8], free)
    assert not few.checked
    assert np.isnan(few.rhat).all()
    assert np.isnan(few.share)
