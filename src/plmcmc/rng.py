"""Seeds to random streams: one generator per fixed block of rows.

Rows are cut into blocks of 64 (up to 2,048 on a GPU, where every block is a launch), always at the
same places, and every block owns a generator seeded by `(seed, purpose, block index)`. Chunks and
workers hold whole blocks, so what a row gets depends neither on how the work was cut nor on who did
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

BLOCK_ROWS = 64
# Rows of a table that are filled as if they were a table of their own, by whoever it may be.
PART_ROWS = 4096
# On a GPU: the most rows of a block, and the numbers that they may take, a gigabyte in float32.
GPU_ROWS, GPU_NUMBERS = 2048, 2**28

# Seeds from here on are those of parts.
LONG = 2**128
# Where the 624 words of a Mersenne twister stand in the state of torch's CPU generator.
MERSENNE = slice(24, 24 + 8 * 624)

RandomState = int | np.integer | np.random.Generator | np.random.RandomState | None


class Block(NamedTuple):
    """Rows `start` to `stop` (excluded), and the number of the block in the whole data set."""

    number: int
    start: int
    stop: int


def rows_of_a_block(device: torch.device | str, numbers: int) -> int:
    """Return how many rows a block has, if each takes so many numbers; free memory has no say."""
    if torch.device(device).type != "cuda":
        return BLOCK_ROWS
    rows = min(GPU_ROWS, GPU_NUMBERS // numbers)
    return max(BLOCK_ROWS, rows // BLOCK_ROWS * BLOCK_ROWS)


def blocks_of(rows: int, block_rows: int = BLOCK_ROWS) -> list[Block]:
    """Cut `rows` into blocks; the last one takes the remainder too.

    No block but an only one is smaller than 64 rows: below that size a matrix library may sum in
    another order, and the same row would come out different in its last bit.
    """
    count = max(1, rows // block_rows)
    starts = [block_rows * index for index in range(count)] + [rows]
    return [Block(index, starts[index], starts[index + 1]) for index in range(count)]


def chunks_of(rows: int, chunk_rows: int, block_rows: int = BLOCK_ROWS) -> list[list[Block]]:
    """Group the blocks of `rows` into chunks of about `chunk_rows`, at least one block each."""
    blocks = blocks_of(rows, block_rows)
    size = max(1, chunk_rows // block_rows)
    return [blocks[first : first + size] for first in range(0, len(blocks), size)]


def parts_of(rows: int) -> list[slice]:
    """Cut `rows` into parts of `PART_ROWS`, the last one shorter."""
    return [slice(start, min(start + PART_ROWS, rows)) for start in range(0, rows, PART_ROWS)]


def part_count(rows: int) -> int:
    """Return how many parts `rows` are cut into."""
    return -(-rows // PART_ROWS)


def part_seed(seed: int, part: int, file: int = 0) -> int:
    """Return the seed of one part of one table among several: of the first, the seed itself.

    Others have 128 bits, of which `generator` uses all: of the parts of a billion rows, many would
    share 32.
    """
    if part == file == 0:
        return seed
    words = np.random.SeedSequence([seed, file, part]).generate_state(4)
    return LONG | int.from_bytes(words.astype("<u4").tobytes(), "little")


def seed_of(random_state: RandomState = None) -> int:
    """Return an integer seed: `random_state` itself, one drawn from it, or a fresh one."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**32))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**32, dtype=np.uint64))
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer):
        raise TypeError(
            f"random_state must be an integer, a numpy Generator or None; got {random_state!r}"
        )
    if random_state < 0:
        raise ValueError(f"random_state must not be negative; got {random_state}")
    if random_state >= LONG:
        raise ValueError(f"random_state must be less than 2**128; got {random_state}")
    return int(random_state)


def generator(
    seed: int, purpose: str, index: int = 0, device: torch.device | str = "cpu"
) -> Generator:
    """Return the generator of block `index` for one purpose."""
    if seed >= LONG:
        return _of_part(seed, purpose, index, device)
    base = np.random.SeedSequence([seed, *purpose.encode()]).generate_state(1)[0]
    # torch's CPU generator keeps 32 bits of a seed: counting up from a hash makes no two blocks
    # of a run collide, where hashing each of a million rows' blocks would.
    return Generator(device).manual_seed((int(base) + index) % 2**32)


def _of_part(seed: int, purpose: str, index: int, device: torch.device | str) -> Generator:
    """Return a generator that others share no numbers with, of however many parts."""
    own = Generator(device)
    sequence = np.random.SeedSequence([seed, *purpose.encode(), index])
    if own.device.type != "cpu":
        return own.manual_seed(int(sequence.generate_state(1, np.uint64)[0]) >> 1)
    state = own.manual_seed(0).get_state().numpy()
    state[MERSENNE] = sequence.generate_state(624).astype(np.uint64).view(np.uint8)
    return own.set_state(torch.from_numpy(state))


class Streams:
    """Random numbers for a batch of rows, each block from its own generator.

    Args:
        generators: one per block.
        sizes: how many consecutive rows of the batch each generator serves.
    """

    def __init__(self, generators: list[Generator], sizes: list[int]) -> None:
        self.generators = generators
        self.sizes = sizes

    @classmethod
    def of_blocks(
        cls,
        seed: int,
        purpose: str,
        blocks: list[Block],
        *,
        chains: int = 1,
        device: torch.device | str = "cpu",
    ) -> Streams:
        """Return the streams of `blocks`, whose rows stand `chains` times each in the batch."""
        generators = [generator(seed, purpose, block.number, device) for block in blocks]
        return cls(generators, [chains * (block.stop - block.start) for block in blocks])

    @classmethod
    def of_rows(cls, seed: int, purpose: str, rows: int, **options: Any) -> Streams:
        """Return the streams of a whole data set of `rows`; options as for `of_blocks`."""
        return cls.of_blocks(seed, purpose, blocks_of(rows), **options)

    @property
    def rows(self) -> int:
        """How many rows of a batch these streams serve."""
        return sum(self.sizes)

    def normal(self, like: Tensor) -> Tensor:
        """Return independent standard normals, shape and dtype of `like` (rows first)."""
        return self.numbers("normal", like)

    def uniform(self, like: Tensor) -> Tensor:
        """Return independent uniforms on [0, 1), shape and dtype of `like` (rows first)."""
        return self.numbers("uniform", like)

    def numbers(self, kind: str, like: Tensor) -> Tensor:
        """Return numbers of one kind, `normal` or `uniform`, shape and dtype of `like`."""
        # In row order: torch fills other layouts with other numbers.
        out = torch.empty_like(like, requires_grad=False, memory_format=torch.contiguous_format)
        fill = getattr(Tensor, f"{kind}_")
        for part, source in zip(out.split(self.sizes), self.generators, strict=True):
            fill(part, generator=source)
        return out

    def draw(self, sampler: Callable[[int, Generator], Tensor]) -> Tensor:
        """Concatenate `sampler(rows, generator)` over the blocks."""
        pairs = zip(self.sizes, self.generators, strict=True)
        return torch.cat([sampler(size, source) for size, source in pairs])

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint needs to go on from here."""
        return {"generators": torch.stack([source.get_state() for source in self.generators])}

    def renew(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from where `tensors()` was taken, by new generators: the old ones are spoilt."""
        self.generators[:] = [Generator(source.device) for source in self.generators]
        self.restore(tensors)

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from where `tensors()` was taken."""
        for source, state in zip(self.generators, tensors["generators"], strict=True):
            # A copy: torch 2.13 crashes on a view that does not start its storage.
            source.set_state(state.clone())
