"""`plmcmc doctor`: what this machine is, whether draws are exact on it, and what to report.

Nothing heavy is imported until it is called: help must answer at once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plmcmc.cli.parser import Commands

if TYPE_CHECKING:
    from plmcmc.diagnostics import Finding

BROKEN = (
    "Draws on this machine cannot be trusted. Run `pip check`, reinstall torch, or try another "
    "--device; if the problem persists, please report it with the lines below."
)


def add_doctor(commands: Commands) -> None:
    """Add `plmcmc doctor`."""
    doctor = commands.add_parser(
        "doctor",
        help="show versions, devices, memory and threads, and test that sampling is exact on this "
        "machine",
        description="Show versions, devices, memory and threads; draw from small flows and compare "
        "with a closed form, a numerical integral and the flow's own samples (under a minute); "
        "finish with text to paste into an issue. Exit code 1 if the draws are wrong.",
    )
    add = doctor.add_argument
    add("--json", action="store_true", help="print everything as one JSON object")
    add("--device", default="cpu", help="device to test, such as cuda (default: %(default)s)")
    doctor.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    from plmcmc.cli.machine import machine
    from plmcmc.cli.request import check_device
    from plmcmc.diagnostics import self_test
    from plmcmc.threads import one_thread

    check_device(arguments.device)
    found = machine()
    if not arguments.json:
        print(_shown(found), flush=True)
        print(f"\nSelf-test of exactness on {arguments.device} (under a minute):", flush=True)
    with one_thread():
        findings = self_test(arguments.device)
    passed = all(own.passed for own in findings)
    if arguments.json:
        told = {"device": arguments.device, "passed": passed}
        told["findings"] = [own._asdict() for own in findings]
        print(json.dumps(found | {"self_test": told}, indent=2))
    else:
        print("\n".join(_line(own) for own in findings))
        print("\nAll tests passed." if passed else f"\n{BROKEN}")
        print(f"\n{_report(found, arguments.device, findings)}")
    return 0 if passed else 1


def _shown(found: Mapping[str, Any]) -> str:
    from plmcmc.cli.machine import gigabytes

    lines = [f"plmcmc {found['plmcmc']} on Python {found['python']}, {found['platform']}"]
    lines += ["", "Packages:"]
    lines += [f"  {name:14} {version or 'MISSING'}" for name, version in found["packages"].items()]
    lines += ["", "Devices:"]
    for own in found["devices"]:
        memory = f"{gigabytes(own['free'])} free of {gigabytes(own['total'])}"
        cores = f", {own['cores']} cores" if "cores" in own else ""
        lines.append(f"  {own['name']:14} {own['model']}{cores}, {memory}")
    if len(found["devices"]) == 1:
        lines.append("  no GPU that torch can use")
    lines += ["", "Threads (commands on tables use one, unless OMP_NUM_THREADS asks for more):"]
    lines += [f"  {name:18} {number}" for name, number in found["threads"].items()]
    return "\n".join(lines)


def _line(own: Finding) -> str:
    return f"  {'ok  ' if own.passed else 'FAIL'}  {own.name:12} {own.words} ({own.seconds:.1f} s)"


def _report(found: Mapping[str, Any], device: str, findings: Sequence[Finding]) -> str:
    """Return what to paste into an issue: short, and nothing of whose machine it is."""
    from plmcmc.cli.machine import gigabytes

    packages = ", ".join(f"{name} {version}" for name, version in found["packages"].items())
    devices = "; ".join(
        f"{own['name']} {own['model']} ({gigabytes(own['free'])} of {gigabytes(own['total'])} free)"
        for own in found["devices"]
    )
    threads = ", ".join(f"{name} {number}" for name, number in found["threads"].items())
    lines = [
        "What to report (paste this into an issue, with the command and its output):",
        "",
        "```",
        f"plmcmc {found['plmcmc']}, Python {found['python']}, {found['platform']}",
        f"packages: {packages}",
        f"devices: {devices}",
        f"threads: {threads}",
        f"self-test on {device}:",
        *(_line(own) for own in findings),
        "```",
    ]
    return "\n".join(lines)
