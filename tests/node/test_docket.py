"""Evidence that others hand over: only what convicts a server by its pinned key, in a known session, counts."""

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from parley.federation.errors import EvidenceFileError, TrailError
from parley.federation.names import NodeName, Role
from parley.mpc.evidence import Evidence, Verdict, Verify, judge
from parley.node import docket
from parley.node.authority import ThrowAwayAuthority
from parley.node.credentials import Identity
from parley.node.docket import ALLOWANCE, context_of, signed_by
from parley.node.evidence import EvidenceFolder, Held, digest_of
from parley.node.pins import Pin, Pins
from parley.privacy.errors import LedgerRefusedError
from tests.support.caught import PAIR, Court, answer, court, evidence_by, no_evidence_by

NORTH, SOUTH = PAIR
LEAD = NodeName("cardio", Role.coordinator, "lead")
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of P-256's group."""


@pytest.fixture(scope="module")
def identities() -> list[Identity]:
    authority = ThrowAwayAuthority("cardio")
    return [authority.issue_as(name) for name in PAIR]


@pytest.fixture(scope="module")
def proof(identities: list[Identity]) -> Evidence:
    """Against south."""
    return evidence_by(identities)


@pytest.fixture
def pins(identities: list[Identity]) -> Pins:
    return identities[0].pins


@pytest.fixture
def here(tmp_path: Path, pins: Pins) -> Court:
    return court(tmp_path, lambda: pins)


def test_what_convicts_a_server_is_kept_charged_and_noted_once(here: Court, proof: Evidence) -> None:
    (held,) = here.docket.take([proof.encoded(), proof.encoded()], LEAD)
    assert (held.server, held.runs, held.pending, held.charged) == (SOUTH, ("heart-1",), True, True)
    assert held.digest == proof.digest.hex() == digest_of(here.folder.read(held.digest))
    assert here.folder.all() == [held]
    assert here.docket.take([proof.encoded()], NORTH) == []
    assert len(here.charged) == 1
    assert here.noted == [("evidence.kept", "")]
    assert str(held) == f"aggregator south did not follow the noise protocol (evidence {held.digest[:16]}…)"


@pytest.mark.parametrize("accused", [0, 1])
def test_either_server_is_named(here: Court, identities: list[Identity], accused: int) -> None:
    (held,) = here.docket.take([evidence_by(identities, accused).encoded()], LEAD)
    assert held.server == PAIR[accused]


def nothing(here: Court, data: bytes, kind: str) -> None:
    """Came of it."""
    assert here.docket.take([data], LEAD) == []
    assert here.docket.ignored[kind] == 1
    assert here.folder.all() == []
    assert here.charged == []
    assert not here.folder.path.exists()


def test_an_honest_server_is_convicted_by_nobody(here: Court, identities: list[Identity]) -> None:
    nothing(here, no_evidence_by(identities).encoded(), "no_verdict")


def test_a_key_of_the_accusers_own_making_is_nobodys(here: Court) -> None:
    made_up = ThrowAwayAuthority("cardio")
    nothing(here, evidence_by([made_up.issue_as(name) for name in PAIR]).encoded(), "other_key")


def test_a_key_that_was_replaced_counts_as_long_as_its_operator_said(
    tmp_path: Path, identities: list[Identity], proof: Evidence, pins: Pins
) -> None:
    """A server that is about to be caught could change over; one that has given its key up answers for no more."""
    fresh = ThrowAwayAuthority("cardio").issue_as(SOUTH)
    until = {"good": Pin(proof.accused_key, docket_time(+1)), "over": Pin(proof.accused_key, docket_time(-1))}
    for name, former in until.items():
        held = Pins({**pins.held, SOUTH: (Pin(fresh.pin), former)})
        made = court(tmp_path / name, lambda held=held: held)  # type: ignore[misc]
        assert len(made.docket.take([proof.encoded()], LEAD)) == (name == "good")
    gone = court(tmp_path / "given up", lambda: Pins({**pins.held, SOUTH: (Pin(fresh.pin),)}))
    nothing(gone, proof.encoded(), "other_key")


def docket_time(days: int) -> dt.datetime:
    return dt.datetime.now(dt.UTC) + dt.timedelta(days=days)


def test_a_session_of_other_servers_or_of_servers_in_another_order_is_no_runs(
    tmp_path: Path, pins: Pins, proof: Evidence
) -> None:
    other = (NORTH, NodeName("cardio", Role.aggregator, "east"))
    for place, pairs in enumerate(([other], [(SOUTH, NORTH)], [])):
        nothing(court(tmp_path / str(place), lambda: pins, pairs=pairs), proof.encoded(), "other_session")
    assert len({context_of(pair) for pair in (PAIR, other, (SOUTH, NORTH))}) == 3


