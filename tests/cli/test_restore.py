"""`parley restore`, where it refuses; what it does is tried among real processes."""

import pytest

from tests.support.typed_in import refused


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "--account NODE"),
        (("backup", "node"), "--key"),
        (("--account", "nowhere", "--give-up"), "needs --by"),
    ],
)
def test_a_call_that_says_too_little_is_told_what_to_say(words: tuple[str, ...], says: str) -> None:
    assert says in refused("restore", *words)
