"""What went wrong, told once: also by several processes that meet the same.

Nothing heavy is imported here: every command begins with it.
"""

from __future__ import annotations

import sys
import time
from os import environ

from plmcmc.cli.printable import printable

# Seconds until torchrun has noticed that the leader ended, and has ended the others.
PATIENCE = 3.0


def complain(words: str) -> None:
    """Print what went wrong, where errors go.

    Of processes that torchrun started the leader speaks, and torchrun ends the others. One that is
    still there after a while met something that the leader did not, and says so itself.
    """
    rank = environ.get("RANK", "0") if "TORCHELASTIC_RUN_ID" in environ else "0"
    if rank != "0":
        time.sleep(PATIENCE)
        words = f"process {rank}: {words}"
    print(f"plmcmc: {printable(words)}", file=sys.stderr)
