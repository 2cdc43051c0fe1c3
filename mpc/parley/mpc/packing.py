"""Vectors modulo 2^bits as bytes, without a bit between them: word i is bits i·bits and on, the lowest first.

A vector has one such spelling: what is left of the last byte is zero, and `require_one_form` refuses anything else.
What is done depends on the width and the length alone. Eight words are `bits` whole bytes, so they are worked on in
groups of eight, and what begins at a multiple of BLOCK_WORDS begins at a byte.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from parley.mpc.errors import ConfigurationError, RangeError

Words = NDArray[np.uint64]
Buffer = bytes | bytearray | memoryview
NARROWEST, WIDEST, WHOLE = 8, 57, 64
"""Bits: a wider word than WIDEST may lie over nine bytes; WHOLE is a word as it is."""
BLOCK_WORDS = 1 << 15
"""Packed and unpacked at once: what that takes stays in a processor's cache."""
GROUP = 8


def check_bits(bits: int) -> None:
    if bits != WHOLE and not NARROWEST <= bits <= WIDEST:
        raise ConfigurationError(f"words of {bits} bits are not packed: use {NARROWEST} to {WIDEST}, or {WHOLE}")


def packed_bytes(count: int, bits: int) -> int:
    """Of so many words."""
    return -(-count * bits // 8)


def count_in(size: int, bits: int) -> int | None:
    """How many words are packed into so many bytes; None where no number of them is."""
    count = 8 * size // bits
    return count if packed_bytes(count, bits) == size else None


def require_one_form(last: int, count: int, bits: int) -> None:
    """`last` is the last byte of `count` words: it holds nothing beyond them."""
    used = count * bits % 8
    if used and last >> used:
        raise RangeError(f"{8 - used} bits after the last number are not all zero: the packing has one form")


def pack(words: Words, bits: int, room: memoryview) -> None:
    """`words` modulo 2^bits into `room`, which is as long as they need."""
    check_bits(bits)
    for start, size in _blocks(len(words)):
        part, begin = words[start : start + size], packed_bytes(start, bits)
        made = _packed(part, bits)
        room[begin : begin + len(made)] = made.data
    if len(room) != packed_bytes(len(words), bits):
        raise ValueError("room for another number of words")


def unpack(data: Buffer, bits: int, count: int) -> Words:
    """`count` words, below 2^bits."""
    check_bits(bits)
    if len(data) != packed_bytes(count, bits):
        raise RangeError(f"{count} words of {bits} bits take {packed_bytes(count, bits)} bytes, not {len(data)}")
    words = np.zeros(count, np.uint64)
    add_packed(words, data, bits)
    return words


def add_packed(total: Words, data: Buffer, bits: int) -> None:
    """The packed words are added to `total`, modulo 2^64."""
    octets = np.frombuffer(data, np.uint8)
    for start, size in _blocks(len(total)):
        begin = packed_bytes(start, bits)
        part = octets[begin : begin + packed_bytes(size, bits)]
        total[start : start + size] += _unpacked(part, bits, size)


def _blocks(count: int) -> Iterator[tuple[int, int]]:
    return ((start, min(BLOCK_WORDS, count - start)) for start in range(0, count, BLOCK_WORDS))


def _packed(words: Words, bits: int) -> NDArray[np.uint8]:
    if bits == WHOLE:
        return np.ascontiguousarray(words, "<u8").view(np.uint8)
    groups = -(-len(words) // GROUP)
    rows = np.zeros((groups, GROUP), "<u8")
    rows.reshape(-1)[: len(words)] = words & np.uint64((1 << bits) - 1)
    made = np.zeros((groups, bits), np.uint8)
    for place in range(GROUP):
        byte, shift = divmod(place * bits, 8)
        length = -(-(bits + shift) // 8)
        spread = np.ascontiguousarray(rows[:, place] << np.uint64(shift)).view(np.uint8).reshape(groups, 8)
        made[:, byte : byte + length] |= spread[:, :length]
    return made.reshape(-1)[: packed_bytes(len(words), bits)]


def _unpacked(octets: NDArray[np.uint8], bits: int, count: int) -> Words:
    if bits == WHOLE:
        return octets.view("<u8").astype(np.uint64, copy=False)
    groups = -(-count // GROUP)
    padded = np.zeros(groups * bits, np.uint8)
    padded[: len(octets)] = octets
    rows, mask = padded.reshape(groups, bits), np.uint64((1 << bits) - 1)
    words = np.empty((groups, GROUP), np.uint64)
    spread = np.zeros((groups, 8), np.uint8)
    for place in range(GROUP):
        byte, shift = divmod(place * bits, 8)
        length = -(-(bits + shift) // 8)
        spread[:, length:] = 0
        spread[:, :length] = rows[:, byte : byte + length]
        words[:, place] = (spread.view("<u8").reshape(groups) >> np.uint64(shift)) & mask
    return words.reshape(-1)[:count]