@pytest.mark.parametrize("data", [b"", b"evidence", bytes(2000), b"\xff" * (1 << 16)], ids=len)
def test_garbage_is_counted_and_forgotten(here: Court, data: bytes) -> None:
    nothing(here, data, "malformed")


def test_what_is_too_long_is_not_even_hashed(here: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docket, "digest_of", None)
    nothing(here, bytes((1 << 16) + 1), "too_long")


def test_no_changed_byte_convicts_anybody(here: Court, proof: Evidence) -> None:
    """One of every fourteen; a signature's other spelling is the only change that still convicts."""
    data = proof.encoded()
    for place in range(0, len(data), 14):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        try:
            found = Evidence.decode(changed)
        except Exception as error:
            assert type(error).__name__ == "EvidenceError"
            continue
        assert not judge(found, signed_by).guilty, place


def spelled_otherwise(proof: Evidence) -> Evidence:
    r, s = decode_dss_signature(proof.signature)
    return replace(proof, signature=encode_dss_signature(r, ORDER - s))


def test_the_same_incident_spelled_otherwise_is_no_second_one(here: Court, proof: Evidence) -> None:
    """Or whoever passes it on could have it answered again and again, and charge what was begun since."""
    (held,) = here.docket.take([proof.encoded()], LEAD)
    answer(here.folder, held.digest)
    twin = spelled_otherwise(proof)
    assert judge(twin, signed_by).guilty
    assert twin.digest != proof.digest
    assert here.docket.take([twin.encoded()], NORTH) == []
    assert here.docket.ignored["known"] == 1
    assert here.folder.pending() == []
    assert len(here.charged) == 1


def test_another_session_is_another_incident(here: Court, identities: list[Identity], proof: Evidence) -> None:
    (held,) = here.docket.take([proof.encoded()], LEAD)
    answer(here.folder, held.digest)
    (again,) = here.docket.take([evidence_by(identities).encoded()], LEAD)
    assert here.folder.pending() == [again]


def test_of_two_audits_that_catch_a_server_at_once_nothing_is_left_for_runs_that_come_after_the_answer(
    here: Court, identities: list[Identity], proof: Evidence
) -> None:
    """Two noise workers have two sessions, and two incidents: the runs of that time are held against it once."""
    held = here.docket.made(proof)
    assert held is not None
    assert here.docket.made(evidence_by(identities)) is None
    answer(here.folder, held.digest)
    here.docket.catch_up()
    assert here.folder.pending() == []
    assert here.folder.unread() == []
    assert {each.digest for each in here.charged} == {held.digest}


