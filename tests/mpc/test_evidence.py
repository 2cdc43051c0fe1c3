"""Evidence as bytes, and the judge: who is guilty, and that nobody who was honest ever is."""

import contextlib
import dataclasses
import hashlib
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.mpc import group, replay
from parley.mpc.batch_record import RATES, Record
from parley.mpc.errors import EvidenceError
from parley.mpc.evidence import MOST_BYTES, MOST_LANES, START, Evidence, Verdict, judge
from parley.mpc.handover import Opening
from parley.mpc.kernels import kernels
from parley.mpc.tables import load
from tests.support.covert import CONTEXT, LIES, Auditor, auditing, liar, public, run, sign, signing, verify


@cache
def accusations(name: str, seed: int = 1) -> tuple[Evidence, Evidence]:
    """Of one batch in which server 1 lies: A's of B, and B's of A. "" is an honest one."""
    ends = run(1, classes=(Auditor, LIES[name]() if name else Auditor), seeds=(bytes([seed]) * 32, bytes([9]) * 32))
    ((ours,), (theirs,)) = (end.session.accusations for end in ends)
    return ours, theirs


def found(evidence: Evidence) -> Verdict:
    return judge(Evidence.decode(evidence.encoded()), verify)


# ------------------------------------------------------------ verdicts


@pytest.mark.parametrize(
    ("name", "frame", "reason"),
    [
        ("collapse", 10, "message 10"),
        ("squeeze", 12, "message 12"),
        ("leak", 12, "message 12"),
        ("one wrong bit", 3, "message 3"),
        ("another tape", 0, "message 0"),
        ("false accept bits", None, "accept bits"),
        ("hides its seed", None, "another seed"),
        ("two seeds", None, "another seed"),
    ],
)
def test_the_judge_names_the_first_message_that_is_wrong(name: str, frame: int | None, reason: str) -> None:
    for verdict in (found(accusations(name)[0]), judge(accusations(name)[0], verify, native=kernels("baseline"))):
        assert verdict.guilty
        assert verdict.key == public(1)
        assert verdict.frame == frame
        assert reason in verdict.reason


@pytest.mark.parametrize("name", ["", *LIES])
def test_a_cheat_that_accuses_gets_no_verdict(name: str) -> None:
    """The honest server's own statement, with all that the cheat knows."""
    verdict = found(accusations(name)[1])
    assert not verdict.guilty
    assert verdict.key == public(0)
    assert verdict.reason.startswith("no verdict: ")


def test_what_evidence_says_of_itself() -> None:
    evidence = accusations("one wrong bit")[0]
    assert (evidence.accused_key, evidence.accuser_key) == (public(1), public(0))
    assert (evidence.context, evidence.lanes, evidence.role) == (CONTEXT, 16, 1)
    assert evidence.tables == load("strips", "standard").digest
    assert evidence.digest == hashlib.sha256(evidence.encoded()).digest()
    assert len(evidence.encoded()) < 2048
    assert evidence.opening.seed not in repr(evidence).encode()


# ------------------------------------------------------------ accusers that make things up


def by_hand(evidence: Evidence, signer: int | None = None, **changes: object) -> Evidence:
    """Another record under the same evidence, signed by whoever was asked to, or still by the accused."""
    record = dataclasses.replace(evidence.record, **changes)  # type: ignore[arg-type]
    signature = evidence.signature if signer is None else sign(signer, record.statement(evidence.role))
    return dataclasses.replace(evidence, record=record, signature=signature)


def altered(evidence: Evidence) -> Iterator[Evidence]:
    """Everything an accuser might wish that the other one had signed."""
    record, terms = evidence.record, evidence.record.terms
    yield by_hand(evidence, number=record.number + 1)
    yield by_hand(evidence, lanes=32)
    yield by_hand(evidence, tags=(record.tags[0], (bytes(16), *record.tags[1][1:])))
    yield by_hand(evidence, tags=(record.tags[0][:-1], record.tags[1][:-1]))
    yield by_hand(evidence, heads=record.heads[::-1])
    yield by_hand(evidence, seals=(record.seals[0], dataclasses.replace(record.seals[1], accept=bytes(32))))
    yield by_hand(evidence, seals=(record.seals[0], dataclasses.replace(record.seals[1], opening=bytes([1]) * 80)))
    for change in (
        {"context": bytes(32)}, {"session": bytes(32)}, {"tables": load("strips", "high").digest},
        {"audit_rate": RATES[0]}, {"keys": (public(5), public(1))}, {"points": terms.points[::-1]},
    ):  # fmt: skip
        yield by_hand(evidence, terms=dataclasses.replace(terms, **change))
    yield dataclasses.replace(evidence, signature=sign(0, evidence.statement))
    yield dataclasses.replace(evidence, role=0)
    yield dataclasses.replace(evidence, opening=Opening(bytes(32), evidence.opening.delta, evidence.opening.salt))
    yield dataclasses.replace(evidence, opening=Opening(evidence.opening.seed, bytes(16), evidence.opening.salt))
    yield dataclasses.replace(evidence, x=group.scalar(bytes([7]) * 64))


