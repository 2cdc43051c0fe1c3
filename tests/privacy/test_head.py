"""A head reads back as it was printed, and nothing else reads as one."""

import pytest

from parley.privacy.errors import LedgerCorruptError
from parley.privacy.head import GENESIS, START, Head

DIGEST = "0123456789abcdef" * 4


def test_a_head_reads_back_as_it_was_printed() -> None:
    head = Head(17, DIGEST)
    assert str(head) == f"17:{DIGEST}"
    assert Head.parse(f"  {head}\n") == head
    assert Head.parse(str(START)) == START == Head(0, GENESIS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "17",
        f"17:{DIGEST[:-1]}",
        f"17:{DIGEST}0",
        f"17:{DIGEST.upper()}",
        f"-1:{DIGEST}",
        f"+1:{DIGEST}",
        f"1_7:{DIGEST}",
        f"١:{DIGEST}",
        f"{'9' * 19}:{DIGEST}",
        f"17: {DIGEST}",
        f"17:{DIGEST}:17",
        f"17:{DIGEST}\n18:{DIGEST}",
    ],
)
def test_what_is_no_head_is_refused(text: str) -> None:
    with pytest.raises(LedgerCorruptError, match="should read sequence:digest"):
        Head.parse(text)


def test_a_long_text_that_is_no_head_is_not_quoted_in_full() -> None:
    with pytest.raises(LedgerCorruptError) as refused:
        Head.parse("x" * 100_000)
    assert len(str(refused.value)) < 200
