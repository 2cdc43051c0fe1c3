"""The known answers of noise under audit: called by make.py.

Keys are fixed scalars. A signature has randomness of its own: so the vectors hold those that were made, and a replay
signs with them, once it has seen that they fit.
"""

import base64
import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from parley.mpc.channel import Channel
from parley.mpc.covert import Signing
from parley.mpc.evidence import Evidence, judge
from parley.mpc.randomness import Csprng
from parley.mpc.tables import load
from tests.support.covert import ALGORITHM, CONTEXT, DEADLINE, LIES, Auditor, Class, auditing, run, verify
from tests.support.two import run_both

HERE = Path(__file__).parent
LANES = 16
SEEDS = (bytes([3]) * 32, bytes([4]) * 32)


def private(role: int) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(0x1000 + role, ec.SECP256R1())


def public(role: int) -> bytes:
    point = serialization.PublicFormat.CompressedPoint
    return private(role).public_key().public_bytes(serialization.Encoding.X962, point)


def signing(role: int, sign: Callable[[bytes], bytes] | None = None) -> Signing:
    own = private(role)
    return Signing(
        public(role), sign or (lambda text: own.sign(text, ALGORITHM)), lambda: [public(1 - role)], verify, CONTEXT
    )


def text(data: Any) -> str:
    return base64.b64encode(bytes(data)).decode()


def session(signatures: list[list[bytes]] | None = None) -> list[dict[str, Any]]:
    """Two batches from seeds: server 0 audits the first, nobody the second. Everything that each server sends."""

    def end(role: int, channel: Channel) -> dict[str, Any]:
        sent: list[bytes] = []
        made: list[bytes] = []
        exchange = channel.exchange

        def spoken(message: Any) -> Any:
            sent.append(b"".join(piece.tobytes() for piece in message))
            return exchange(message)

        def sign(statement: bytes) -> bytes:
            known = private(role).sign(statement, ALGORITHM) if signatures is None else signatures[role][len(made)]
            if not verify(public(role), statement, known):
                raise AssertionError("another statement than the vector's was to be signed")
            made.append(known)
            return known

        channel.exchange = spoken  # type: ignore[method-assign]
        coins = auditing(lambda number: (role, number) == (0, 1))
        made_of = coins(
            channel, role, load("strips", "standard"), signing(role, sign), Fraction(1, 8), lambda evidence: None,
            Csprng(SEEDS[role]),
        )  # fmt: skip
        batches = [made_of.samples(LANES) for _ in range(2)]
        made_of.close()
        accusations = [evidence.encoded() for evidence in made_of.accusations]  # type: ignore[attr-defined]
        return {"session": made_of.id, "sent": sent, "signatures": made, "batches": batches, "accusations": accusations}

    return run_both(end, deadline_seconds=DEADLINE)


def transcript() -> dict[str, Any]:
    ends = session()
    return {
        "lanes": LANES,
        "seeds": [text(seed) for seed in SEEDS],
        "keys": [public(role).hex() for role in (0, 1)],
        "context": text(CONTEXT),
        "session": text(ends[0]["session"]),
        "accusation": text(ends[0]["accusations"][0]),
        "servers": [
            {
                "signatures": [text(each) for each in end["signatures"]],
                "sent": [text(piece) for piece in end["sent"]],
                "batches": [[str(share) for share in batch] for batch in end["batches"]],
            }
            for end in ends
        ],
    }


def accused(classes: tuple[Class, Class], accuser: int) -> Evidence:
    ends = run(1, classes=classes, seeds=SEEDS, signings=(signing(0), signing(1)))
    evidence: Evidence = ends[accuser].session.accusations[0]
    return evidence


def cases() -> Iterator[tuple[str, bytes]]:
    """Why, and the evidence."""
    for name, why in (
        ("collapse", "B sends zeros where ones belong, so that the noise collapses"),
        ("false accept bits", "B seals other accept bits than its seed gives"),
        ("hides its seed", "B hands over a seed that it had not committed to"),
    ):
        yield why, accused((Auditor, LIES[name]()), 0).encoded()
    honest = accused((Auditor, Auditor), 0)
    yield "B did all that its seed says", honest.encoded()
    yield "B cheats, audits, and accuses A", accused((Auditor, LIES["collapse"]()), 1).encoded()
    yield "A's signature under what A did not sign", bytes(_flipped(honest.encoded(), 60))
    yield "another opening than the accuser's", bytes(_flipped(honest.encoded(), -40))
    yield "another scalar than the accuser's", bytes(_flipped(honest.encoded(), -30))


def _flipped(data: bytes, place: int) -> bytearray:
    changed = bytearray(data)
    changed[place] ^= 1
    return changed


def verdicts() -> list[dict[str, Any]]:
    found = []
    for why, data in cases():
        verdict = judge(Evidence.decode(data), verify)
        found.append(
            {
                "why": why, "evidence": text(data), "guilty": verdict.guilty, "key": verdict.key.hex(),
                "reason": verdict.reason, "frame": verdict.frame,
            }
        )  # fmt: skip
    return found


def main() -> None:
    (HERE / "covert-audited.json").write_text(json.dumps(transcript(), indent=0) + "\n")
    (HERE / "evidence.json").write_text(json.dumps(verdicts(), indent=1) + "\n")
