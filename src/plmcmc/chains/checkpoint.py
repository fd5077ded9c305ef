"""Checkpoints: written whole or not at all, and refused by a run they do not belong to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from plmcmc.chains.record import Recorder
from plmcmc.disk import check_directory, write
from plmcmc.flows import FileError
from plmcmc.rng import RandomState, Streams, seed_of
from plmcmc.storage.stored import DAMAGE, check_header, check_same
from plmcmc.storage.strict_json import Fields, parsed


class CheckpointError(FileError):
    """A checkpoint is damaged, or belongs to a different run."""


@runtime_checkable
class Persistent(Protocol):
    """A stepper with tensors of its own, such as a flow in training."""

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint needs."""
        ...

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from where `tensors()` was taken."""
        ...


def fingerprint(*tensors: Tensor) -> str:
    """Return a hash of tensors: shapes, dtypes and every bit."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def described(part: Any) -> str:
    """Return what tells a run's part from another: its kind, settings, and every bit of tensors."""
    if isinstance(part, Tensor):
        return fingerprint(part)
    if isinstance(part, nn.Module):
        # What an architecture leaves out of its tensors, such as an activation, is in its repr.
        tensors, layers = fingerprint(*part.state_dict().values()), _hash(repr(part).encode())
        return f"{type(part).__name__}-{tensors}-{layers}"
    if is_dataclass(part) and not isinstance(part, type):
        settings = (f"{f.name}={described(getattr(part, f.name))}" for f in fields(part))
        return f"{type(part).__name__}({', '.join(settings)})"
    if isinstance(part, np.ndarray):
        return f"{part.dtype}{part.shape}-{_hash(part.tobytes())}"
    if isinstance(part, dict | list | tuple | set):
        inside = part.items() if isinstance(part, dict) else part
        return f"[{', '.join(described(item) for item in inside)}]"
    if part is None or isinstance(part, str | bytes | int | float):
        return repr(part)
    # Not the repr, which may hold an address in memory that no later run has.
    kind = getattr(part, "__qualname__", type(part).__qualname__)
    return f"{type(part).__module__}.{kind}({described(dict(getattr(part, '__dict__', {})))})"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def resumed_seed(path: str | Path | None, random_state: RandomState) -> int:
    """Return the seed of `random_state`, or, if that is None, of the run saved at `path`."""
    if random_state is None and path is not None and Path(path).exists():
        identity = Checkpoint(Path(path), {}).read_identity()
        if "seed" not in identity:
            raise CheckpointError(f"{path} is a checkpoint without a seed: pass random_state")
        return int(identity["seed"])
    return seed_of(random_state)


