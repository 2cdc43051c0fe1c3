"""Numbers packed without a bit between them: one spelling, exact, and nothing else is read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.mpc.errors import ConfigurationError, RangeError
from parley.mpc.packing import (
    BLOCK_WORDS,
    WHOLE,
    add_packed,
    count_in,
    pack,
    packed_bytes,
    require_one_form,
    unpack,
)
from parley.mpc.randomness import Csprng

WIDTHS = (8, 18, 23, 24, 31, 32, 33, 39, 40, 47, 56, 57, WHOLE)


def packed(words: np.ndarray, bits: int) -> bytearray:
    room = bytearray(packed_bytes(len(words), bits))
    pack(words, bits, memoryview(room))
    return room


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=40), st.sampled_from(WIDTHS))
def test_the_bytes_are_one_large_integer_with_the_first_number_lowest(numbers: list[int], bits: int) -> None:
    words = np.array(numbers, np.uint64)
    whole = sum((number % 2**bits) << (place * bits) for place, number in enumerate(numbers))
    assert packed(words, bits) == whole.to_bytes(packed_bytes(len(words), bits), "little")
    assert unpack(packed(words, bits), bits, len(words)).tolist() == [number % 2**bits for number in numbers]


@pytest.mark.parametrize("bits", WIDTHS)
def test_many_blocks_and_what_is_left_over_add_up_as_the_words_do(bits: int) -> None:
    words = Csprng(bytes(32)).words(2 * BLOCK_WORDS + 13)
    total = Csprng(bytes([1]) * 32).words(len(words))
    mask = np.uint64((1 << bits) - 1)
    expected = total + (words & mask)
    add_packed(total, packed(words, bits), bits)
    assert (total == expected).all()


@pytest.mark.parametrize("bits", WIDTHS)
def test_a_size_says_how_many_numbers_there_are_or_that_none_are(bits: int) -> None:
    sizes = {packed_bytes(count, bits): count for count in range(1, 200)}
    for size in range(1, max(sizes)):
        assert count_in(size, bits) == sizes.get(size)


@pytest.mark.parametrize("bits", [18, 39, 47])
def test_a_bit_set_after_the_last_number_is_refused_and_no_other(bits: int) -> None:
    for count in range(1, 17):
        words = np.full(count, 2**64 - 1, np.uint64)
        last, used = packed(words, bits)[-1], count * bits % 8
        require_one_form(last, count, bits)
        for bit in range(used, 8) if used else ():
            with pytest.raises(RangeError, match="one form"):
                require_one_form(last | 1 << bit, count, bits)


def test_bytes_too_few_or_too_many_and_widths_that_are_none_are_refused() -> None:
    half = packed(np.arange(9, dtype=np.uint64), 39)
    for wrong in (half[:-1], half + b"\0", b""):
        with pytest.raises(RangeError, match="take 44 bytes"):
            unpack(wrong, 39, 9)
    for bits in (0, 7, 58, 63, 65):
        with pytest.raises(ConfigurationError, match="not packed"):
            unpack(b"", bits, 0)
    for room in (bytearray(43), bytearray(45)):
        with pytest.raises(ValueError):  # noqa: PT011 (numpy's or ours)
            pack(np.arange(9, dtype=np.uint64), 39, memoryview(room))
