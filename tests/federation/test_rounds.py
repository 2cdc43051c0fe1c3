"""Digests that every role computes alike: each field counts, none runs into the next, and they stay as they are."""

import hashlib
import math
import struct
from typing import Any

import numpy as np
import pytest

from parley.federation.question import LocalFit
from parley.federation.rounds import (
    BLIND_BYTES,
    MOST_WAIT_SECONDS,
    bounded_wait,
    commitment_a,
    commitment_b,
    half_a,
    numbers_in,
    payload_bytes,
    point_digest,
    query_digest,
    upload_digest,
)
from parley.mpc.randomness import SEED_BYTES, Csprng

QUERY: dict[str, Any] = {
    "manifest_digest": bytes(32),
    "index": 3,
    "kind": "gradient",
    "scale": 1.0,
    "points": (b"\x01" * 32,),
    "length": 54,
}
FIT = LocalFit("descent", 10, 0.1, 0.0, 2.0)
UPLOAD: dict[str, Any] = {
    "manifest_digest": bytes(32),
    "index": 3,
    "party": "parley://cardio/party/hospital-a",
    "query": b"\x01" * 32,
    "commitment_to_a": b"\x02" * 32,
    "commitment_to_b": b"\x03" * 32,
}


@pytest.mark.parametrize(
    ("asked", "waited"),
    [(5.0, 5.0), (MOST_WAIT_SECONDS + 1, MOST_WAIT_SECONDS), (math.inf, MOST_WAIT_SECONDS), (0.0, 0.0), (-1.0, 0.0)],
)
def test_a_long_poll_waits_no_longer_than_allowed(asked: float, waited: float) -> None:
    assert bounded_wait(asked) == waited


def test_a_long_poll_of_nan_does_not_wait() -> None:
    assert bounded_wait(math.nan) == 0.0


def test_a_question_is_digested_field_by_field_each_with_its_length() -> None:
    parts = [bytes(32), struct.pack("<qdqq", 3, 1.0, 54, 1), b"gradient", b"\x01" * 32]
    whole = b"parley query 1" + b"".join(struct.pack("<q", len(part)) + part for part in parts)
    assert query_digest(**QUERY) == hashlib.sha256(whole).digest()


@pytest.mark.parametrize(
    "change",
    [
        {"manifest_digest": b"\x01" + bytes(31)},
        {"index": 4},
        {"kind": "norms"},
        {"scale": 1.0 + 2**-52},
        {"points": (b"\x01" * 32, b"\x01" * 32)},
        {"points": ()},
        {"length": 55},
        {"local": FIT},
    ],
    ids=str,
)
def test_no_field_of_a_question_can_change_unseen(change: dict[str, Any]) -> None:
    assert query_digest(**{**QUERY, **change}) != query_digest(**QUERY)


@pytest.mark.parametrize(
    "other",
    [
        LocalFit("permuted-sgd", 10, 0.1, 0.0, 2.0),
        LocalFit("descent", 11, 0.1, 0.0, 2.0),
        LocalFit("descent", 10, 0.2, 0.0, 2.0),
        LocalFit("descent", 10, 0.1, 0.5, 2.0),
        LocalFit("descent", 10, 0.1, 0.0, 2.5),
    ],
)
def test_no_field_of_a_local_fit_can_change_unseen(other: LocalFit) -> None:
    assert query_digest(**QUERY, local=other) != query_digest(**QUERY, local=FIT)


@pytest.mark.parametrize("name", list(UPLOAD))
def test_no_field_of_an_upload_can_change_unseen(name: str) -> None:
    held = UPLOAD[name]
    other = held + 1 if isinstance(held, int) else held + held[:1]
    assert upload_digest(**{**UPLOAD, name: other}) != upload_digest(**UPLOAD)


def test_bytes_that_move_from_one_field_to_the_next_make_another_digest() -> None:
    moved = {**UPLOAD, "party": UPLOAD["party"] + "\x01", "query": b"\x01" * 31}
    assert upload_digest(**moved) != upload_digest(**UPLOAD)


def test_one_payload_has_another_digest_as_either_half_and_as_a_point() -> None:
    data = b"\x05" * 32
    assert commitment_a(data) == hashlib.sha256(b"parley share a 1" + data).digest()
    assert commitment_b(data) == hashlib.sha256(b"parley share b 1" + data).digest()
    assert point_digest(data) == hashlib.sha256(b"parley point 1" + data).digest()
    assert commitment_a(bytearray(data)) == commitment_a(data)


def test_each_server_expects_its_own_half() -> None:
    assert payload_bytes(0, 54, 64) == BLIND_BYTES + 8 * 54
    assert payload_bytes(0, 54, 39) == BLIND_BYTES + 264
    assert payload_bytes(1, 54, 39) == payload_bytes(1, 54_000, 64) == SEED_BYTES


@pytest.mark.parametrize("bits", [18, 39, 47, 64])
def test_numbers_come_out_of_server_as_half_as_they_went_in(bits: int) -> None:
    words = Csprng(bytes(32)).words(77)
    half = half_a(bytes(BLIND_BYTES), words, bits)
    assert len(half) == payload_bytes(0, 77, bits)
    assert (numbers_in(half, 77, bits) == words & np.uint64((1 << bits) - 1)).all()
