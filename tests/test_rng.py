"""Streams give a row the same numbers however the rows are cut, and no two rows the same ones."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import kstest, t

from plmcmc.rng import (
    BLOCK_ROWS,
    LONG,
    MERSENNE,
    Streams,
    blocks_of,
    chunks_of,
    generator,
    part_seed,
    rows_of_a_block,
    seed_of,
)

FALSE_ALARM = 1e-4
CHUNK_ROWS = [1, 63, 64, 65, 127, 128, 200, 500]


def normals(streams: Streams) -> torch.Tensor:
    return streams.normal(torch.empty(streams.rows, 5))


def uniforms(streams: Streams) -> torch.Tensor:
    return streams.uniform(torch.empty(streams.rows, 3, 2, dtype=torch.float64))


def permutations(streams: Streams) -> torch.Tensor:
    return streams.draw(lambda rows, source: torch.randperm(rows, generator=source))


KINDS = {"normal": normals, "uniform": uniforms, "draw": permutations}


def worst_correlation(vectors: np.ndarray) -> float:
    """Largest |t| of the correlations between any two of the rows of `vectors`."""
    pairs = np.corrcoef(vectors)[np.triu_indices(len(vectors), 1)].clip(-1 + 1e-15, 1 - 1e-15)
    return float(np.abs(pairs * np.sqrt((vectors.shape[1] - 2) / (1 - pairs**2))).max())


def correlation_limit(vectors: np.ndarray) -> float:
    """How large that may be: for independent normals, each |t| is exactly Student's."""
    count = len(vectors) * (len(vectors) - 1) / 2
    return float(t.isf(FALSE_ALARM / (2 * count), vectors.shape[1] - 2))


@pytest.mark.parametrize("rows", range(1, 401))
def test_blocks_tile_the_rows(rows):
    blocks = blocks_of(rows)
    assert [block.number for block in blocks] == list(range(len(blocks)))
    assert [block.start for block in blocks] == [BLOCK_ROWS * block.number for block in blocks]
    assert [block.stop for block in blocks] == [*(b.start for b in blocks[1:]), rows]
    sizes = [block.stop - block.start for block in blocks]
    assert min(sizes) >= min(rows, BLOCK_ROWS)
    assert max(sizes) < 2 * BLOCK_ROWS


@pytest.mark.parametrize("rows", [1, 63, 64, 100, 127, 128, 191, 192, 400])
@pytest.mark.parametrize("chunk_rows", [0, *CHUNK_ROWS])
def test_chunks_hold_whole_blocks(rows, chunk_rows):
    chunks = chunks_of(rows, chunk_rows)
    assert list(itertools.chain(*chunks)) == blocks_of(rows)
    assert all(chunks)
    # The remainder rides with the last block, so a chunk may pass its size by less than a block.
    largest = max(chunk[-1].stop - chunk[0].start for chunk in chunks)
    assert largest < max(chunk_rows, BLOCK_ROWS) + BLOCK_ROWS


