"""Model files changed on purpose, with hashes that fit: what lies behind the hashes is met."""

import hashlib
import json
from pathlib import Path

from plmcmc.storage.stored import CONFIG, WEIGHTS


def rehash(path: Path) -> None:
    """Make the hashes of a saved model's directory those of what it holds now."""
    weights = (path / WEIGHTS).read_bytes()
    config = json.loads((path / CONFIG).read_text())
    (path / CONFIG).write_bytes(hashed(config, weights))


def hashed(config: dict, weights: bytes) -> bytes:
    """Return a description with the hashes of the weights and of itself."""
    found = {name: value for name, value in config.items() if name != "sha256"}
    found["weights"] = {"bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()}
    own = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    return json.dumps(found | {"sha256": own}).encode()


def edit(path: Path, **changes) -> None:
    """Change entries of a saved model's description, and hash it again."""
    config = json.loads((path / CONFIG).read_text())
    (path / CONFIG).write_text(json.dumps(config | changes))
    rehash(path)
