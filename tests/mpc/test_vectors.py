"""Known answers: whole sessions from seeds, byte for byte, and hostile changes with the errors they must meet."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.mpc import errors
from parley.mpc.channel import Channel
from parley.mpc.evidence import Evidence, judge
from parley.mpc.randomness import Csprng
from parley.mpc.session import Session
from parley.mpc.tables import check_precision, load
from tests.support.covert import verify
from tests.support.two import outcomes
from tests.support.until import GIVE_UP_SECONDS
from tests.vectors import make_covert
from tests.vectors.make import replay

VECTORS = Path(__file__).parent.parent / "vectors"
SESSIONS = sorted(VECTORS.glob("session-*.json"))
EVIDENCE: list[dict[str, Any]] = json.loads((VECTORS / "evidence.json").read_text())
HOSTILE: list[dict[str, Any]] = json.loads((VECTORS / "hostile.json").read_text())


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem)
def test_a_session_replays_byte_for_byte(path: Path) -> None:
    expected = json.loads(path.read_text())
    seeds = [base64.b64decode(seed)[0] for seed in expected["seeds"]]
    names = check_precision(expected["cover"], expected["precision"])
    ends = replay(*names, (seeds[0], seeds[1]))
    for end, known in zip(ends, expected["servers"], strict=True):
        assert base64.b64encode(end["session"]).decode() == expected["session"]
        assert [base64.b64encode(piece.tobytes()).decode() for piece in end["sent"]] == known["sent"]
        assert [str(share) for share in end["samples"]] == known["samples"]
    total = (ends[0]["samples"] + ends[1]["samples"]).view(np.int64)
    assert total.tolist() == expected["samples"]


def test_there_are_vectors_for_every_cover_and_precision() -> None:
    assert {path.stem for path in SESSIONS} == {
        "session-strips-standard", "session-strips-high", "session-rectangle-standard",
    }  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case["why"])
def test_a_hostile_message_meets_its_error(case: dict[str, Any]) -> None:
    """The change is made inside the protocol, below the frames' tags: as a server that lies, not as a bad line."""
    tables = load("strips", "standard")

    class Lying(Channel):
        spoken = 0

        def exchange(self, message: Any) -> Any:
            number, self.spoken = self.spoken, self.spoken + 1
            if number == case["exchange"]:
                flat = np.concatenate(message)
                flat[case["position"]] ^= case["xor"]
                cuts = np.cumsum([piece.size for piece in message])[:-1]
                message = np.split(flat, cuts)
            return super().exchange(message)

    def end(role: int, channel: Channel) -> Any:
        if role == 1:
            channel = Lying(channel._link, GIVE_UP_SECONDS)
        session = Session(channel, role, tables, Csprng(bytes([role + 1]) * 32))
        return session.samples(16)

    outcome = outcomes(end, deadline_seconds=GIVE_UP_SECONDS)[0]
    assert type(outcome) is getattr(errors, case["error"]), outcome


def test_a_session_under_audit_replays_byte_for_byte() -> None:
    """One audited batch and one that is used, with everything that either server says."""
    known = json.loads((VECTORS / "covert-audited.json").read_text())
    signatures = [[base64.b64decode(each) for each in server["signatures"]] for server in known["servers"]]
    ends = make_covert.session(signatures)
    for end, server in zip(ends, known["servers"], strict=True):
        assert make_covert.text(end["session"]) == known["session"]
        assert [make_covert.text(piece) for piece in end["sent"]] == server["sent"]
        assert [[str(share) for share in batch] for batch in end["batches"]] == server["batches"]
    assert [make_covert.text(each) for each in ends[0]["accusations"]] == [known["accusation"]]
    assert [len(batch) > 0 for batch in ends[0]["batches"]] == [False, True]


@pytest.mark.parametrize("case", EVIDENCE, ids=lambda case: case["why"])
def test_evidence_has_the_verdict_that_it_had(case: dict[str, Any]) -> None:
    evidence = Evidence.decode(base64.b64decode(case["evidence"]))
    verdict = judge(evidence, verify)
    assert (verdict.guilty, verdict.key.hex(), verdict.reason, verdict.frame) == (
        case["guilty"], case["key"], case["reason"], case["frame"],
    )  # fmt: skip
    assert make_covert.text(evidence.encoded()) == case["evidence"]
