"""What a party's operator asks of its books: of all runs, in order, with what left and what is left."""

from pathlib import Path

import pytest

from parley.federation.errors import ApprovalError
from parley.federation.rounds import BLIND_BYTES
from parley.mpc.randomness import SEED_BYTES
from parley.party.books import states_of
from parley.party.outbox import REFUSED, WAITING, Answer, Outbox
from parley.party.overview import budgets_left, manifest_of, runs_of, with_speed
from parley.party.process import party_node, settings_of
from parley.party.settings import Settings
from parley.party.speed import Speed
from parley.privacy.ledger import Ledger
from parley.privacy.mechanism import Unit
from tests.support.documents import manifest
from tests.support.ledgers import BASIC, rows

A_BYTES = BLIND_BYTES + 8 * 3


@pytest.fixture
def settings(party: Path) -> Settings:
    made = settings_of(party_node(party))
    made.state.mkdir(mode=0o700, exist_ok=True)
    return made


def answer(index: int) -> Answer:
    halves = (bytes(A_BYTES), bytes(SEED_BYTES))
    return Answer(round_index=index, query=b"q" * 32, upload=b"u" * 32, payload_a=halves[0], payload_b=halves[1])


def test_before_anything_was_proposed_there_is_nothing_and_looking_makes_no_file(settings: Settings) -> None:
    assert (states_of(settings), runs_of(settings)) == ([], [])
    assert not settings.outbox.exists()
    settings.ledger.unlink()  # sealing has begun one, for its salt
    (found,) = budgets_left(settings)
    assert (found["epsilon_left"], found["epsilon_spent"], "head" in found) == (4.0, 0.0, False)
    assert not settings.ledger.exists()


def test_every_run_has_its_state_and_what_was_sent_to_whom(settings: Settings) -> None:
    made, refused = manifest(), manifest(run="heart-2")
    outbox = Outbox(settings.outbox)
    outbox.note(made.digest, made.run, made.canonical, "joined")
    outbox.put(made.digest, answer(0), None)
    outbox.note(refused.digest, refused.run, refused.canonical, REFUSED, "too many rounds")
    outbox.close()
    first, second = runs_of(settings)
    assert (first["run"], first["state"], first["rounds"]) == ("heart-1", "joined", made.releases)
    assert (first["rounds_answered"], first["last_round"]) == (1, 0)
    assert first["sent"] == {"north": A_BYTES, "south": SEED_BYTES}
    assert (second["run"], second["state"], second["reason"]) == ("heart-2", REFUSED, "too many rounds")
    assert (second["rounds_answered"], second["last_round"], second["sent"]) == (0, -1, {"north": 0, "south": 0})


def test_a_run_of_an_earlier_version_is_listed_though_nobody_reads_its_manifest(settings: Settings) -> None:
    outbox = Outbox(settings.outbox)
    outbox.note(b"m" * 32, "old", b"parley manifest 1\n{}", "ended")
    outbox.close()
    (found,) = runs_of(settings)
    assert (found["run"], found["state"], found["rounds"]) == ("old", "ended", 0)
    assert found["reason"] == "of an earlier version of parley"
    assert set(found) == {"run", "digest", "state", "reason", "at", "rounds", "rounds_answered", "last_round", "sent"}


def test_a_manifest_is_found_by_the_runs_name_and_the_newest_of_two(settings: Settings) -> None:
    older, newer = manifest(), manifest(**{"rounds.deadline_seconds": 60.0})
    outbox = Outbox(settings.outbox)
    for each in (older, newer):
        outbox.note(each.digest, each.run, each.canonical, "pending")
    outbox.close()
    assert manifest_of(settings, "heart-1").digest == newer.digest
    with pytest.raises(ApprovalError, match="no run 'heart-9' was proposed here"):
        manifest_of(settings, "heart-9")


def test_of_two_live_runs_under_one_name_nobody_can_mean_one_without_its_digest(settings: Settings) -> None:
    older, newer = manifest(), manifest(**{"rounds.deadline_seconds": 60.0})
    outbox = Outbox(settings.outbox)
    for each in (older, newer):
        outbox.note(each.digest, each.run, each.canonical, WAITING)
    with pytest.raises(ApprovalError, match=f"{older.digest.hex()}, {newer.digest.hex()}.*give --digest"):
        manifest_of(settings, "heart-1")
    assert manifest_of(settings, "heart-1", older.digest.hex()[:12]).digest == older.digest
    with pytest.raises(ApprovalError, match="the digest is not this manifest's"):
        manifest_of(settings, "heart-1", "00" * 32)
    outbox.note(newer.digest, newer.run, newer.canonical, REFUSED)
    outbox.close()
    assert manifest_of(settings, "heart-1").digest == older.digest, "what is over is not meant"


def test_what_is_left_is_what_the_ledger_says_with_its_head(settings: Settings) -> None:
    ledger = Ledger.open(settings.ledger)
    ledger.register("patients", Unit(), settings.cap, ledger.identity(rows(100)))
    ledger.reserve("one", "patients", BASIC)
    head = str(ledger.verify())
    ledger.close()
    (found,) = budgets_left(settings)
    assert (found["population"], found["head"]) == ("patients", head)
    assert found["epsilon_spent"] == pytest.approx(0.3)
    assert found["epsilon_left"] == pytest.approx(3.7)
    assert found["summary"].startswith("patients: epsilon 0.3 of 4")


def test_how_fast_sums_are_computed_is_in_the_status_and_in_no_list_of_runs(settings: Settings) -> None:
    made = manifest()
    outbox = Outbox(settings.outbox)
    outbox.note(made.digest, made.run, made.canonical, "joined")
    outbox.close()
    (before,) = runs_of(settings)
    assert with_speed(settings, before)["speed"] is None
    Speed(settings.speed(made.digest)).note(1000, 0.5)
    (after,) = runs_of(settings)
    assert after == before
    assert with_speed(settings, after)["speed"]["records_per_second"] == 2000
