"""Works side by side return what they return one after the other."""

from functools import partial

import pytest
import torch

from plmcmc.baselines.cuda_streams import Abreast

CPU = torch.device("cpu")


def test_without_a_gpu_they_come_one_after_the_other():
    order = []

    def work(n):
        order.append(n)
        return 2 * n

    assert Abreast(3, CPU)([partial(work, n) for n in range(3)]) == [0, 2, 4]
    assert order == [0, 1, 2]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="streams need a GPU")
def test_a_gpu_s_slopes_are_the_same():
    where = torch.device("cuda")
    weights = [torch.full((500, 500), 0.01 * n, device=where, requires_grad=True) for n in (1, 2)]
    x = torch.ones(500, 500, device=where)
    slopes = []
    for abreast in (Abreast(2, where), Abreast(2, CPU)):
        works = [lambda w=w: (x @ w @ w).mean() for w in weights]
        slopes.append(torch.autograd.grad(torch.stack(abreast(works)).sum(), weights))
    torch.testing.assert_close(*slopes)
