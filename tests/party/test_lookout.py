"""Evidence against a server at a party, over TLS: who it is asked of, what it costs, and what waits for an answer."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.mpc.evidence import Evidence
from parley.node.data_sets import DataSet
from parley.node.evidence import EvidenceFolder, Held
from parley.node.pins import Pins
from parley.party import lookout
from parley.party.account import now
from parley.party.admission import Gate
from parley.party.outbox import LEFT
from parley.party.process import party_node, settings_of
from parley.party.run import Life
from parley.party.seal import Sealed
from parley.party.wire import Wire
from parley.privacy.ledger_state import Run
from tests.support.caught import answer, evidence_by
from tests.support.documents import PARTY_POLICY, manifest
from tests.support.memories import files, joined, left, state
from tests.support.party_process import EVERYONE, Running, charged, gate_of, ledger
from tests.support.stage import LEAD, NORTH, PARTY, SOUTH, Stage, State, question
from tests.support.until import until

pytestmark = pytest.mark.usefixtures("verified_in_process")
COVERT = {**EVERYONE, "noise.security": "covert", "noise.audit": "1/4", "noise.own": 1.0}


@pytest.fixture
def made() -> Manifest:
    return manifest(**COVERT)


@pytest.fixture
def proof(stage: Stage) -> Evidence:
    """Against south."""
    return evidence_by([stage.identities[NORTH], stage.identities[SOUTH]])


@pytest.fixture(autouse=True)
def _room(stage: Stage) -> None:
    """For what a caught server costs."""
    policy = PARTY_POLICY.replace("epsilon_total = 4.0", "epsilon_total = 900.0")
    (stage.node / "policy.toml").write_text(policy)
    stage.write_node(epsilon=1000.0, delta=1e-2)


def folder(stage: Stage) -> EvidenceFolder:
    return EvidenceFolder(stage.node / "state")


def run_of(stage: Stage, name: str = "heart-1") -> Run:
    with closing(ledger(stage)) as found:
        return found.runs[name]


def events(stage: Stage, name: str) -> list[dict[str, object]]:
    lines = (stage.node / "state" / "trail.jsonl").read_text().splitlines()
    return [each["fields"] for each in map(json.loads, lines) if each["event"] == name]


def is_charged(stage: Stage, proof: Evidence, name: str = "heart-1") -> bool:
    run = run_of(stage, name)
    return run.evidence == [proof.digest.hex()] and run.cost.caught == 1


def finished(stage: Stage, made: Manifest, evidence: list[bytes]) -> None:
    """The run ends, and the coordinator hands this over."""
    stage.coordinator.say(
        State(state=State.STATE_ENDED, ends=stage.ends(made, 1), outcome="finished", evidence=evidence)
    )
    until(lambda: state(stage) == "settled")


@pytest.mark.parametrize("who", ["coordinator", "north", "south"])
def test_whoever_has_evidence_at_a_runs_end_is_enough_and_a_run_is_charged_beyond_what_was_given_back(
    stage: Stage, made: Manifest, proof: Evidence, who: str
) -> None:
    handed = [proof.encoded()] if who == "coordinator" else []
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        stage.a.evidence, stage.b.evidence = ([proof.encoded()] * (who == each) for each in ("north", "south"))
        before = run_of(stage)
        assert not before.cost.caught
        finished(stage, made, handed)
        until(lambda: is_charged(stage, proof))
    cost = run_of(stage).cost
    assert cost.epsilon == max(before.charge.cost.epsilon, cost.epsilon_if_a_server_lies or 0.0)
    (held,) = folder(stage).all()
    assert (held.server, held.runs, held.charged, held.pending) == (SOUTH, ("heart-1",), True, True)
    assert [each["digest"] for each in events(stage, "evidence.kept")] == [proof.digest.hex()]


def test_a_coordinator_that_lets_everybody_wait_hides_nothing(
    stage: Stage, proof: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookout, "LOOK_SECONDS", 0.2)
    made = manifest(**{**COVERT, "rounds.deadline_seconds": 1.0})  # so long is a poll
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        stage.a.evidence = [proof.encoded()]  # and nothing more is asked, nor said
        reason = left(stage)
        assert reason.startswith("aggregator south did not follow the noise protocol (evidence ")
        assert proof.digest.hex()[:16] in reason
        until(lambda: is_charged(stage, proof))
    stage.coordinator.joins.clear()
    looks = stage.a.looks
    with Running(stage):  # it is left for good
        until(lambda: stage.a.looks > looks)
    assert not any(join.accepted for join in stage.coordinator.joins)


def test_evidence_that_a_statement_names_is_asked_for_before_anything_is_answered(
    stage: Stage, made: Manifest, proof: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Life, "_look", _only_at_once(Life._look))
    from tests.party.test_history import asked_of

    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        until(lambda: 0 in stage.a.uploads and 0 in stage.b.uploads)
        stage.stated(1)
        assert stage.signed is not None
        (word,) = stage.signed.words[0]
        del stage.signed.words[0][0]
        query, upload = stage.coordinator.asked[0], {"hospital-a": stage.a.uploads[0], "hospital-b": b"b" * 32}
        stage.signed.words[0].append(
            stage.signed.word(0, query, _contributions(word), {"pending": [proof.digest.hex()]})
        )
        assert upload
        stage.a.evidence = [proof.encoded()]
        stage.coordinator.ask(asked_of(made, 1))
        assert "did not follow" in left(stage)
    assert 1 not in stage.a.payloads


def _only_at_once(look: Callable[..., None]) -> Callable[..., None]:
    """No look by the clock, so that it is the statement's."""
    return lambda life, at_once=False: look(life, at_once=True) if at_once else None


