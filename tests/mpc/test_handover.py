"""The seeds' hand-over: who audits reads the opening, who does not the witness, and the question does not tell."""

import numpy as np
import pytest

from parley.mpc import group
from parley.mpc.handover import OPENING_BYTES, Masks, Opening, digest, question, witness_digest
from parley.mpc.randomness import random_bytes

OPENING = Opening(bytes([1]) * 32, bytes([2]) * 16, bytes([3]) * 32)
WITNESS = bytes([4]) * 32
BATCH = bytes([5]) * 32


def scalar() -> bytes:
    return group.scalar(random_bytes(group.WIDE_BYTES))


@pytest.mark.parametrize("audit", [False, True])
def test_each_question_reads_one_text_and_not_the_other(audit: bool) -> None:
    y, x = scalar(), scalar()
    point = group.base(y)
    asked = question(x, point, audit)
    masks = Masks(BATCH, 0, point, asked)
    texts = masks.answered(y, WITNESS, OPENING)
    clear = (WITNESS, OPENING.encoded())
    assert masks.read(x, audit, texts[audit]) == clear[audit]
    for as_auditor in (False, True):
        assert masks.read(x, as_auditor, texts[1 - audit]) != clear[1 - audit]


def test_masks_are_bound_to_batch_sender_points_and_branch() -> None:
    y, x = scalar(), scalar()
    point = group.base(y)
    asked = question(x, point, False)
    masked = Masks(BATCH, 0, point, asked).answered(y, WITNESS, OPENING)[0]
    other = group.base(scalar())
    for wrong in (
        Masks(bytes(32), 0, point, asked), Masks(BATCH, 1, point, asked),
        Masks(BATCH, 0, point, other), Masks(BATCH, 0, other, asked),
    ):  # fmt: skip
        assert wrong.read(x, False, masked) != WITNESS
    assert Masks(BATCH, 0, point, asked).read(x, True, masked) != WITNESS


def test_the_question_does_not_tell_whether_there_is_an_audit() -> None:
    """Bits of R of 1,500 questions of either kind, each against its fair half and against the kind."""
    point = group.base(scalar())
    kinds = np.unpackbits(np.frombuffer(random_bytes(188), np.uint8))[:1500].astype(bool)
    asked = b"".join(question(scalar(), point, bool(kind)) for kind in kinds)
    bits = np.unpackbits(np.frombuffer(asked, np.uint8).reshape(-1, 32), axis=1, bitorder="little")[:, :252] * 2.0 - 1
    signs = kinds * 2.0 - 1
    for column in (bits.sum(axis=0), (bits * signs[:, None]).sum(axis=0)):
        assert np.abs(column).max() < 7 * len(kinds) ** 0.5  # 504 fair sums: false alarm below 2e-9


def test_commitments_and_digests_are_of_one_role_in_one_batch() -> None:
    made = {
        made
        for batch in (BATCH, bytes(32))
        for role in (0, 1)
        for made in (
            OPENING.commitment(batch, role), OPENING.audited(batch, role), witness_digest(batch, role, WITNESS),
            OPENING.tape(batch, role).bytes(32),
        )
    }  # fmt: skip
    assert len(made) == 16


def test_every_part_of_an_opening_is_committed_to() -> None:
    whole = OPENING.encoded()
    seen = {OPENING.commitment(BATCH, 0)}
    for place in range(OPENING_BYTES):
        changed = bytearray(whole)
        changed[place] ^= 128
        seen.add(Opening.decoded(bytes(changed)).commitment(BATCH, 0))
    assert len(seen) == OPENING_BYTES + 1
    assert Opening.decoded(whole) == OPENING
    with pytest.raises(ValueError, match="80 bytes"):
        Opening.decoded(whole[:-1])


def test_parts_do_not_run_into_each_other() -> None:
    assert digest("x", b"ab", b"c") != digest("x", b"a", b"bc") != digest("x", b"abc")
    assert digest("xa", b"b") != digest("x", b"ab")


def test_an_opening_does_not_print_itself() -> None:
    assert "0101" not in repr(OPENING)
    assert "\\x01" not in repr(OPENING)