@pytest.mark.parametrize("name", ["", "one wrong bit", "hides its seed"])
def test_nothing_that_an_accuser_alters_makes_anybody_guilty(name: str) -> None:
    """Of an honest server none of it is true; of a cheat it is not what that one has signed."""
    for number, evidence in enumerate(altered(accusations(name)[0])):
        verdict = found(evidence)
        assert not verdict.guilty, (number, verdict)


@pytest.mark.parametrize("name", ["", "one wrong bit"])
def test_one_changed_byte_is_refused_or_has_no_verdict(name: str) -> None:
    """Any byte: also nobody can make two files of one piece of evidence, but by signing again."""
    data = bytearray(accusations(name)[0].encoded())
    for place in range(len(data)):
        data[place] ^= 1 << place % 8
        with contextlib.suppress(EvidenceError):
            assert not judge(Evidence.decode(bytes(data)), verify).guilty, place
        data[place] ^= 1 << place % 8
    assert judge(Evidence.decode(bytes(data)), verify).guilty == bool(name)


def test_a_self_made_identity_convicts_itself_at_most() -> None:
    """Who makes up a session under a key of its own has a verdict of that key, which nobody has pinned."""
    evidence = accusations("")[0]
    terms = dataclasses.replace(evidence.record.terms, keys=(public(0), public(6)))
    tags = (evidence.record.tags[0], (bytes(16), *evidence.record.tags[1][1:]))
    verdict = found(by_hand(evidence, signer=6, terms=terms, tags=tags))
    assert verdict.guilty
    assert verdict.key == public(6)
    assert verdict.key not in signing(0).peer_keys()
    stolen = found(by_hand(evidence, signer=6, tags=tags))  # in the name of the true one
    assert not stolen.guilty


def test_both_servers_of_one_hand_convict_only_that_hand() -> None:
    """An accuser that plays both sides itself still needs a signature by the key that it accuses."""
    evidence = accusations("one wrong bit")[0]
    for stranger in (0, 5):
        verdict = found(by_hand(evidence, signer=stranger))
        assert not verdict.guilty
        assert "not signed" in verdict.reason


def test_an_accuser_that_departs_first_has_no_verdict_even_where_the_accused_lies_later() -> None:
    """Server 0 lies in message 3 and audits; server 1 seals false bits at the end."""
    ends = run(1, classes=(LIES["one wrong bit"](), LIES["false accept bits"]()))
    (evidence,) = ends[0].session.accusations
    verdict = found(evidence)
    assert not verdict.guilty
    assert "message 3 of the accuser" in verdict.reason
    (evidence,) = ends[1].session.accusations
    assert found(evidence).frame == 3


@pytest.mark.parametrize(("lie", "words"), [("one wrong bit", "message 3 of the accuser"),
                                           ("false accept bits", "the seal of the accuser")])  # fmt: skip
def test_two_that_lie_in_the_same_exchange_convict_each_other_of_nothing(lie: str, words: str) -> None:
    """An accuser that is honest is right there; and both are wrong to a judge that makes batches in another way."""
    ends = run(1, classes=(LIES[lie](), LIES[lie]()))
    for end in ends:
        (evidence,) = end.session.accusations
        verdict = found(evidence)
        assert not verdict.guilty
        assert words in verdict.reason


