"""Streams of random bytes."""

import pytest

from parley.mpc.randomness import Csprng


@pytest.mark.parametrize("count", [0, 1, 7, 32_767, 32_768, 32_769, 100_000])
def test_words_are_the_bytes_of_the_stream_and_leave_it_where_bytes_do(count: int) -> None:
    """Whatever the pieces they are made in: server B's share of every version is the same."""
    words, octets = Csprng(bytes(range(32))), Csprng(bytes(range(32)))
    assert (words.bytes(5), words.words(count).tobytes()) == (octets.bytes(5), octets.bytes(8 * count))
    assert words.words(2, 3).shape == (2, 3)
    assert words.bytes(3) == octets.bytes(51)[48:]
