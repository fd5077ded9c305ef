"""What this machine is: versions, devices, memory, threads. No name of it, no user, no path."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from plmcmc import __version__
from plmcmc.threads import cores

GIGABYTE = 2**30
_OF_DEVELOPERS = ("test", "lint")
# Of a container, which may have less than the machine that it runs on.
_CONTAINER = Path("/sys/fs/cgroup")


def machine() -> dict[str, Any]:
    """Return versions, devices with their memory, and threads, as JSON can hold them."""
    return {
        "plmcmc": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": dict(_packages()),
        "devices": [_cpu(), *_gpus()],
        "threads": {
            "torch": torch.get_num_threads(),
            "between operations": torch.get_num_interop_threads(),
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
        },
    }


def _packages() -> Iterator[tuple[str, str | None]]:
    """Yield what plmcmc needs with versions, None if it is not there, and extras that are there."""
    try:
        wanted = metadata.requires("plmcmc") or []
    except metadata.PackageNotFoundError:
        wanted = ["torch", "numpy", "safetensors"]
    for requirement in sorted(wanted, key=str.lower):
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        version = None
        with suppress(metadata.PackageNotFoundError):
            version = metadata.version(name)
        extra = re.search(r"extra == ['\"](\w+)", requirement)
        needed = extra is None or (version is not None and extra[1] not in _OF_DEVELOPERS)
        if needed and name != "plmcmc":
            yield name, version


def _cpu() -> dict[str, Any]:
    total, free = memory()
    return {
        "name": "cpu",
        "model": platform.machine(),
        "cores": cores(),
        "free": free,
        "total": total,
    }


def _gpus() -> Iterator[dict[str, Any]]:
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        free, total = torch.cuda.mem_get_info(number)
        model = torch.cuda.get_device_name(number)
        yield {"name": f"cuda:{number}", "model": model, "free": free, "total": total}


def memory() -> tuple[int | None, int | None]:
    """Return the bytes of memory that there are, and that are free; None where nobody can tell."""
    total = free = None
    with suppress(OSError, ValueError, AttributeError):
        page = os.sysconf("SC_PAGE_SIZE")
        total, free = page * os.sysconf("SC_PHYS_PAGES"), page * os.sysconf("SC_AVPHYS_PAGES")
    with suppress(OSError, AttributeError):
        # What is kept of files is free, too.
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        free = 1024 * int(found[1]) if found else free
    with suppress(OSError, ValueError):
        limit = int((_CONTAINER / "memory.max").read_text())
        left = limit - int((_CONTAINER / "memory.current").read_text())
        total, free = min(total or limit, limit), min(free or left, left)
    return total, free


def free_memory() -> int | None:
    """Return the bytes of memory that are free; None where nobody can tell."""
    return memory()[1]


def gigabytes(size: int | None) -> str:
    """Return a number of bytes in words."""
    return "unknown" if size is None else f"{size / GIGABYTE:.1f} GB"
