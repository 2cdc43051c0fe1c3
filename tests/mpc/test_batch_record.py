"""Tags of frames, and which batch a record is of. Statements as bytes: test_evidence.py."""

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np

from parley.mpc.batch_record import FrameTags, Head, Record, Seal, Terms

SEALS = (
    Seal(bytes([0]) * 32, bytes([2]) * 32, bytes([4]) * 80, bytes([6]) * 16),
    Seal(bytes([1]) * 32, bytes([3]) * 32, bytes([5]) * 80, bytes([7]) * 16),
)
HEADS = Head(bytes([0]) * 32, bytes([2]) * 32, bytes([4]) * 32), Head(bytes([1]) * 32, bytes([3]) * 32, bytes([5]) * 32)
TERMS = Terms(
    bytes([1]) * 32, bytes([2]) * 32, (bytes([3]) * 33, bytes([4]) * 33), (bytes([5]) * 32, bytes([6]) * 32),
    bytes([7]) * 32, Fraction(1, 8),
)  # fmt: skip
BATCH = TERMS.batch(1)
FRAME = [np.arange(100, dtype=np.uint8), np.zeros(0, np.uint8), np.arange(33, dtype=np.uint8)]


def test_a_tag_is_of_every_bit_of_one_frame_of_one_server() -> None:
    tags = FrameTags(BATCH, SEALS)
    seen = {tags.of(0, 0, FRAME), tags.of(1, 0, FRAME), tags.of(0, 1, FRAME)}
    for piece in (0, 2):
        for place in range(FRAME[piece].size):
            changed = [each.copy() for each in FRAME]
            changed[piece][place] ^= 1 << place % 8
            seen.add(tags.of(0, 0, changed))
    assert len(seen) == 3 + 133
    assert tags.of_all(1, [FRAME, FRAME]) == (tags.of(1, 0, FRAME), tags.of(1, 1, FRAME))


def test_how_a_frame_is_cut_does_not_matter() -> None:
    whole = np.concatenate(FRAME)
    tags = FrameTags(BATCH, SEALS)
    assert tags.of(0, 3, FRAME) == tags.of(0, 3, [whole]) == tags.of(0, 3, [whole[:7], whole[7:]])


def test_the_key_is_of_the_batch_and_of_both_last_messages() -> None:
    keys = [FrameTags(BATCH, SEALS), FrameTags(TERMS.batch(2), SEALS), FrameTags(BATCH, SEALS[::-1])]
    for i in (0, 1):
        for field in ("accept", "witness", "opening", "nonce"):
            other = dataclasses.replace(SEALS[i], **{field: bytes(len(getattr(SEALS[i], field)) - 1) + b"\1"})
            keys.append(FrameTags(BATCH, (other, SEALS[1]) if i == 0 else (SEALS[0], other)))
    assert len({key.of(0, 0, FRAME) for key in keys}) == len(keys)


def test_a_statement_says_all_that_a_batch_is_bound_to() -> None:
    record = Record(TERMS, 1, 64, HEADS, SEALS, ((bytes(16),), (bytes([1]) * 16,)))
    seen = {record.statement(0), record.statement(1)}
    terms: list[dict[str, Any]] = [
        {"context": bytes(32)}, {"session": bytes(32)}, {"keys": TERMS.keys[::-1]}, {"points": TERMS.points[::-1]},
        {"tables": bytes(32)}, {"audit_rate": Fraction(1, 16)},
    ]  # fmt: skip
    rest: list[dict[str, Any]] = [
        {"number": 2}, {"lanes": 80}, {"heads": HEADS[::-1]}, {"seals": SEALS[::-1]}, {"tags": record.tags[::-1]},
    ]  # fmt: skip
    for changes in [{"terms": dataclasses.replace(TERMS, **each)} for each in terms] + rest:
        seen.add(dataclasses.replace(record, **changes).statement(0))
    assert len(seen) == 13


def test_batches_have_names_of_their_own() -> None:
    other = dataclasses.replace(TERMS, session=bytes(32))
    assert len({terms.batch(number) for terms in (TERMS, other) for number in range(100)}) == 200