def test_while_evidence_waits_for_its_answer_more_against_that_server_fills_no_folder(
    here: Court, identities: list[Identity], proof: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or whoever was caught lets itself be caught until there is no room for evidence against its friend."""
    monkeypatch.setattr("parley.node.evidence.MOST_FILES", 2)
    (held,) = here.docket.take([proof.encoded()], LEAD)
    more = [evidence_by(identities).encoded() for _ in range(2)]
    assert here.docket.take(more, SOUTH) == []
    assert here.docket.ignored == {"waiting": 2}
    assert len(here.noted) == 1  # and no line of the trail each time
    (friend,) = here.docket.take([evidence_by(identities, accused=0).encoded()], LEAD)
    assert friend.server == NORTH
    for each in (held, friend):
        answer(here.folder, each.digest)
    monkeypatch.setattr("parley.node.evidence.MOST_FILES", 3)
    (again,) = here.docket.take(more, NORTH)  # it was not forgotten: what is new after an answer is looked at
    assert here.folder.pending() == [again]


def test_evidence_holds_other_runs_against_a_server_although_older_one_waits(
    tmp_path: Path, pins: Pins, identities: list[Identity], proof: Evidence
) -> None:
    runs = ["heart-1"]
    here = court(tmp_path, lambda: pins, runs)
    here.docket.take([proof.encoded()], LEAD)
    runs.append("heart-2")
    (held,) = here.docket.take([evidence_by(identities).encoded()], LEAD)
    assert held.runs == ("heart-1", "heart-2")


def test_a_run_that_comes_while_evidence_is_written_down_is_held_against_the_server_too(
    tmp_path: Path, pins: Pins, proof: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = ["heart-1"]
    here = court(tmp_path, lambda: pins, runs)
    note = EvidenceFolder.note

    def noted(folder: EvidenceFolder, held: Held) -> None:
        note(folder, held)
        runs[:] = ["heart-2"]  # and what a server is known to have ended is open no more

    monkeypatch.setattr(EvidenceFolder, "note", noted)
    (held,) = here.docket.take([proof.encoded()], LEAD)
    assert held.runs == here.charged[0].runs == ("heart-1", "heart-2")


def test_what_nobody_was_known_by_is_looked_at_again_once_a_key_or_a_run_has_come(
    tmp_path: Path, pins: Pins, proof: Evidence
) -> None:
    """Or whoever hands evidence over too early keeps it from this node for as long as its process lives."""
    fresh = ThrowAwayAuthority("cardio").issue_as(SOUTH)
    known, pairs = [Pins({**pins.held, SOUTH: (Pin(fresh.pin),)})], [PAIR]
    here = court(tmp_path, lambda: known[0], pairs=pairs)
    assert here.docket.take([proof.encoded()], LEAD) == here.docket.take([proof.encoded()], NORTH) == []
    assert here.docket.ignored == {"other_key": 1}
    assert here.docket.known() == [proof.digest]
    known[0], pairs[0] = pins, (SOUTH, NORTH)
    assert here.docket.known() == []
    assert here.docket.take([proof.encoded()], NORTH) == []
    pairs[0] = PAIR
    assert len(here.docket.take([proof.encoded()], NORTH)) == 1
    assert here.docket.ignored == {"other_key": 1, "other_session": 1}


def test_a_flood_from_one_source_is_not_judged_and_keeps_nobody_elses_out(
    here: Court, proof: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []

    def noted(evidence: Evidence, verify: Verify) -> Verdict:
        looked.append(evidence)
        return judge(evidence, verify)

    monkeypatch.setattr(docket, "judge", noted)
    wrong = [replace(proof, x=bytes([place]) * 32).encoded() for place in range(30)]
    assert here.docket.take(wrong, LEAD) == []
    assert len(looked) == ALLOWANCE
    assert here.docket.ignored == {"no_verdict": ALLOWANCE, "too_much": 30 - ALLOWANCE}
    assert here.docket.take(wrong[:ALLOWANCE], NORTH) == []  # looked at before: costs nobody anything
    assert len(looked) == ALLOWANCE
    assert len(here.docket.take([proof.encoded()], NORTH)) == 1
    assert len(here.noted) == ALLOWANCE + 1  # what is only thrown away is not written down each time


# ------------------------------------------------------------ crashes


def test_a_file_without_its_record_is_looked_at_when_the_node_starts(
    tmp_path: Path, pins: Pins, proof: Evidence
) -> None:
    EvidenceFolder(tmp_path).keep(proof.encoded())
    here = court(tmp_path, lambda: pins)
    here.docket.catch_up()
    (held,) = here.folder.all()
    assert held.charged
    assert here.folder.unread() == []
    assert here.charged == [replace(held, charged=False)]


def test_a_kept_file_that_convicts_nobody_stays_and_does_nothing(tmp_path: Path, pins: Pins) -> None:
    EvidenceFolder(tmp_path).keep(b"left by nobody")
    here = court(tmp_path, lambda: pins)
    here.docket.catch_up()
    assert here.folder.all() == []
    assert here.folder.unread() == [digest_of(b"left by nobody")]


def test_what_was_recorded_and_not_charged_is_charged_when_the_node_starts(
    tmp_path: Path, pins: Pins, proof: Evidence
) -> None:
    full = LedgerRefusedError("the disk is full")

    def refuses(held: Held) -> None:
        raise full

    broken = court(tmp_path, lambda: pins, charge=refuses)
    with pytest.raises(LedgerRefusedError):
        broken.docket.take([proof.encoded()], LEAD)
    (held,) = broken.folder.pending()  # from here on nothing is begun with that server
    assert not held.charged
    here = court(tmp_path, lambda: pins, runs=("heart-1", "heart-2"))
    here.docket.catch_up()
    assert [each.runs for each in here.charged] == [("heart-1",)]  # those that it was held against, and no later ones
    assert here.folder.all() == [replace(held, charged=True)]


def test_what_a_trail_did_not_take_is_written_into_it_at_the_next_start_and_once(
    tmp_path: Path, pins: Pins, proof: Evidence
) -> None:
    """Before its record says that all is done: afterwards nobody would."""
    first = court(tmp_path, lambda: pins)
    first.noting.append(TrailError("the disk is full"))
    with pytest.raises(TrailError):
        first.docket.take([proof.encoded()], LEAD)
    assert [held.charged for held in first.folder.all()] == [False]
    here = court(tmp_path, lambda: pins)
    here.docket.catch_up()
    assert here.noted == [("evidence.kept", "")]
    assert [held.charged for held in here.folder.all()] == [True]
    (held,) = here.folder.all()
    here.folder.note(replace(held, charged=False))  # it died when the trail had it, before the record said so
    here.docket.catch_up()
    assert here.noted == [("evidence.kept", "")]
    assert here.folder.all() == [held]


def test_a_ledger_is_told_again_at_every_start_and_the_trail_is_not(
    tmp_path: Path, pins: Pins, proof: Evidence
) -> None:
    """It may be last week's, and counts each evidence once (tests/privacy/test_cheating.py)."""
    court(tmp_path, lambda: pins).docket.take([proof.encoded()], LEAD)
    here = court(tmp_path, lambda: pins)
    here.docket.catch_up()
    assert here.charged == here.folder.all()
    assert here.noted == []


def test_a_servers_own_evidence_is_on_the_disk_before_it_is_judged(
    tmp_path: Path, pins: Pins, proof: Evidence, identities: list[Identity], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = court(tmp_path, lambda: pins)
    monkeypatch.setattr(docket, "judge", lambda *given: here.folder.read(proof.digest.hex()) and judge(*given))
    held = here.docket.made(proof)
    assert held is not None
    assert here.docket.made(replace(proof, x=bytes(32))) is None  # of that session there is enough
    assert here.folder.unread() == []


def test_a_fault_of_ones_own_machine_convicts_nobody(here: Court, identities: list[Identity]) -> None:
    assert here.docket.made(no_evidence_by(identities)) is None
    assert here.folder.all() == []
    assert len(here.folder.unread()) == 1


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path, pins: Pins, proof: Evidence) -> None:
    (tmp_path / "evidence").write_text("in the way")
    with pytest.raises(EvidenceFileError, match="cannot be kept"):
        court(tmp_path, lambda: pins).docket.take([proof.encoded()], LEAD)


# ------------------------------------------------------------ audits that a crash cuts short


def test_what_is_audited_lies_on_the_disk_until_its_verdict(here: Court, proof: Evidence) -> None:
    forget = here.docket.hold(proof)
    assert list(here.folder.waiting().values()) == [proof.encoded()]
    assert not here.folder.all(), "nobody is accused yet"
    assert not here.folder.unread()
    forget()
    assert here.folder.waiting() == {}
    forget()  # whoever comes second finds nothing, and says nothing


def test_a_liar_gains_nothing_by_having_its_auditor_die(here: Court, proof: Evidence) -> None:
    here.docket.hold(proof)
    here.docket.catch_up()  # as the next process begins
    (held,) = here.folder.all()
    assert (held.digest, held.server, held.runs) == (proof.digest.hex(), SOUTH, ("heart-1",))
    assert here.folder.waiting() == {}
    here.docket.hold(proof)
    here.docket.catch_up()
    assert here.folder.all() == [held], "of one session there is one piece of evidence"
    assert here.folder.waiting() == {}


def test_one_record_is_for_both_audits_of_a_session_of_which_one_had_been_kept(here: Court, proof: Evidence) -> None:
    """The process died between the file of the first and its record, while the second was going on."""
    kept = here.folder.keep(proof.encoded())
    here.docket.hold(spelled_otherwise(proof))
    here.docket.catch_up()
    assert [held.digest for held in here.folder.all()] == [kept]
    assert here.folder.unread() == []
    assert here.folder.waiting() == {}


def test_an_honest_batch_whose_audit_a_crash_cut_short_accuses_nobody(here: Court, identities: list[Identity]) -> None:
    here.docket.hold(no_evidence_by(identities))
    (here.folder.path / "waiting" / ("0" * 64)).write_bytes(b"half a file")
    here.docket.catch_up()
    assert here.folder.all() == here.charged == []
    assert here.folder.waiting() == {}


def test_a_key_that_is_not_pinned_when_the_next_process_begins_is_judged_by_a_later_one(
    here: Court, proof: Evidence, tmp_path: Path
) -> None:
    here.docket.hold(proof)
    court(tmp_path, Pins).docket.catch_up()
    assert list(here.folder.waiting().values()) == [proof.encoded()]
    here.docket.catch_up()
    assert [held.server for held in here.folder.all()] == [SOUTH]
