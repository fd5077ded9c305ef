"""Imputers as files: a directory with `config.json` and `weights.safetensors`. Never pickle."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plmcmc.data import Marginal, Schema
from plmcmc.data.schema import Column, Levels, Numbers
from plmcmc.flows.files import (
    damage_named,
    describe,
    free_place,
    read_directory,
    rebuild,
    write_directory,
)
from plmcmc.imputation.convergence import no_chains
from plmcmc.imputation.device import device_of
from plmcmc.imputation.effort import Effort
from plmcmc.imputation.layout import Layout
from plmcmc.imputation.model import TableModel
from plmcmc.training.gaussian import Gaussian
from plmcmc.training.tabular import TableTraining

FORMAT = "plmcmc-imputer"
VERSION = 1
_PLAIN = (str, bool, int, float)


def save_imputer(imputer: Any, path: str | Path, *, overwrite: bool) -> Path:
    """Write a fitted imputer, whole or not at all."""
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
    }
    tensors = {f"flow.{name}": tensor for name, tensor in model.flow.state_dict().items()}
    for name in ("gaussian", "others"):
        mean, covariance = getattr(model, name)
        tensors |= {f"{name}.mean": mean, f"{name}.covariance": covariance}
    for number, column in enumerate(model.schema.columns):
        tensors |= {f"column.{number}.{name}": t for name, t in _tensors(column).items()}
    return write_directory(place, described, tensors)


def load_imputer(kind: type, path: str | Path, device: str) -> Any:
    """Read an imputer that `save_imputer` wrote, onto a device."""
    path, where = Path(path), device_of(device)
    with damage_named(path):
        described, tensors = read_directory(path, FORMAT, VERSION)
        settings: dict[str, Any] = dict(described["effort"])
        effort = Effort(training=TableTraining(**settings.pop("training")), **settings)
        imputer = kind(
            effort,
            statistic=described["statistic"],
            random_state=described["seed"],
            device=device,
        )
        imputer.effort_ = effort
        columns = described["columns"]
        imputer.layout_ = Layout(
            tuple(column["name"] for column in columns),
            tuple(column["kind"] for column in columns),
            tuple(None if c["levels"] is None else tuple(c["levels"]) for c in columns),
        )
        flow = rebuild(described["flow"], torch.float32, _under("flow.", tensors))
        gaussian, others = (
            Gaussian(tensors[f"{name}.mean"], tensors[f"{name}.covariance"])
            for name in ("gaussian", "others")
        )
        schema = Schema(tuple(_column(n, c, tensors) for n, c in enumerate(columns)))
        imputer.model_ = TableModel(schema, gaussian, others, flow.to(where))
        imputer.convergence_ = no_chains(imputer.model_)
        imputer.seed_ = int(described["seed"])
        imputer.rows_ = int(described["rows"])
        imputer.n_features_in_ = len(columns)
        if described["named"]:
            imputer.feature_names_in_ = np.array(imputer.layout_.names, dtype=object)
        return imputer


def _columns(layout: Layout) -> list[dict[str, Any]]:
    found = []
    for name, kind, levels in zip(layout.names, layout.kinds, layout.levels, strict=True):
        strange = [level for level in levels or () if not isinstance(level, _PLAIN)]
        if strange:
            raise TypeError(
                f"column {name!r} has levels that a file cannot hold, such as {strange[0]!r}: turn "
                f"them into text before fitting"
            )
        found.append({"name": name, "kind": kind, "levels": levels})
    return found


def _tensors(column: Column) -> dict[str, Tensor]:
    if isinstance(column, Levels):
        parts = {"order": column.order, "thresholds": column.thresholds}
    else:
        own = column.marginal
        parts = {"atoms": own.atoms, "low": own.low, "high": own.high}
    return {name: torch.as_tensor(part) for name, part in parts.items()}


def _column(number: int, described: dict[str, Any], tensors: dict[str, Tensor]) -> Column:
    parts = {n: t.numpy() for n, t in _under(f"column.{number}.", tensors).items()}
    if described["kind"] == "categorical":
        return Levels(described["name"], parts["order"], parts["thresholds"])
    marginal = Marginal(parts["atoms"], parts["low"], parts["high"])
    return Numbers(described["name"], described["kind"], marginal)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
