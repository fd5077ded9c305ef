"""Products of few lines: to the last bit the same for any number of rows, and right."""

import pytest
import torch

from plmcmc.flows.passes.small_products import even_product

ROWS = 305


def tensors(outputs, inputs, members=4):
    source = torch.Generator().manual_seed(outputs * 10 + inputs)
    return (
        torch.randn(shape, generator=source)
        for shape in (
            (members, outputs, inputs),
            (members, inputs, ROWS),
            (members, outputs, 1),
            (members, outputs, ROWS),
        )
    )


@pytest.mark.parametrize("outputs", [1, 2, 3, 5])
@pytest.mark.parametrize("inputs", [1, 2, 3, 48])
@pytest.mark.parametrize("shifted", [False, True])
def test_rows_do_not_look_at_how_many_there_are(outputs, inputs, shifted):
    matrix, x, shift, pull = tensors(outputs, inputs)
    shift = shift if shifted else None
    found, slopes = [], []
    for rows in (ROWS, 64):
        own = x[:, :, :rows].clone().requires_grad_()
        y = even_product(matrix, own, shift)
        y.backward(pull[:, :, :rows].contiguous())
        found.append(y.detach()[:, :, :64])
        slopes.append(own.grad[:, :, :64])
    assert torch.equal(*found)
    assert torch.equal(*slopes)
    expected = matrix.double() @ x.double() + (0 if shift is None else shift.double())
    torch.testing.assert_close(found[0].double(), expected[:, :, :64], rtol=1e-4, atol=1e-5)
