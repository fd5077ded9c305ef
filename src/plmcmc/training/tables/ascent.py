"""The M-step of a table's training: one gradient step on scores, and the average of the weights."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor, nn
from torch.optim import AdamW

from plmcmc.flows import TabularFlow, log_prob
from plmcmc.training.tables.settings import TableTraining
from plmcmc.training.tables.team import Team

GRADIENT_CLIP = 10.0
# Of the triangular layer, which starts where it should be.
TRIANGULAR_RATE = 0.25
_TRIANGULAR = ("mean", "lower", "log_diagonal")


class TableAscent:
    """Steps a flow up the likelihood of scores; a second flow follows as an average of its weights.

    Args:
        flow: to train.
        averaged: the flow that follows.
        settings: how to train.
        noise: `(columns,)`, deviation of what is added to scores.
        team: processes that train together, whose slopes are averaged.
    """

    def __init__(
        self,
        flow: TabularFlow,
        averaged: TabularFlow,
        settings: TableTraining,
        noise: Tensor,
        team: Team,
    ) -> None:
        self.flow, self.averaged, self.settings, self.noise = flow, averaged, settings, noise
        self.optimizer = AdamW(self._groups(), weight_decay=settings.weight_decay, fused=True)
        self._loss = team.averaging(_Loss(flow))

    def __call__(self, scores: Tensor, source: Generator, update: int, share: float) -> Tensor:
        """Step once and return the loss.

        Args:
            scores: what chains hold.
            source: random numbers of the noise.
            update: how many were done before, which the rate and the average hang on.
            share: of the rate.
        """
        self._set_rate(share * 0.5 * (1 + math.cos(math.pi * update / self.settings.updates)))
        noise = torch.empty_like(scores).normal_(generator=source)
        with torch.enable_grad():
            # Members share nothing, and their losses are added up.
            loss = self._loss(scores + self.noise * noise) * self.flow.members
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.flow.parameters(), GRADIENT_CLIP)
            self.optimizer.step()
        self._average(update)
        return loss.detach() / self.flow.members

    def _average(self, update: int) -> None:
        # Shorter at first: the start is no part of the average.
        keep = min(self.settings.average, (update + 1) / (update + 10))
        with torch.no_grad():
            for old, new in zip(self.averaged.parameters(), self.flow.parameters(), strict=True):
                old.lerp_(new, 1 - keep)

    def _groups(self) -> list[dict]:
        rate = self.settings.learning_rate
        named = dict(self.flow.named_parameters())
        triangular = [named[name] for name in _TRIANGULAR]
        others = [p for name, p in named.items() if name not in _TRIANGULAR]
        return [
            {"params": others, "lr": rate, "full": rate},
            {"params": triangular, "lr": rate, "full": rate * TRIANGULAR_RATE},
        ]

    def _set_rate(self, share: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = share * group["full"]


class _Loss(nn.Module):
    """Minus the mean log-likelihood, as a module: so slopes are averaged over a team."""

    def __init__(self, flow: TabularFlow) -> None:
        super().__init__()
        self.flow = flow

    def forward(self, scores: Tensor) -> Tensor:
        """Return the loss of some scores."""
        return -log_prob(self.flow, scores).mean()
