"""The front door: `condition(flow, x)` and what can be asked of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plmcmc.chains import Schedule, Start, Unconditional, resumed_seed
from plmcmc.data import Incomplete
from plmcmc.data.frames import Labels, check_order
from plmcmc.flows import ContextualFlow, Flow, log_prob, while_sampling
from plmcmc.posterior.batch import Method
from plmcmc.posterior.checks import check_mode, check_whole, checked_rows, first_saved
from plmcmc.posterior.draws import Draws
from plmcmc.posterior.evidence import Evidence, evidence
from plmcmc.posterior.methods import Auto, method_of
from plmcmc.posterior.plan import Plan
from plmcmc.posterior.problem import Problem, problem_of
from plmcmc.posterior.quality_warnings import warn
from plmcmc.rng import RandomState


def condition(
    flow: Any,
    x: Any,
    observed: Any = None,
    context: Any = None,
    *,
    noise: Any = None,
    precision: str = "float32",
    compiled: bool = False,
    check: bool = True,
) -> Conditional:
    """Return the conditional distribution of a flow given what is observed in each row of `x`.

    Args:
        flow: a flow of plmcmc or of a library supported by `plmcmc.adapt`, or any object with the
            four methods of `plmcmc.flows.Flow`.
        x: floating array `(rows, *event)`, or a table of pandas or polars with columns of numbers;
            NaN or null marks missing values if `observed` is not given.
        observed: bool array with the shape of `x`, True = observed; `x` is ignored where it is
            False.
        context: `(rows, ...)`, one context per row, for a conditional flow.
        noise: standard deviation of normal measurement errors: one number, one per column, or one
            per value; 0 for exact values. Values with an error are sampled, too: draws are of the
            true values.
        precision: precision of the networks of a `NICE` or `RealNVP`: `"float32"`, or, faster on a
            GPU, `"tf32"` or `"bfloat16"`; draws are then exact for a slightly different flow.
        compiled: let torch compile the steps of methods without gradients, and densities of a
            `NICE` or `RealNVP` with their gradients: faster on a GPU, the latter for large batches.
            Needs a C compiler, and up to a minute at first; torch compiles at most eight
            combinations of flow and method per process. The last bits of draws may depend on
            `chunk_rows`.
        check: test the flow with `check_flow` on a few of its own samples.

    Raises:
        DataError: if an array is invalid, naming the row.
        BrokenFlow: if the flow fails this check, with the reason.

    Example:
        >>> import plmcmc
        >>> flow = plmcmc.Linear.of_moments(torch.zeros(2), torch.tensor([[1.0, 0.9], [0.9, 1.0]]))
        >>> posterior = plmcmc.condition(flow, [[1.0, float("nan")]])
        >>> draws = posterior.sample(random_state=0)
        >>> bool(abs(draws.mean()[0, 1] - 0.9) < 0.1)
        True
    """
    problem = problem_of(
        flow,
        x,
        observed,
        context,
        noise=noise,
        precision=precision,
        compiled=compiled,
        check=check,
    )
    return Conditional(problem, Labels.of(x))


@dataclass(frozen=True, eq=False, repr=False)
class Conditional:
    """The conditional distribution p(x_M | x_O) of a flow for every row; made by `condition`."""

    _problem: Problem
    _labels: Labels

    @property
    def flow(self) -> Flow | ContextualFlow:
        """The flow, or a family of flows that takes contexts."""
        return self._problem.flow

    @property
    def values(self) -> NDArray[np.floating]:
        """The caller's array."""
        return self._problem.values

    @property
    def data(self) -> Incomplete:
        """The same values, in the flow's dtype and on its device."""
        return self._problem.data

    @property
    def context(self) -> Tensor | None:
        """One per row, or None."""
        return self._problem.context

    def __repr__(self) -> str:
        """Say what is conditioned on what in one line."""
        rows, *event = self.values.shape
        contexts = "" if self.context is None else ", each with its context"
        return (
            f"Conditional({type(self.flow).__name__}, {rows} rows of shape {tuple(event)}"
            f"{contexts}, {int((~self.data.observed).sum())} missing entries)"
        )

    def sample(
        self,
        draws: int = 200,
        *,
        chains: int = 4,
        warmup: int | None = None,
        thin: int = 1,
        method: str | Method = "auto",
        start: Start | None = None,
        random_state: RandomState = None,
        progress: bool | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 1000,
        chunk_rows: int | None = None,
    ) -> Draws:
        """Draw completions of every row; warn if they cannot be trusted.

        Args:
            draws: number of completions to keep per chain.
            chains: number of independent chains per row, each with its own start.
            warmup: steps to run (and tune) before keeping draws; by default the method decides. The
                pullback sampler always climbs to a mode first.
            thin: number of steps from one kept completion to the next.
            method: a name from `plmcmc.posterior.METHODS`, or a configured method.
            start: where chains start; by default at samples of the flow with observed values
                inserted.
            random_state: a seed; the same seed gives the same draws.
            progress: show a bar; by default on a terminal only.
            checkpoint: a directory to save the run to and to resume it from.
            checkpoint_every: number of steps between two saves.
            chunk_rows: rows to process at once; affects memory and speed, but not the draws (except
                for the last bits with `compiled`).

        Warns:
            ConvergenceWarning: naming rows whose split R-hat exceeds 1.05.
            StuckWarning: naming rows with a chain that never moved.
        """
        check_mode()
        check_whole(1, draws=draws, chains=chains, thin=thin, checkpoint_every=checkpoint_every)
        check_whole(0, **({} if warmup is None else {"warmup": warmup}))
        check_whole(1, **({} if chunk_rows is None else {"chunk_rows": chunk_rows}))
        if start is not None and (isinstance(start, type) or not callable(start)):
            raise TypeError(f"start must be one such as plmcmc.Unconditional(); got {start!r}")
        chosen, name = method_of(method), method if isinstance(method, str) else repr(method)
        if isinstance(chosen, Auto) and not bool(self.data.observed.all()):
            first = self._problem.batch(torch.arange(1, device=self.data.values.device), 1)
            with while_sampling():
                chosen = chosen.choose(first)
            name = name if isinstance(chosen, Auto) else f"{name}: {chosen!r}"
        plan = Plan(
            conditional=self._problem,
            schedule=Schedule(chosen.burn_in(warmup, draws * thin), draws, thin),
            chains=chains,
            method=chosen,
            method_name=name,
            warmup=warmup,
            start=start or Unconditional(),
            seed=resumed_seed(first_saved(checkpoint), random_state),
            chunk_rows=chunk_rows,
            checkpoint=None if checkpoint is None else Path(checkpoint),
            checkpoint_every=checkpoint_every,
        )
        with while_sampling():
            result = replace(plan.run(progress=progress), labels=self._labels)
        warn(result, draws * thin)
        return result

    def log_evidence(
        self,
        particles: int = 64,
        *,
        stages: int = 24,
        random_state: RandomState = None,
        progress: bool | None = None,
    ) -> Evidence:
        """Return `log p(x_O)` of every row with its standard error, by annealing.

        Args:
            particles: walkers per row; the error decreases with their square root.
            stages: steps of each walker; more steps make weights more even.
            random_state: a seed.
            progress: show a bar; by default on a terminal only.

        Modes of the missing values that no walker finds are left out of the estimate.

        Warns:
            EvidenceWarning: naming rows whose estimate rests on a few walkers.

        Example:
            >>> import plmcmc
            >>> flow = plmcmc.Linear.of_moments(torch.zeros(2), torch.eye(2) + 0.5)
            >>> found = plmcmc.condition(flow, [[1.0, float("nan")]]).log_evidence(random_state=0)
            >>> round(float(found.log_evidence[0]), 1)  # log N(1; 0, 1.5)
            -1.5
        """
        return evidence(self._problem, particles, stages, random_state, progress)

    def log_prob(
        self,
        x: Any,
        *,
        particles: int = 64,
        stages: int = 24,
        random_state: RandomState = None,
        progress: bool | None = None,
    ) -> NDArray[np.float64]:
        """Return `log p(x_M | x_O)` of every row: the joint density over the evidence.

        Args:
            x: complete rows, with the shape of the data; entries observed exactly are ignored.
            particles: as for `log_evidence`.
            stages: as for `log_evidence`.
            random_state: a seed for the evidence.
            progress: show a bar; by default on a terminal only.
        """
        check_order(self._labels, x, "x given to log_prob")
        full = checked_rows(x, self.data)
        flow = self._problem.flow_for(torch.arange(self.data.rows, device=full.device), 1)
        with torch.no_grad(), while_sampling():
            completed = self.data.project(full)
            joint = log_prob(flow, completed) + self.data.log_likelihood(completed)
        known = evidence(self._problem, particles, stages, random_state, progress)
        return joint.cpu().numpy() - known.log_evidence


def problem_in(conditional: Conditional) -> Problem:
    """Return what is asked, for those who run chains of their own."""
    return conditional._problem
