"""The compiled loops against plain Python, and the two compiled variants against each other."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from parley.mpc.errors import ConfigurationError
from parley.mpc.kernels import CHUNK, Bytes, Kernels, as_matrices, best_variant, kernels
from parley.mpc.randomness import Csprng

VARIANTS = ["baseline", "wide"] if best_variant() == "wide" else ["baseline"]


@pytest.fixture(params=VARIANTS)
def native(request: pytest.FixtureRequest) -> Kernels:
    return kernels(request.param)


@pytest.fixture
def rng() -> Csprng:
    return Csprng(b"kernels".ljust(32))


def aes(key: Bytes, data: bytes) -> bytes:
    return Cipher(algorithms.AES(key.tobytes()), modes.ECB()).encryptor().update(data)


def test_aes_is_the_standards(native: Kernels, rng: Csprng) -> None:
    key, data = rng.octets(16), rng.octets(1024)
    expected = aes(key, data.tobytes())
    native.encrypt(native.expand_keys(key[None])[0], data)
    assert data.tobytes() == expected


@pytest.mark.parametrize(
    ("key", "plain", "cipher"),
    [
        ("2b7e151628aed2a6abf7158809cf4f3c", "3243f6a8885a308d313198a2e0370734", "3925841d02dc09fbdc118597196a0b32"),
        ("000102030405060708090a0b0c0d0e0f", "00112233445566778899aabbccddeeff", "69c4e0d86a7b0430d8cdb78070b4c55a"),
    ],
    ids=["B", "C.1"],
)
def test_known_answers_of_fips_197(native: Kernels, key: str, plain: str, cipher: str) -> None:
    schedule = native.expand_keys(np.frombuffer(bytes.fromhex(key), np.uint8)[None].copy())[0]
    data = np.frombuffer(bytes.fromhex(plain) * 16, np.uint8).copy()
    native.encrypt(schedule, data)
    assert data.tobytes().hex() == cipher * 16
    if key.startswith("2b"):  # appendix A.1: the last round's key
        assert schedule[160:].tobytes().hex() == "d014f9a8c9ee2589e13f0cc8b6630ca6"


@pytest.mark.parametrize("count", [1, 3, 16, 33, 200])
@pytest.mark.parametrize("blocks", [1, 4])
def test_the_hash_is_the_tweakable_one(native: Kernels, rng: Csprng, count: int, blocks: int) -> None:
    key, rows, offset = rng.octets(16), rng.octets(count, 16), rng.octets(16)
    schedule, index = native.expand_keys(key[None])[0], (1 << 63) + 12345
    out = native.hash_blocks(schedule, rows, offset, index, blocks)
    for i in range(count):
        inner = aes(key, (rows[i] ^ offset).tobytes())
        for block in range(blocks):
            tweak = (index + i).to_bytes(8, "little") + block.to_bytes(8, "little")
            outer = aes(key, bytes(a ^ b for a, b in zip(inner, tweak, strict=True)))
            expected = bytes(a ^ b for a, b in zip(inner, outer, strict=True))
            assert out[i, 16 * block : 16 * block + 16].tobytes() == expected
    words = native.hash_words(schedule, rows, offset, index, blocks - 1)
    assert (words == out[:, 16 * (blocks - 1) : 16 * blocks].copy().view(np.uint64)[:, 0::2].ravel()).all()


@pytest.mark.parametrize("k", [1, 2, 4])
def test_rows_of_both_ends_differ_by_delta_where_the_choice_is_one(native: Kernels, rng: Csprng, k: int) -> None:
    trees = 128 // k
    seeds, delta = rng.octets(trees << k, 16), rng.bits(128)
    owned = native.expand_keys(seeds).reshape(trees, 1 << k, 176)
    known = owned.copy()
    for tree in range(trees):
        missing = int(delta[k * tree : k * (tree + 1)] @ (1 << np.arange(k)))
        known[tree] = owned[tree][[x ^ missing for x in range(1 << k)]]
        known[tree, 0] = 0
    choices, corrections, rows = native.extend_receiver(owned, k, 7, 3)
    sender = native.extend_sender(known, k, 7, -delta, corrections)
    bits = np.unpackbits(choices.reshape(-1), bitorder="little")
    assert ((sender ^ rows) == bits[:, None] * np.packbits(delta, bitorder="little")).all()
    assert 0.47 < bits.mean() < 0.53  # 6,144 fair bits: 4.7 deviations


def test_receivers_columns_are_the_leaves_streams(native: Kernels, rng: Csprng) -> None:
    """Column b of tree t is the XOR of the counter-mode streams of the leaves whose index has bit b."""
    seeds = rng.octets(32 * 16, 16)
    choices, corrections, rows = native.extend_receiver(native.expand_keys(seeds).reshape(32, 16, 176), 4, 5, 1)
    counters = b"".join((5 + i).to_bytes(16, "little") for i in range(16))
    streams = np.stack([np.frombuffer(aes(seed, counters), np.uint8) for seed in seeds]).reshape(32, 16, 256)
    columns = np.unpackbits(rows, axis=1, bitorder="little").T
    for tree, b in [(0, 0), (0, 3), (7, 1), (31, 2)]:
        picked = [x for x in range(16) if x >> b & 1]
        expected = np.unpackbits(np.bitwise_xor.reduce(streams[tree, picked]), bitorder="little")
        assert (columns[4 * tree + b] == expected).all()
    total = np.bitwise_xor.reduce(streams, axis=1)
    assert (choices[0] == total[0]).all()
    assert (corrections[0] == (total[1:] ^ total[0])).all()


def carryless(a: int, b: int) -> int:
    total = 0
    while b:
        total ^= a * (b & 1)
        a, b = a << 1, b >> 1
    return total


def test_column_hash_is_a_sum_of_carryless_products(native: Kernels, rng: Csprng) -> None:
    rows, challenges = rng.octets(CHUNK, 16), rng.octets(16, 16)
    sums = native.hash_columns(rows, challenges)
    columns = np.packbits(np.unpackbits(rows, axis=1, bitorder="little").T, axis=1, bitorder="little")
    for column in (0, 1, 63, 64, 127):
        expected = 0
        for block in range(16):
            x = int.from_bytes(columns[column, 16 * block : 16 * block + 16].tobytes(), "little")
            expected ^= carryless(x, int.from_bytes(challenges[block].tobytes(), "little"))
        assert int.from_bytes(sums[column].tobytes(), "little") == expected
        again = native.inner_product(np.ascontiguousarray(columns[column].reshape(16, 16)), challenges)
        assert again.tobytes() == sums[column].tobytes()


@pytest.mark.parametrize("count", [1, 63, 64, 130])
def test_lookup_selects_and_adds_rows(native: Kernels, rng: Csprng, count: int) -> None:
    onehot, rows = rng.octets(count, 64), rng.octets(3, 512, 16)
    out = native.lookup(onehot, rows, as_matrices(rows))
    selected = np.unpackbits(onehot, axis=1, bitorder="little").astype(np.int64)
    for table in range(3):
        expected = selected @ np.unpackbits(rows[table], axis=1, bitorder="little").astype(np.int64) & 1
        assert (np.unpackbits(out[table], axis=1, bitorder="little") == expected).all()


def test_wrong_shapes_are_refused_before_the_loops(native: Kernels, rng: Csprng) -> None:
    schedule = native.expand_keys(rng.octets(1, 16))[0]
    with pytest.raises(ValueError, match="rows"):
        native.hash_words(schedule, rng.octets(4, 15), rng.octets(16), 0, 0)
    with pytest.raises(ValueError, match="key"):
        native.hash_words(schedule[:-1], rng.octets(4, 16), rng.octets(16), 0, 0)
    with pytest.raises(ValueError, match="corrections"):
        native.extend_sender(rng.octets(32, 16, 176), 4, 0, rng.octets(128), rng.octets(1, 30, 256))
    with pytest.raises(ValueError, match="contiguous"):
        native.row_bits(rng.octets(16, 4).T, 0, 8)
    with pytest.raises(ValueError, match="1 to 64"):
        words = rng.words(4)
        native.ring_message(words, words, rng.bits(4), words, 65)


def test_what_was_not_compiled_is_not_said_to_lack_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        raise OSError(f"{name}.so: no such file")

    monkeypatch.setattr("parley.mpc.kernels.processor_features", frozenset)
    monkeypatch.setattr("parley.mpc.kernels.native", nothing)
    with pytest.raises(ConfigurationError, match=r"missing \(.*\.so, no such file\): of the release's files install"):
        best_variant()
