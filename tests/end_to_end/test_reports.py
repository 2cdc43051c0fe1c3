"""The report of each role of a real federation, of a whole run: they agree, and all of them verify."""

import base64
from pathlib import Path
from typing import Any

import pytest

from parley.bench.train_data import study
from parley.cli.reports import signed_report
from parley.coordinator.operator_client import Coordinator
from parley.coordinator.store import State
from parley.demo.local import LocalFederation
from parley.federation.manifest import Manifest
from parley.mpc.parts import NoiseParts
from parley.party.books import states_of
from parley.party.process import party_node, settings_of
from parley.report.check import FORMS, verified
from parley.report.content import fingerprint
from parley.report.document import document
from parley.v1 import common_pb2
from tests.end_to_end.conftest import DIMENSION, PARTIES, ROUNDS
from tests.support.until import until


def reports(manifest: Manifest, folder: Path, data: dict[str, list[Path]]) -> dict[str, dict[str, Any]]:
    """Of every node by its name, the run being over; every form is verified."""
    with LocalFederation(folder, manifest, data) as federation:
        federation.start()
        coordinator = Coordinator(federation.coordinator.folder)
        digest = coordinator.submit(manifest)
        *_, (row, _) = coordinator.follow(digest)
        assert row.state is State.finished, (row.outcome, federation.coordinator.tail())
        for node in federation.parties:
            settings = settings_of(party_node(node.folder))
            until(lambda held=settings: [each.state for each in states_of(held)] == ["settled"])  # type: ignore[misc]
        found = {}
        for name, node in federation.nodes.items():  # while its process runs
            made = signed_report(node.folder, manifest.run)
            for form in ("json", "html"):
                assert "hold by the keys" in verified(FORMS[form](made)).what[2]
            assert made.content["node"]["key_fingerprint"] == fingerprint(made.key)
            found[name] = dict(made.content)
    return found


@pytest.mark.parametrize("security", ["semi-honest", pytest.param("malicious", marks=pytest.mark.slow)])
def test_every_role_reports_the_same_run_from_its_own_books(
    tmp_path: Path, data: dict[str, list[Path]], security: str
) -> None:
    parts = NoiseParts("malicious", 1.0) if security == "malicious" else NoiseParts("semi-honest", 0.5)
    manifest = study("whole", PARTIES, DIMENSION, ROUNDS, parts)
    found = reports(manifest, tmp_path / "nodes", data)
    lead, servers = found[manifest.coordinator.name], [found[each.name] for each in manifest.aggregators]
    parties = [found[name] for name in manifest.parties]
    assert {each["run"]["manifest_digest"] for each in found.values()} == {manifest.digest.hex()}
    assert {each["guarantee"]["epsilon"] for each in found.values()} == {lead["guarantee"]["epsilon"]}
    assert {each["run"]["rounds"] for each in found.values()} == {ROUNDS}
    for each in found.values():
        first, _ = each["guarantee"]["plainly"]
        assert ("whatever that aggregator does" in first) == (security == "malicious")
        assert len(document(each).blocks) > 10
    # Both ends, of whoever has both; a server has its own.
    assert [len(each["servers"]["ends"]) for each in (lead, *servers, *parties)] == [2, 1, 1, *[2] * PARTIES]
    assert {end["openings"] for each in found.values() for end in each["servers"]["ends"]} == {ROUNDS}
    assert [len(each["servers"]["statements"]) for each in (lead, *servers)] == [2, 1, 1]
    stated = {word["aggregator"]: word["digest"] for word in lead["servers"]["statements"]}
    assert {word["digest"] for each in servers for word in each["servers"]["statements"]} == set(stated.values())
    # A party has on disk what it had checked before its last answer: the statements before the last ones.
    words = [common_pb2.SignedWord.FromString(base64.b64decode(each["word"])) for each in lead["servers"]["statements"]]
    before = [common_pb2.RoundStatement.FromString(word.body).previous.hex() for word in words]
    assert [each["servers"]["checked"] for each in parties] == [{"round": ROUNDS - 2, "digests": before}] * PARTIES
    # What each saw of the others' part.
    for each in (lead, *servers):
        rounds = {member["name"]: member["rounds"] for member in each["members"]}
        assert [rounds[name] for name in manifest.parties] == [ROUNDS] * PARTIES
    assert all(each["left"][0]["bytes"] > 0 for each in found.values())
    assert [bool(each["budgets"]) for each in (lead, *servers, *parties)] == [True, False, False, *[True] * PARTIES]
