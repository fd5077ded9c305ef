"""Compiled steps go where launched ones go, and without a compiler they are launched."""

import pytest
import torch
from torch import nn

from plmcmc.training import optimizers
from plmcmc.training.optimizers import OPTIMIZERS, compiled, optimizer_of

STEPS = 4


def walked(name, change=lambda optimizer: None):
    """Return where some steps of an optimizer lead."""
    weight = nn.Parameter(torch.linspace(-1, 1, 5))
    optimizer = optimizer_of(name, [weight], 0.1)
    change(optimizer)
    for number in range(STEPS):
        weight.grad = weight.detach() ** 2 + number
        optimizer.step()
    return weight.detach()


def compile_by(monkeypatch, backend):
    """Let steps be compiled; returns how often a compiled one was called."""
    calls = []

    def compiling(work):
        def counted():
            calls.append(1)
            return backend(work)

        return counted

    monkeypatch.setattr(optimizers.torch, "compile", compiling)
    return calls


def replace_step(optimizer):
    optimizer.step = compiled(optimizer)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_compiled_steps_are_the_same_steps(name, monkeypatch):
    calls = compile_by(monkeypatch, lambda work: work())
    expected = walked(name)
    torch.testing.assert_close(walked(name, replace_step), expected, rtol=0, atol=0)
    assert len(calls) == STEPS
    assert not torch.equal(expected, torch.linspace(-1, 1, 5))


def test_without_a_compiler_steps_are_launched(monkeypatch):
    def none(work):
        raise RuntimeError("no C compiler was found")

    calls = compile_by(monkeypatch, none)
    torch.testing.assert_close(walked("rmsprop", replace_step), walked("rmsprop"), rtol=0, atol=0)
    # Tried once.
    assert len(calls) == 1


def test_too_little_memory_is_said(monkeypatch):
    def full(work):
        raise torch.OutOfMemoryError("none left")

    compile_by(monkeypatch, full)
    with pytest.raises(torch.OutOfMemoryError):
        walked("rmsprop", replace_step)