@dataclass(frozen=True)
class Checkpoint:
    """A file that a run saves itself to, and resumes from.

    Attributes:
        path: the file.
        identity: what makes the run this run; a checkpoint with another identity is refused.
        every: steps between two saves.
        rest: a save is put off until so many times as long as the last one took have gone by.
    """

    path: Path
    identity: Mapping[str, str]
    every: int = 1000
    rest: float = 0.0

    def check_place(self) -> None:
        """Refuse a place that could not be written to before any work, not at the first save."""
        check_directory(self.path.parent)

    def save(
        self,
        step: int,
        state: Any,
        streams: Streams,
        recorders: Sequence[Recorder],
        stepper: object,
    ) -> None:
        """Write everything; until it is on the disk, the old checkpoint stands."""
        tensors = {"step": torch.tensor(step)}
        for name, part in _parts(state, streams, recorders, stepper).items():
            tensors |= {f"{name}.{key}": value for key, value in part.items()}
        # Fields may share memory (a data-space state's position is its completion): copies may not.
        tensors = {key: value.detach().cpu().clone() for key, value in tensors.items()}
        identity = json.dumps(dict(self.identity), sort_keys=True)
        noted = {"identity": identity, "sha256": _digest(tensors)}
        write(self.path, save(tensors, noted))

    def load(
        self, state: Any, streams: Streams, recorders: Sequence[Recorder], stepper: object
    ) -> tuple[int, Any]:
        """Put everything back and return the step and the state, or raise `CheckpointError`."""
        wanted = _parts(state, streams, recorders, stepper)
        tensors = self._read(wanted)
        parts = {
            name: {key: tensors[f"{name}.{key}"] for key in part} for name, part in wanted.items()
        }
        try:
            streams.restore(parts["streams"])
        except RuntimeError as error:
            raise self._damaged(error) from error
        for index, recorder in enumerate(recorders):
            recorder.restore(parts[f"recorder{index}"])
        if isinstance(stepper, Persistent):
            stepper.restore(parts["stepper"])
        own = state._asdict().items()
        fields = {key: parts["state"][key].to(old.device) for key, old in own}
        return int(tensors["step"]), type(state)(**fields)

    def read_identity(self) -> dict[str, str]:
        """Return the identity that the file carries."""
        return self._noted()[0]

    def _noted(self) -> tuple[dict[str, str], str]:
        """Return what the file says of itself: an identity, and a hash of its tensors."""
        try:
            # Not a pipe, which might never end.
            if not self.path.is_file():
                raise ValueError("it is not a file")
            with self.path.open("rb") as start:
                check_header(start.read(8))
            with safe_open(self.path, "pt") as file:
                noted = Fields(file.metadata(), "its metadata")
            identity = Fields(parsed(noted.take("identity", str).encode()), "its identity")
            own = {name: identity.take(name, str) for name in identity.found}
            return own, noted.take("sha256", str)
        except (*DAMAGE, OSError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> CheckpointError:
        return CheckpointError(
            f"{self.path} is not a checkpoint, or is damaged ({error}): delete it to start over"
        )

    def _read(self, wanted: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Return the tensors, if they are this run's, of its sizes, and whole."""
        (found, digest), own = self._noted(), dict(self.identity)
        differing = sorted(k for k in found.keys() | own.keys() if found.get(k) != own.get(k))
        if differing:
            details = "; ".join(
                f"{key}: saved {found.get(key)!s:.60}, now {own.get(key)!s:.60}"
                for key in differing
            )
            raise CheckpointError(
                f"{self.path} belongs to a different run ({details}): delete it, or give another "
                "path"
            )
        like = {f"{name}.{key}": t for name, part in wanted.items() for key, t in part.items()}
        like["step"] = torch.tensor(0)
        try:
            with safe_open(self.path, "pt") as file:
                self._check_names(set(file.keys()), set(like))
                tensors = {key: file.get_tensor(key) for key in like}
            for key, tensor in tensors.items():
                check_same(tensor, like[key], key)
            if _digest(tensors) != digest or int(tensors["step"]) < 0:
                raise ValueError("sha256: its tensors do not match this hash")
        except CheckpointError:
            raise
        except (*DAMAGE, OSError) as error:
            raise self._damaged(error) from error
        return tensors

    def _check_names(self, found: set[str], wanted: set[str]) -> None:
        for names, words in (
            (wanted - found, "lacks tensors"),
            (found - wanted, "has unexpected tensors"),
        ):
            if names:
                listed = ", ".join(f"{name:.60}" for name in sorted(names)[:3])
                raise CheckpointError(
                    f"{self.path} {words} {listed}: it was written by another version; delete it "
                    f"to start over"
                )


def _parts(
    state: Any, streams: Streams, recorders: Sequence[Recorder], stepper: object
) -> dict[str, dict[str, Tensor]]:
    parts = {"state": state._asdict(), "streams": streams.tensors()}
    parts |= {f"recorder{index}": r.tensors() for index, r in enumerate(recorders)}
    if isinstance(stepper, Persistent):
        parts["stepper"] = stepper.tensors()
    return parts


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """Return a hash of tensors with their names: what a disk has spoilt is not gone on from."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name}={fingerprint(tensors[name])}".encode())
    return digest.hexdigest()
