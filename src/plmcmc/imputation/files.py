"""Imputers as files: what was learned of columns, beside a flow's own two files. Never pickle."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plmcmc.data import Marginal, Schema
from plmcmc.data.schema import KINDS, Column, Levels, Numbers
from plmcmc.flows import GaussianMixture, TabularFlow
from plmcmc.flows.base import check_order
from plmcmc.flows.files import describe, rebuild
from plmcmc.imputation.convergence import no_chains
from plmcmc.imputation.density_checks import check_bounded, check_mixture, check_moments
from plmcmc.imputation.device import device_of
from plmcmc.imputation.drawing import STATISTICS
from plmcmc.imputation.effort import Effort
from plmcmc.imputation.layout import Layout
from plmcmc.imputation.model import TableModel
from plmcmc.storage.stored import (
    WEIGHTS,
    check_same,
    damage_named,
    free_place,
    read_model,
    write_model,
)
from plmcmc.storage.strict_json import Fields, shown
from plmcmc.training.tables.gaussian import Gaussian
from plmcmc.training.tables.settings import TableTraining

FORMAT = "plmcmc-imputer"
# Of each thing that an effort counts.
MOST = 10**6
# Trajectories for each row: a file that asks for more would have whoever loads it wait for days.
# The largest effort that has a name takes 17,280.
MOST_TRAJECTORIES = 2 * 10**6
# What a drawing needs one of.
_SOME = ("members", "chains", "states")
VERSION = 4
_PLAIN = (str, bool, int, float)
_FLOW, _MIXTURE = "flow.", "mixture."
_FIELDS = ("format", "version", "sha256", "weights", "statistic", "effort", "seed", "rows")
_FIELDS += ("columns", "named", "flow", "mixture")


def save_imputer(imputer: Any, path: str | Path, *, overwrite: bool) -> Path:
    """Write a fitted imputer, whole or not at all."""
    _check_walk(imputer.effort_, "effort")
    place = free_place(path, "imputer", overwrite=overwrite)
    model: TableModel = imputer.model_
    described = {
        "format": FORMAT,
        "version": VERSION,
        "statistic": imputer.statistic,
        "effort": asdict(imputer.effort_),
        "seed": imputer.seed_,
        "rows": imputer.rows_,
        "columns": _columns(imputer.layout_),
        "named": hasattr(imputer, "feature_names_in_"),
        "flow": describe(model.flow),
        "mixture": None if model.mixture is None else describe(model.mixture),
    }
    tensors = {f"{_FLOW}{name}": tensor for name, tensor in model.flow.state_dict().items()}
    if model.mixture is not None:
        own = model.mixture.state_dict()
        tensors |= {f"{_MIXTURE}{name}": tensor for name, tensor in own.items()}
    for name in ("gaussian", "others"):
        mean, covariance = getattr(model, name)
        tensors |= {f"{name}.mean": mean, f"{name}.covariance": covariance}
    for number, column in enumerate(model.schema.columns):
        tensors |= {f"column.{number}.{name}": t for name, t in _tensors(column).items()}
    return write_model(place, described, tensors)


def load_imputer(kind: type, path: str | Path, device: str) -> Any:
    """Read an imputer that `save_imputer` wrote, onto a device."""
    path, where = Path(path), device_of(device)
    with damage_named(path):
        described, tensors = read_model(path, FORMAT, VERSION)
        described.only(_FIELDS)
        imputer = kind(
            _effort(described.inside("effort")),
            statistic=described.take("statistic", str, STATISTICS),
            random_state=described.count("seed"),
            device=device,
        )
        imputer.layout_ = _layout(described.each("columns"))
        imputer.model_ = _model(described, imputer.layout_, _Tensors(tensors))
        imputer.effort_, imputer.seed_ = imputer.effort, imputer.random_state
        imputer.rows_ = described.count("rows")
        imputer.n_features_in_ = len(imputer.layout_.names)
        if described.take("named", bool):
            imputer.feature_names_in_ = np.array(imputer.layout_.names, dtype=object)
    imputer.model_ = imputer.model_.to(where)
    imputer.convergence_ = no_chains(imputer.model_)
    return imputer


def _columns(layout: Layout) -> list[dict[str, Any]]:
    found = []
    for name, kind, levels in zip(layout.names, layout.kinds, layout.levels, strict=True):
        strange = [level for level in levels or () if not _is_plain(level)]
        if strange:
            raise TypeError(
                f"column {name!r} has levels that cannot be stored in a file, such as "
                f"{strange[0]!r}: turn them into text before fitting"
            )
        found.append({"name": name, "kind": kind, "levels": levels})
    return found


def _tensors(column: Column) -> dict[str, Tensor]:
    if isinstance(column, Levels):
        parts = {"order": column.order, "thresholds": column.thresholds, "cuts": column.cuts}
    else:
        own = column.marginal
        parts = {"atoms": own.atoms, "low": own.low, "high": own.high}
    return {name: torch.as_tensor(part) for name, part in parts.items()}


def _is_plain(level: Any) -> bool:
    return isinstance(level, _PLAIN) and not (isinstance(level, float) and not math.isfinite(level))


def _effort(described: Fields) -> Effort:
    training = _settings(TableTraining, described.inside("training"), ())
    effort = Effort(training=TableTraining(**training), **_settings(Effort, described, _SOME))
    _check_walk(effort, described.where)
    return effort


def _check_walk(effort: Effort, where: str) -> None:
    """Refuse to draw for ever: each number may be small enough, and all of them together not."""
    members = effort.members + effort.mixtures
    found = members * effort.chains * (effort.burn_in + effort.states)
    if found > MOST_TRAJECTORIES:
        raise ValueError(
            f"{where}: expected at most {MOST_TRAJECTORIES} for (members + mixtures) x chains x "
            f"(burn_in + states); got {found}: use fewer states"
        )


def _settings(kind: type, described: Fields, some: Collection[str]) -> dict[str, Any]:
    """Return the numbers that a dataclass is made of; there must be `some` of these."""
    described.only([own.name for own in fields(kind)])
    # Annotations are text.
    types = {own.name: own.type for own in fields(kind) if own.type in ("int", "float")}
    return {
        name: (
            described.count(name, int(name in some), MOST)
            if type_ == "int"
            else described.take(name, float)
        )
        for name, type_ in types.items()
    }


def _layout(columns: list[Fields]) -> Layout:
    if not columns:
        raise ValueError("config.json, columns: expected at least one")
    for column in columns:
        column.only(("name", "kind", "levels"))
    names = [column.take("name", str) for column in columns]
    if len(set(names)) < len(names):
        raise ValueError("config.json, columns: two have the same name")
    kinds = [column.take("kind", str, KINDS) for column in columns]
    levels = [_levels(*both) for both in zip(columns, kinds, strict=True)]
    return Layout(tuple(names), tuple(kinds), tuple(levels))


def _levels(column: Fields, kind: str) -> tuple[Any, ...] | None:
    """Return what a column's codes stand for, if its kind has any."""
    if kind in ("continuous", "integer"):
        if column.has("levels"):
            raise ValueError(f"{column.where}.levels: a column of numbers has none")
        return None
    levels = column.take("levels", list)
    plain = all(isinstance(level, _PLAIN) for level in levels)
    if not plain or not levels or len(set(levels)) < len(levels):
        raise ValueError(f"{column.where}.levels: expected distinct values; got {shown(levels)}")
    if kind == "boolean" and levels != [False, True]:
        raise ValueError(f"{column.where}.levels: expected false and true; got {shown(levels)}")
    return tuple(levels)