@pytest.mark.parametrize("draw", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("chains", [1, 3])
@pytest.mark.parametrize("rows", [40, 300])
def test_numbers_do_not_depend_on_the_chunks(draw, chains, rows):
    whole = Streams.of_rows(7, "steps", rows, chains=chains)
    assert whole.rows == chains * rows
    expected = [draw(whole) for _ in range(3)]
    for chunk_rows in CHUNK_ROWS:
        parts = [
            Streams.of_blocks(7, "steps", chunk, chains=chains)
            for chunk in chunks_of(rows, chunk_rows)
        ]
        for step in expected:
            assert torch.equal(torch.cat([draw(part) for part in parts]), step)


@pytest.mark.parametrize("draw", ["normal", "uniform"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_do_not_depend_on_the_memory_layout(draw, dtype):
    # A state read back from a checkpoint is laid out anew, and must go on as it would have.
    rowwise, columnwise = torch.empty(130, 6, dtype=dtype), torch.empty(6, 130, dtype=dtype).T
    assert rowwise.stride() != columnwise.stride()
    one, other = (
        getattr(Streams.of_rows(0, "steps", 130), draw)(like) for like in (rowwise, columnwise)
    )
    assert one.dtype == dtype
    assert torch.equal(one, other)


def test_numbers_have_their_distribution_and_no_gradient():
    like = torch.empty(640, 50, dtype=torch.float64, requires_grad=True)
    streams = Streams.of_rows(3, "steps", 640)
    for values, law in ((streams.normal(like), "norm"), (streams.uniform(like), "uniform")):
        assert not values.requires_grad
        assert kstest(values.flatten().numpy(), law).pvalue > FALSE_ALARM


def test_rows_share_nothing():
    # Rows of one block, of several blocks, at two steps, and for two purposes.
    vectors = []
    for purpose in ("start", "steps"):
        streams = Streams.of_rows(0, purpose, 192)
        vectors += [streams.normal(torch.empty(192, 500)).numpy() for _ in range(2)]
    stacked = np.concatenate(vectors)
    assert len(np.unique(stacked)) > 0.99 * stacked.size
    assert worst_correlation(stacked) < correlation_limit(stacked)


def test_rows_that_share_noise_are_noticed():
    twice = Streams([generator(0, "steps"), generator(0, "steps")], [64, 64])
    vectors = twice.normal(torch.empty(128, 500)).numpy()
    assert worst_correlation(vectors) > correlation_limit(vectors)


def test_every_seed_purpose_and_block_has_its_own_generator():
    cases = list(itertools.product(range(20), ["start", "steps", "fit"], range(40)))
    seeds = {generator(*case).initial_seed() for case in cases}
    assert len(seeds) == len(cases)
    # More than 32 bits would be dropped by torch, and two blocks could meet.
    assert max(seeds) < 2**32
    firsts = {float(torch.rand((), generator=generator(*case)).double()) for case in cases[:400]}
    assert len(firsts) > 390


def test_blocks_are_numbered_in_the_whole_data_set():
    second = Streams.of_blocks(0, "steps", blocks_of(128)[1:])
    alone = Streams.of_rows(0, "steps", 64)
    assert not torch.equal(normals(second), normals(alone))


def test_restored_streams_go_on_where_they_were():
    streams = Streams.of_rows(1, "steps", 200, chains=2)
    normals(streams)
    saved = streams.tensors()
    expected = [normals(streams), uniforms(streams)]
    for other in (streams, Streams.of_rows(99, "other", 200, chains=2)):
        other.restore(saved)
        assert torch.equal(normals(other), expected[0])
        assert torch.equal(uniforms(other), expected[1])


def test_streams_of_another_size_are_not_restored():
    saved = Streams.of_rows(1, "steps", 200).tensors()
    with pytest.raises(ValueError, match="zip"):
        Streams.of_rows(1, "steps", 100).restore(saved)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_streams_on_a_gpu_are_chunked_and_restored_alike():
    whole = Streams.of_rows(7, "steps", 300, device="cuda")
    saved, like = whole.tensors(), torch.empty(300, 5, device="cuda")
    expected = whole.normal(like)
    assert expected.device.type == "cuda"
    parts = [Streams.of_blocks(7, "steps", c, device="cuda") for c in chunks_of(300, 64)]
    chunked = [part.normal(torch.empty(part.rows, 5, device="cuda")) for part in parts]
    assert torch.equal(torch.cat(chunked), expected)
    assert not torch.equal(whole.normal(like), expected)
    whole.restore(saved)
    assert torch.equal(whole.normal(like), expected)


@pytest.mark.parametrize("number", [0, 7, 2**32 - 1, 2**70, np.int64(7), np.uint8(7)])
def test_an_integer_is_its_own_seed(number):
    assert seed_of(number) == number
    assert type(seed_of(number)) is int
    generator(seed_of(number), "steps")


@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
def test_a_numpy_generator_gives_a_seed_and_moves_on(kind):
    first, second = kind(0), kind(0)
    seeds = [seed_of(first) for _ in range(3)]
    assert seeds == [seed_of(second) for _ in range(3)]
    assert len(set(seeds)) == 3
    assert all(type(seed) is int and 0 <= seed < 2**32 for seed in seeds)


def test_none_gives_a_fresh_seed():
    assert len({seed_of() for _ in range(5)}) == 5


@pytest.mark.parametrize("wrong", [True, np.True_, 1.0, np.float64(1), "0", [0], torch.tensor(0)])
def test_other_types_are_no_seeds(wrong):
    with pytest.raises(TypeError, match="random_state must be an integer, a numpy Generator"):
        seed_of(wrong)


def test_negative_numbers_are_no_seeds():
    with pytest.raises(ValueError, match="must not be negative; got -1"):
        seed_of(-1)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [(1, 2048), (3 * 2**17, 640), (2**19, 512), (2**21, 128), (2**22, 64), (2**30, 64)],
)
def test_blocks_are_larger_on_a_gpu_where_rows_are_small(numbers, expected):
    assert rows_of_a_block("cuda", numbers) == expected
    assert rows_of_a_block("cpu", numbers) == BLOCK_ROWS


def test_new_generators_go_on_where_the_old_ones_were():
    streams, like = Streams.of_rows(1, "steps", 200), torch.empty(200, 3)
    saved, old = streams.tensors(), list(streams.generators)
    expected = streams.normal(like)
    streams.renew(saved)
    assert torch.equal(streams.normal(like), expected)
    assert not any(one is other for one, other in zip(old, streams.generators, strict=True))


def test_blocks_of_another_size_cover_all_rows():
    blocks = blocks_of(1300, 512)
    assert [(block.start, block.stop) for block in blocks] == [(0, 512), (512, 1300)]
    chunks = chunks_of(5000, 1024, 512)
    assert list(itertools.chain(*chunks)) == blocks_of(5000, 512)
    assert [len(chunk) for chunk in chunks] == [2, 2, 2, 2, 1]


class TestParts:
    def test_the_words_of_a_state_stand_where_they_are_put(self):
        twister = np.random.MT19937()
        twister._legacy_seeding(5489)
        state = torch.Generator().manual_seed(5489).get_state().numpy()
        assert np.array_equal(state[MERSENNE].view(np.uint64), twister.state["state"]["key"])

    def test_draws_are_those_of_the_words(self):
        words = np.random.SeedSequence([part_seed(0, 1), *b"steps", 3]).generate_state(624)
        twister = np.random.MT19937()
        twister.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": 624}}
        drawn = torch.randint(2**20, (1000,), generator=generator(part_seed(0, 1), "steps", 3))
        assert np.array_equal(drawn.numpy(), twister.random_raw(1000) % 2**20)

    def test_parts_that_shared_32_bits_share_nothing(self):
        # Of seed 0, hashed to 32 bits, these two did: numbers of other parts' rows.
        pairs = [(75673, 0), (89578, 0)]
        one, two = (generator(part_seed(0, part), "steps", block) for part, block in pairs)
        assert not torch.equal(torch.randn(9, generator=one), torch.randn(9, generator=two))
        seeds = {part_seed(0, part) for part in range(150_000)}
        assert len(seeds) == 150_000
        hashed = [
            int(np.random.SeedSequence([0, 0, part]).generate_state(1)[0]) for part, _ in pairs
        ]
        assert hashed[0] == hashed[1]

    def test_the_first_part_has_the_seed_itself(self):
        assert part_seed(7, 0) == 7
        assert part_seed(7, 0, 1) >= LONG
        with pytest.raises(ValueError, match="less than"):
            seed_of(LONG)

    def test_blocks_of_a_part_are_independent(self):
        drawn = np.stack(
            [
                torch.randn(500, generator=generator(part_seed(0, 1), "a", i)).numpy()
                for i in range(40)
            ]
        )
        assert worst_correlation(drawn) < correlation_limit(drawn)
