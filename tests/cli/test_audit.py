"""`parley audit verify`: whole books, altered books, and nodes that contradict each other."""

from pathlib import Path

import pytest

from parley.federation.names import NodeName, Role
from parley.node.trail import Trail
from parley.privacy.filters import Cap, Policy
from parley.privacy.ledger import Ledger
from parley.privacy.mechanism import Unit
from tests.support.command import answer, parley

PARTY = NodeName("cardio", Role.party, "hospital-a")
NORTH = NodeName("cardio", Role.aggregator, "north")


@pytest.fixture
def nodes(tmp_path: Path) -> tuple[Path, Path]:
    party, north = tmp_path / "hospital-a", tmp_path / "north"
    with (
        Trail.open(party / "state/trail.jsonl", PARTY) as one,
        Trail.open(north / "state/trail.jsonl", NORTH) as other,
    ):
        sent = one.append("round.answered", run="heart-1", round=0)
        other.append("upload.stored", run="heart-1", round=0, peer=PARTY, peer_event=sent)
    ledger = Ledger.create(party / "state/ledger.sqlite", Policy("basic"))
    ledger.register("patients", Unit(), Cap(4.0, 1e-4))
    ledger.close()
    return party, north


def test_whole_books_are_verified_together(nodes: tuple[Path, Path]) -> None:
    done = parley("audit", "verify", *map(str, nodes), "--json")
    assert done.returncode == 0, done.stderr
    found = answer(done)
    assert found["intact"]
    assert [chain["kind"] for chain in found["chains"]] == ["trail", "ledger", "trail"]
    assert found["references"] == {"checked": 1, "unchecked": 0, "absent": []}
    head = found["chains"][0]["head"]
    assert parley("audit", "verify", str(nodes[0]), "--anchor", head).returncode == 0
    alone = str(nodes[1] / "state/trail.jsonl")
    assert answer(parley("audit", "verify", alone, "--json"))["references"]["unchecked"] == 1
    assert "ask the peers' operators for state/trail.jsonl" in parley("audit", "verify", alone).stdout


@pytest.mark.slow
def test_an_altered_trail_and_an_altered_ledger_are_bad_news(nodes: tuple[Path, Path]) -> None:
    party, _ = nodes
    trail, ledger = party / "state/trail.jsonl", party / "state/ledger.sqlite"
    head = answer(parley("audit", "verify", str(party), "--json"))["chains"][0]["head"]
    text = trail.read_text()
    trail.write_text(text.replace("heart-1", "heart-2"))
    done = parley("audit", "verify", str(party), "--json")
    assert (done.returncode, answer(done)["intact"]) == (1, False)
    assert "is not what was written" in answer(done)["chains"][0]["problem"]
    trail.write_text("")
    assert parley("audit", "verify", str(party)).returncode == 0
    done = parley("audit", "verify", str(party), "--anchor", head)
    assert done.returncode == 1
    assert "was cut" in done.stdout
    trail.write_text(text)
    ledger.with_name("ledger.sqlite.head").write_text("7:" + "0" * 64 + "\n")
    done = parley("audit", "verify", str(party), "--json")
    assert done.returncode == 1
    assert "ledger was cut" in answer(done)["chains"][1]["problem"]


def test_a_rewritten_trail_is_found_by_its_peer(nodes: tuple[Path, Path]) -> None:
    party, north = nodes
    (party / "state/trail.jsonl").unlink()
    with Trail.open(party / "state/trail.jsonl", PARTY) as trail:
        trail.append("round.answered", run="heart-1", round=1)
    assert parley("audit", "verify", str(party)).returncode == 0
    done = parley("audit", "verify", str(party), str(north))
    assert done.returncode == 1
    assert "entry 1 of aggregator/north refers to party/hospital-a/1-" in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere"], "neither a trail nor a node's folder"),
        ([".", ".", "--anchor", "1:" + "0" * 64], "an anchor belongs to one trail"),
        ([".", "--anchor", "yesterday"], "is not a head"),
    ],
)
def test_a_wrong_call_gets_one_line(words: list[str], says: str) -> None:
    done = parley("audit", "verify", *words)
    assert done.returncode == 2
    assert says in done.stderr