def _contributions(word: bytes) -> tuple[tuple[str, bytes], ...]:
    from parley.v1 import common_pb2

    said = common_pb2.RoundStatement.FromString(common_pb2.SignedWord.FromString(word).body)
    return tuple((each.party, each.upload_digest) for each in said.contributions)


@pytest.mark.slow
def test_all_runs_that_the_server_has_served_under_audit_are_charged_and_no_others(
    stage: Stage, made: Manifest, proof: Evidence
) -> None:
    plain, later = manifest(**EVERYONE, run="plain"), manifest(**{**COVERT, "run": "later"})
    with Running(stage):
        for each in (plain, made, later):
            stage.signed = None
            stage.a.payloads.clear()
            stage.b.payloads.clear()
            stage.coordinator.manifests = [each.canonical]
            stage.coordinator.only = each.digest
            joined(stage, each)
            charged(stage, each)
            evidence = [proof.encoded()] if each is later else []
            stage.coordinator.say(
                State(state=State.STATE_ENDED, ends=stage.ends(each, 1), outcome="finished", evidence=evidence)
            )
            until(lambda each=each: run_of(stage, each.run).ended)  # type: ignore[misc]
        until(lambda: is_charged(stage, proof, "heart-1") and is_charged(stage, proof, "later"))
    assert run_of(stage, "plain").evidence == []
    (held,) = folder(stage).all()
    assert set(held.runs) == {"heart-1", "later"}


def test_a_further_run_waits_for_the_operators_answer(stage: Stage, made: Manifest, proof: Evidence) -> None:
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        finished(stage, made, [proof.encoded()])
        until(lambda: is_charged(stage, proof))
        for after in (manifest(**EVERYONE, run="plain"), manifest(**{**COVERT, "run": "again"})):
            stage.coordinator.joins.clear()
            stage.offer(after)
            until(lambda after=after: _reason(stage, after.run))  # type: ignore[misc]
            assert "parley evidence answer" in _reason(stage, after.run)
            assert not any(join.accepted for join in stage.coordinator.joins)
        (held,) = folder(stage).pending()
        answer(folder(stage), held.digest)
        until(lambda: sum(join.accepted for join in stage.coordinator.joins) >= 2)


def _reason(stage: Stage, run: str) -> str:
    from parley.party.overview import runs_of

    found = {each["run"]: each for each in runs_of(settings_of(party_node(stage.node)))}
    return str(found[run]["reason"]) if run in found and found[run]["state"] == "waiting" else ""


@pytest.mark.parametrize("source", ["coordinator", "south"])
def test_what_is_no_evidence_does_nothing_whoever_sends_it(
    stage: Stage, made: Manifest, proof: Evidence, source: str
) -> None:
    data = proof.encoded()
    wrong = [b"", b"x" * 2000, data[:-1], data + b"x", data[:900] + b"\0" + data[901:], bytes(1 << 17)]
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        stage.b.evidence = wrong if source == "south" else []
        finished(stage, made, wrong * 3 if source == "coordinator" else [])
        until(lambda: stage.b.looks)
    assert not run_of(stage).cost.caught
    assert run_of(stage).ended
    assert folder(stage).all() == []
    kinds = {each["kind"] for each in events(stage, "evidence.ignored")}
    assert kinds == {"malformed", "no_verdict"}


def test_what_a_crash_has_left_is_done_when_the_party_starts(stage: Stage, made: Manifest, proof: Evidence) -> None:
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        finished(stage, made, [])
    folder(stage).keep(proof.encoded())  # as a process that died then has left it
    with Running(stage):
        until(lambda: is_charged(stage, proof))
    (held,) = folder(stage).all()
    folder(stage).note(Held(**{**vars(held), "charged": False}))
    with Running(stage):
        until(lambda: all(each.charged for each in folder(stage).all()))
    assert is_charged(stage, proof)


