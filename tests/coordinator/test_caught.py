"""A server that was caught, at the coordinator: it believes evidence and nobody's word, and passes it on."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.cli.main import app
from parley.coordinator.store import State
from parley.federation.manifest import Manifest
from parley.federation.toml_text import toml_text
from parley.mpc.evidence import Evidence
from parley.node.docket import incident_of
from parley.node.evidence import EvidenceFolder, Held, now
from parley.privacy.ledger import Ledger
from parley.v1 import operator_pb2
from tests.support import documents
from tests.support.caught import PAIR, answer, evidence_by
from tests.support.lead import SECONDS, Lead, asking
from tests.support.until import until

COVERT = {"noise.security": "covert", "noise.audit": "1/4", "noise.own": 1.0}
SAYS = "aggregator south did not follow the noise protocol (evidence 0123456789abcdef…)"


@pytest.fixture
def proof(lead: Lead) -> Evidence:
    """Against south."""
    return evidence_by([server._identity for server in lead.servers])


def outcome(lead: Lead, run: str) -> str:
    return str(lead.process.store.find(run).outcome)


def folder(lead: Lead) -> EvidenceFolder:
    return EvidenceFolder(lead.folder / "state")


def charged(lead: Lead) -> dict[str, list[str]]:
    with closing(Ledger.open(lead.folder / "state" / "ledger.sqlite")) as ledger:
        return {run.name: run.evidence for run in ledger.runs.values()}


def handed(lead: Lead, made: Manifest) -> list[bytes]:
    """To a party that asks how the run has ended."""
    return list(lead.stub("hospital-a").NextRound(asking(made, wait=0.0), timeout=SECONDS).evidence)


def test_a_run_whose_server_was_caught_fails_by_name_and_its_parties_get_the_evidence(
    lead: Lead, proof: Evidence
) -> None:
    over = lead.running("earlier", **COVERT)
    lead.opening.set()
    lead.until(over, State.finished)
    lead.opening.clear()
    made = lead.running("caught", **COVERT)
    plain = lead.running("plain")
    lead.servers[0].evidence = [proof.encoded()]
    lead.servers[0].says_caught = SAYS
    lead.until(made, State.failed)
    digest = proof.digest.hex()
    assert outcome(lead, "caught") == f"aggregator south did not follow the noise protocol (evidence {digest[:16]}…)"
    lead.until(plain, State.failed)  # its noise is joint as well: nothing more is opened with that server
    assert {"earlier": [digest], "caught": [digest], "plain": []} == charged(lead)
    assert handed(lead, made) == handed(lead, over) == [proof.encoded()]
    assert lead.notes.count("evidence.kept") == 1


def test_a_server_that_accuses_the_other_one_and_shows_nothing_names_nobody(lead: Lead, proof: Evidence) -> None:
    made = lead.running("accused", **COVERT)
    lead.servers[0].says_caught = SAYS
    lead.servers[0].evidence = [b"rubbish", replace(proof, x=bytes(32)).encoded()]
    lead.until(made, State.failed)
    assert outcome(lead, "accused").startswith("aggregator north refuses: ")
    assert outcome(lead, "accused").endswith("it hands over no evidence that holds")
    assert charged(lead) == {"accused": []}
    assert folder(lead).all() == []
    assert handed(lead, made) == []


def test_a_run_that_fails_of_something_else_names_a_server_that_was_caught_meanwhile(
    lead: Lead, proof: Evidence
) -> None:
    """Such as of a sum that is none, because of what that server did; nobody else is asked for it then."""

    def spoilt(answer: Any) -> Any:
        answer.share = np.full(answer.size // 8, 1 << (made.lattice(0).opening_bits - 2), "<u8").tobytes()
        return answer

    made = lead.running("spoilt", **COVERT)
    lead.servers[1].change = spoilt
    lead.servers[0].evidence = [proof.encoded()]
    lead.opening.set()
    lead.until(made, State.failed)
    said = f"aggregator south did not follow the noise protocol (evidence {proof.digest.hex()[:16]}…); round 0's sum is"
    assert outcome(lead, "spoilt").startswith(said)
    assert charged(lead) == {"spoilt": [proof.digest.hex()]}


def test_evidence_is_found_at_a_runs_end_though_nobody_has_refused_anything(lead: Lead, proof: Evidence) -> None:
    made = lead.running("ended", **COVERT)
    lead.servers[1].evidence = [proof.encoded()]
    lead.opening.set()
    lead.until(made, State.finished)
    until(lambda: charged(lead) == {"ended": [proof.digest.hex()]})


@pytest.mark.parametrize("security", ["covert", "malicious"])
def test_no_further_run_with_that_server_is_led_before_its_operator_has_answered(
    lead: Lead, proof: Evidence, security: str, tmp_path: Path
) -> None:
    made = lead.running("first", **COVERT)
    lead.servers[0].evidence = [proof.encoded()]
    lead.opening.set()
    lead.until(made, State.finished)
    until(lambda: charged(lead)["first"])
    changes: dict[str, Any] = COVERT if security == "covert" else {"noise.security": "malicious", "noise.own": 1.0}
    after = documents.manifest(run="after", **changes)
    lead.operator.Submit(operator_pb2.SubmitRequest(manifest=after.canonical), timeout=SECONDS)
    lead.until(after, State.refused)
    assert "parley evidence answer" in outcome(lead, "after")
    file = tmp_path / "after.toml"
    file.write_text(toml_text(after.as_json()) + "\n")
    words = ["coordinator", "approve", str(lead.folder), str(file), "--digest", after.digest.hex(), "--by", "N. N."]
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 2
    assert "parley evidence answer" in refused.output
    (held,) = folder(lead).pending()
    answer(folder(lead), held.digest)
    lead.submit("again", **changes)
    assert charged(lead)["again"] == []


def test_what_a_crash_has_left_is_done_when_the_coordinator_starts(lead: Lead, proof: Evidence) -> None:
    made = lead.running("left", **COVERT)
    folder(lead).keep(proof.encoded())
    lead.restart()
    assert charged(lead) == {"left": [proof.digest.hex()]}
    lead.until(made, State.failed)
    assert outcome(lead, "left").startswith("aggregator south did not follow the noise protocol")


def test_a_run_that_is_charged_for_evidence_fails_by_name_though_that_was_answered_before_the_coordinator_came_back(
    lead: Lead, proof: Evidence
) -> None:
    """The servers have ended it for good."""
    made = lead.running("answered", **COVERT)
    digest = folder(lead).keep(proof.encoded())
    folder(lead).note(Held(digest, PAIR[1], incident_of(proof), now(), ("answered",), True))
    answer(folder(lead), digest)
    lead.servers[0].says_caught = SAYS
    lead.restart()
    lead.until(made, State.failed)
    assert outcome(lead, "answered") == f"aggregator south did not follow the noise protocol (evidence {digest[:16]}…)"


def test_evidence_that_cannot_be_read_any_more_lets_a_run_rest_of_which_a_server_says_that_the_other_was_caught(
    lead: Lead,
) -> None:
    """The disk fails between its refusal and the question for its evidence."""
    damaged = lead.folder / "state" / "evidence" / ("ab" * 32 + ".json")
    damaged.parent.mkdir(mode=0o700)

    class Damaging(list[bytes]):
        def __iter__(self) -> Iterator[bytes]:
            damaged.write_text("{}")
            return iter(())

    made = lead.running("said", **COVERT)
    lead.servers[0].evidence = Damaging()
    lead.servers[0].says_caught = SAYS
    lead.until(made, State.stalled)
    assert "EvidenceFileError" in outcome(lead, "said")


def test_evidence_that_cannot_be_read_lets_runs_rest_and_fails_none(lead: Lead, proof: Evidence) -> None:
    made = lead.running("damaged", **COVERT)
    lead.servers[0].evidence = [proof.encoded()]
    lead.opening.set()
    until(lambda: lead.process.runs.all[made.digest].index > 2)
    (lead.folder / "state" / "evidence").mkdir(mode=0o700)
    (lead.folder / "state" / "evidence" / ("ab" * 32 + ".json")).write_text("{}")
    lead.until(made, State.stalled)
    assert "EvidenceFileError" in outcome(lead, "damaged")
    assert handed(lead, made) == []
