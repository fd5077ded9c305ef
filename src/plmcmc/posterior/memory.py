"""How many rows to work on at once, and what to do when that was too many."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from plmcmc.rng import BLOCK_ROWS, Block, chunks_of

# Numbers to keep at once on a CPU, a quarter of a gigabyte in float32: more gains no speed.
CPU_NUMBERS = 2**26
# Of a GPU's free memory, what is left is for the flow's own activations.
GPU_SHARE = 0.5
REPEATABLE_SHARE = 0.25
_SIGNS = ("not enough memory", "can't allocate memory", "out of memory")


class MemoryWarning(UserWarning):
    """The device ran out of memory; fewer rows are processed at once."""


def rows_at_once(numbers: int, like: Tensor, *, repeatable: bool = False) -> int:
    """Return how many rows fit, if each takes so many numbers of a tensor's kind.

    Args:
        numbers: how many a row takes.
        like: says dtype and device.
        repeatable: must not depend on what else is in memory: a resumed run looks for its chunks.
    """
    if like.device.type != "cuda":
        return max(1, CPU_NUMBERS // numbers)
    free, total = torch.cuda.mem_get_info(like.device)
    # What torch keeps for itself is free, too.
    free += torch.cuda.memory_reserved(like.device) - torch.cuda.memory_allocated(like.device)
    budget = REPEATABLE_SHARE * total if repeatable else GPU_SHARE * free
    return max(1, int(budget) // like.element_size() // numbers)


def in_chunks(
    rows: int,
    chunk_rows: int,
    work: Callable[[list[Block]], None],
    done: Callable[[int], None],
    *,
    block_rows: int = BLOCK_ROWS,
    halved: Callable[[list[Block]], bool] = lambda blocks: False,
) -> None:
    """Do the work chunk by chunk; one that does not fit into memory is halved.

    Args:
        rows: how many there are.
        chunk_rows: how many to try at once; a chunk has whole blocks.
        work: does a chunk's blocks, or raises; if it raises, it has left nothing behind.
        done: told how many rows are done, after each chunk.
        block_rows: of each block.
        halved: whether a chunk was found not to fit before, and halves of it were begun.

    Raises:
        MemoryError: when not even one block fits.
    """
    pending = chunks_of(rows, chunk_rows, block_rows)
    while pending:
        blocks = pending.pop(0)
        middle = len(blocks) // 2
        if middle > 0 and halved(blocks):
            pending[:0] = [blocks[:middle], blocks[middle:]]
            continue
        problem = _tried(work, blocks)
        if problem is None:
            done(blocks[-1].stop)
            continue
        here = blocks[-1].stop - blocks[0].start
        if len(blocks) == 1:
            raise MemoryError(
                f"not enough memory for {here} rows at once, the smallest possible batch "
                f"({problem}): use fewer chains or particles, pass fewer rows per call, or use a "
                "device with more memory"
            )
        pending[:0] = [blocks[:middle], blocks[middle:]]
        warnings.warn(
            f"out of memory with {here} rows at once: continuing with half as many ({problem})",
            MemoryWarning,
            stacklevel=4,
        )


def memory_ran_out(error: BaseException) -> str | None:
    """Return what was said of memory that ran out; None if the error is of something else."""
    said = str(error)
    short = isinstance(error, torch.OutOfMemoryError | MemoryError)
    if not short and not any(sign in said for sign in _SIGNS):
        return None
    return (said.splitlines() or ["MemoryError"])[0][:120]


def _tried(work: Callable[[list[Block]], None], blocks: list[Block]) -> str | None:
    """Return None when the work is done, and what was said when memory ran out."""
    try:
        work(blocks)
    except (RuntimeError, MemoryError) as error:
        said = memory_ran_out(error)
        if said is None:
            raise
    else:
        return None
    # Only here, where the error and with it the tensors that it held are gone.
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return said