class _Tensors:
    """The tensors of a file, each taken once, with its shape and precision checked."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self.left = dict(tensors)

    def take(self, name: str, dtype: torch.dtype, *shape: int | None) -> Tensor:
        """Return a tensor of this shape; None stands for any length but 0."""
        if name not in self.left:
            raise ValueError(f"{WEIGHTS}: {name!r} is missing")
        found = self.left.pop(name)
        lengths = [*found.shape] if found.ndim == len(shape) else [0] * len(shape)
        sizes = [max(own, 1) if s is None else s for s, own in zip(shape, lengths, strict=True)]
        check_same(found, torch.empty(sizes, dtype=dtype, device="meta"), f"{WEIGHTS}, {name}")
        return found

    def under(self, prefix: str) -> dict[str, Tensor]:
        """Return all that are left whose name begins so, without it."""
        names = [name for name in self.left if name.startswith(prefix)]
        return {name.removeprefix(prefix): self.left.pop(name) for name in names}


def _model(described: Fields, layout: Layout, tensors: _Tensors) -> TableModel:
    named = enumerate(zip(layout.names, layout.kinds, layout.levels, strict=True))
    schema = Schema(tuple(_column(f"column.{n}", *own, tensors) for n, own in named))
    width = schema.width
    gaussian = _gaussian("gaussian", (width,), tensors)
    others = _gaussian("others", (None, width), tensors)
    flow = _flow(described, "flow", TabularFlow, "members", width, tensors)
    check_bounded(flow)
    mixture = None
    if described.has("mixture"):
        mixture = _flow(described, "mixture", GaussianMixture, "mixtures", width, tensors)
        check_mixture(mixture)
    if tensors.left:
        raise ValueError(f"{WEIGHTS}: unexpected tensor {shown(next(iter(tensors.left)))}")
    return TableModel(schema, gaussian, others, flow, mixture)


def _flow(
    described: Fields, name: str, kind: Any, counted: str, width: int, tensors: _Tensors
) -> Any:
    """Return a flow of scores, with as many members as the effort counts."""
    own, prefix = described.inside(name), f"{name}."
    own.take("name", str, (kind.name,))
    if own.inside("config").count("features") != width:
        raise ValueError(f"{own.where}.config.features: expected {width}, to match the columns")
    built = rebuild(own, torch.float32, tensors.under(prefix), prefix)
    members = described.inside("effort").count(counted)
    if built.members != members:
        raise ValueError(f"{own.where}.config.members: expected {members}, as effort.{counted} is")
    return built


def _gaussian(name: str, shape: tuple[int | None, ...], tensors: _Tensors) -> Gaussian:
    mean = tensors.take(f"{name}.mean", torch.float64, *shape)
    wide = (*mean.shape, mean.shape[-1])
    covariance = tensors.take(f"{name}.covariance", torch.float64, *wide)
    check_moments(mean, covariance, name)
    return Gaussian(mean, covariance)


def _in_turn(low: Tensor, high: Tensor) -> bool:
    """Whether scores of values follow one another; only the outermost ends may be infinite."""
    ends = torch.stack([low, high], 1).flatten()
    inner = ends[1:-1]
    # Two ends that are the same number come from two sums.
    rising = (inner.diff() > -1e-6).all()
    outer = (low[0] < torch.inf) & (high[-1] > -torch.inf)
    return bool(inner.isfinite().all() & rising & outer)


def _column(
    place: str, name: str, kind: str, levels: tuple[Any, ...] | None, tensors: _Tensors
) -> Column:
    """Return a column's way to scores and back."""
    if kind == "categorical":
        count = len(levels or ())
        order = tensors.take(f"{place}.order", torch.int64, count)
        check_order(order, f"{WEIGHTS}, {place}.order")
        splits = Levels.splits(count)
        thresholds = tensors.take(f"{place}.thresholds", torch.float64, splits)
        cuts = tensors.take(f"{place}.cuts", torch.float64, count - 1 - splits)
        if not bool(torch.cat([thresholds, cuts]).isfinite().all() & (cuts.diff() > 0).all()):
            raise ValueError(f"{WEIGHTS}, {place}: expected finite thresholds, and cuts that rise")
        return Levels(name, order.numpy(), thresholds.numpy(), cuts.numpy())
    atoms = tensors.take(f"{place}.atoms", torch.float64, None)
    low, high = (
        tensors.take(f"{place}.{end}", torch.float64, len(atoms)) for end in ("low", "high")
    )
    ordered = bool((atoms.diff() > 0).all() & atoms.isfinite().all() & (low <= high).all())
    if not ordered or not _in_turn(low, high):
        raise ValueError(f"{WEIGHTS}, {place}: expected values in order, with scores of each")
    if levels is not None and not 0 <= float(atoms[0]) <= float(atoms[-1]) < len(levels):
        raise ValueError(f"{WEIGHTS}, {place}.atoms: expected codes of {len(levels)} levels")
    return Numbers(name, kind, Marginal(atoms.numpy(), low.numpy(), high.numpy()))