@pytest.mark.parametrize("other", ["pad_key", "accept_seal"])
def test_a_judge_that_makes_batches_in_another_way_convicts_no_honest_server(other: str) -> None:
    """A later release under the same tables: it would have found everybody guilty who ever signed a batch."""
    made = getattr(replay, other)

    def otherwise(*arguments: Any) -> Any:
        found = made(*arguments)
        return found[::-1].copy() if isinstance(found, np.ndarray) else found[::-1]

    with mock.patch.object(replay, other, otherwise):
        for evidence in accusations(""):
            verdict = found(evidence)
            assert not verdict.guilty
            assert "of the accuser is the first" in verdict.reason


def test_false_trees_frame_nobody() -> None:
    """Server 1 sends trees that are not its tape's; an honest server 0 notices in the extension and signs nothing."""
    wrong = ("source.set_up())", "_off(source.set_up()))")
    helper = (
        "\n\ndef _swap(",
        """

def _off(trees):
    (message,) = next(trees)
    message = message.copy()
    message[:128] ^= 1
    try:
        trees.send((yield [message]))
    except StopIteration as stop:
        return stop.value


def _swap(""",
    )
    ends = run(1, classes=(Auditor, auditing(lambda number: True, liar(wrong, helper))))
    assert ends[0].error is not None
    assert [end.session.accusations for end in ends] == [[], []]
    assert ends[0].batches == []


def test_tables_that_are_not_shipped_and_sizes_that_no_session_has_get_no_verdict() -> None:
    evidence = accusations("one wrong bit")[0]
    terms = dataclasses.replace(evidence.record.terms, tables=bytes(32))
    verdict = found(by_hand(evidence, signer=1, terms=terms))
    assert not verdict.guilty
    assert "tables" in verdict.reason
    assert not judge(evidence, verify, load("strips", "high")).guilty
    for lanes in (0, 8, MOST_LANES + 16, 2**32 - 16):
        assert not found(by_hand(evidence, signer=1, lanes=lanes)).guilty


def test_points_that_are_none_get_no_verdict() -> None:
    evidence = accusations("one wrong bit")[0]
    terms = evidence.record.terms
    for bad in (bytes(32), b"\xff" * 32, (1).to_bytes(32, "little")):
        mine = by_hand(evidence, signer=1, terms=dataclasses.replace(terms, points=(terms.points[0], bad)))
        assert not found(mine).guilty
        heads = (dataclasses.replace(evidence.record.heads[0], asked=bad), evidence.record.heads[1])
        assert not found(by_hand(evidence, signer=1, heads=heads)).guilty
    assert not found(dataclasses.replace(evidence, x=bytes(32))).guilty


def test_a_key_that_is_no_point_gets_no_verdict() -> None:
    evidence = accusations("one wrong bit")[0]
    terms = dataclasses.replace(evidence.record.terms, keys=(public(0), bytes(33)))
    assert not found(by_hand(evidence, terms=terms)).guilty


# ------------------------------------------------------------ bytes


def test_encoding_and_decoding_are_inverse() -> None:
    for name in ("", "hides its seed"):
        for evidence in accusations(name):
            data = evidence.encoded()
            assert Evidence.decode(data) == evidence
            assert Evidence.decode(data).encoded() == data


def test_evidence_that_is_cut_or_longer_is_refused() -> None:
    data = accusations("")[0].encoded()
    for size in range(len(data)):
        with pytest.raises(EvidenceError):
            Evidence.decode(data[:size])
    for more in (b"\0", data, bytes(MOST_BYTES)):
        with pytest.raises(EvidenceError):
            Evidence.decode(data + more)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=3000), st.integers(0, 2000))
def test_bytes_from_outside_are_evidence_or_an_error(data: bytes, place: int) -> None:
    good = accusations("")[0].encoded()
    for text in (data, good[: START.size] + data, good[:place] + data, good[:place] + data + good[place + len(data) :]):
        try:
            evidence = Evidence.decode(text)
        except EvidenceError:
            continue
        assert evidence.encoded() == text
        assert text == good or not judge(evidence, verify).guilty


def test_a_statement_is_one_to_the_last_byte() -> None:
    record = accusations("")[0].record
    for role in (0, 1):
        assert Record.decoded(record.statement(role)) == (record, role)
        with pytest.raises(ValueError, match="length"):
            Record.decoded(record.statement(role) + b"\0")
    with pytest.raises(ValueError, match="cut off"):
        Record.decoded(b"")
    assert record.statement(0) != record.statement(1)
