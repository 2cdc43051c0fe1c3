"""Pauses between tries."""

from parley.node.backoff import Backoff


def test_each_pause_is_twice_the_one_before_up_to_the_longest_and_begins_anew_after_a_reset() -> None:
    backoff = Backoff(0.1, 0.5)
    assert [backoff.next_seconds() for _ in range(5)] == [0.1, 0.2, 0.4, 0.5, 0.5]
    backoff.reset()
    assert backoff.next_seconds() == 0.1