def test_a_party_asks_its_servers_although_no_run_is_open(
    stage: Stage, made: Manifest, proof: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may be caught in somebody else's run, long after it has served this party's."""
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        finished(stage, made, [])
    stage.a.evidence = [proof.encoded()]
    stage.coordinator.manifests.clear()
    with Running(stage):
        until(lambda: is_charged(stage, proof))


def test_one_server_is_asked_once_a_minute_unless_something_speaks_for_it(tmp_path: Path, stage: Stage) -> None:
    with Running(stage) as running:
        asked = running.client._lookout
        assert asked._due(NORTH, False)
        assert not asked._due(NORTH, False)
        assert asked._due(NORTH, True)
        assert asked._due(SOUTH, False)
        asked.hand_over([b"x"] * 100, LEAD)
        assert asked._docket.ignored == {"malformed": 1}


def test_runs_that_never_come_into_the_outbox_fill_no_memory(stage: Stage) -> None:
    """A coordinator may propose without end."""
    with Running(stage) as running:
        watching = running.client._lookout
        for number in range(lookout.MOST_STARTED + 5):
            watching.begun(manifest(**{**COVERT, "run": f"run-{number}"}))
        assert len(watching._started) == lookout.MOST_STARTED


def test_a_refused_manifest_under_the_name_of_another_run_charges_that_run_for_nobody(
    stage: Stage, proof: Evidence
) -> None:
    """A coordinator proposes anything under any name; a run that another pair has served, or one without joint noise,
    is not that server's.
    """
    served = manifest(**{**EVERYONE, "noise.security": "malicious", "noise.own": 1.0})
    twin = manifest(**COVERT)
    assert served.run == twin.run
    stage.offer(served)
    with Running(stage):
        charged(stage, served)
        stage.coordinator.joins.clear()
        stage.coordinator.manifests = [twin.canonical]
        assert "heart-1" in left(stage)
        finished(stage, served, [])
        stage.a.evidence = [proof.encoded()]
        stage.coordinator.manifests.clear()
    with Running(stage):
        until(lambda: folder(stage).all())
        until(lambda: all(each.charged for each in folder(stage).all()))
    assert run_of(stage).evidence == []
    assert not run_of(stage).cost.caught


def test_a_run_that_is_charged_while_evidence_is_written_down_is_charged_for_it_too(
    stage: Stage, made: Manifest, proof: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The evidence comes between this party's last look at it and the run's own charge, which it cannot find yet."""
    stage.offer(made)
    settles = Gate._register

    def late(gate: Gate, data: DataSet, sealed: Sealed) -> None:
        settles(gate, data, sealed)
        running.client._lookout.hand_over([proof.encoded()], LEAD)

    monkeypatch.setattr(Gate, "_register", late)
    with Running(stage) as running:
        joined(stage, made)
        stage.coordinator.ask(question(made, 0, (np.zeros(made.model.dimension),)))
        assert "did not follow" in left(stage)
    assert is_charged(stage, proof)
    assert stage.a.payloads == stage.b.payloads == {}


def test_a_ledger_that_was_put_back_is_charged_again(stage: Stage, made: Manifest, proof: Evidence) -> None:
    """Only the ledger is older: evidence says that it was charged, and the trail tells of no later charge of a run."""
    stage.offer(made)
    state_folder = stage.node / "state"
    with Running(stage):
        charged(stage, made)
        finished(stage, made, [])
    before = {path: path.read_bytes() for path in files(stage, "ledger.sqlite*")}
    stage.a.evidence = [proof.encoded()]
    stage.coordinator.manifests.clear()
    with Running(stage):
        until(lambda: is_charged(stage, proof))
    for path in state_folder.glob("ledger.sqlite*"):
        path.unlink()
    for path, data in before.items():
        path.write_bytes(data)
    assert not run_of(stage).cost.caught
    stage.a.evidence = []
    with Running(stage):
        until(lambda: is_charged(stage, proof))


def test_a_party_asks_its_servers_although_nothing_can_be_settled(
    stage: Stage, made: Manifest, proof: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator answers for the end of each run as late as it likes."""
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        finished(stage, made, [])
    stage.a.evidence = [proof.encoded()]
    stage.coordinator.manifests.clear()

    def fails(gate: Gate, joined: bool = False) -> list[object]:
        raise TimeoutError

    monkeypatch.setattr("parley.party.client.still_open", fails)
    with Running(stage):
        until(lambda: is_charged(stage, proof))


@pytest.mark.parametrize("first", ["account", "evidence"])
def test_a_caught_server_costs_runs_of_a_lost_state_too(
    stage: Stage, made: Manifest, proof: Evidence, first: str
) -> None:
    """Which the ledger has by its servers' account, and the record of admissions has not."""
    with closing(gate_of(stage)) as gate, closing(lookout.Lookout(gate.settings, PARTY, pins_of(stage))) as look:
        gate.note(made, LEFT)
        if first == "evidence":
            look.hand_over([proof.encoded()], NORTH)
        gate.ledger.put_back(None, "ab" * 16)
        stage.a.accounted = stage.b.accounted = [(made, 3, False)]
        targets = {NodeName("cardio", Role.aggregator, name): at for name, at in gate.settings.aggregators.items()}
        with closing(Wire(gate.settings.identity, targets)) as wire:
            assert now(gate, wire).runs == ("heart-1",)
        if first == "account":
            look.hand_over([proof.encoded()], NORTH)
        else:
            look.catch_up()
    assert len(run_of(stage).evidence) == 1
    assert run_of(stage).cost == run_of(stage).charge.after_a_server_was_caught


def pins_of(stage: Stage) -> Callable[[], Pins]:
    return lambda: settings_of(party_node(stage.node)).identity.load().pins
