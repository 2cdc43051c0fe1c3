"""What an aggregation server says of a round, signed: receipts for uploads, and a statement of each opened sum.

A statement names everything that a party can check of a round: the question, who is in the sum with which upload, where
the noise is from, and the server's statement of the round before. So whoever has seen the two newest has seen one
history, and no server can show another to somebody else without signing two things.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from google.protobuf.message import DecodeError

from parley.federation.errors import FederationError, NotAuthenticatedError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.rounds import DIGEST_BYTES
from parley.mpc.evidence import MOST_LANES
from parley.mpc.history import Draft, opening_id
from parley.node import newer, signatures
from parley.node.credentials import Identity
from parley.node.pins import Pins
from parley.v1 import common_pb2

STATEMENT, RECEIPT = "round statement 1", "receipt 1"
EPOCH_BYTES, LIFE_BYTES = 16, 16
MOST_STATEMENTS = 64
"""In one answer."""
MOST_WORD_BYTES = 1 << 20
MOST_PENDING = 64
"""Pieces of evidence that a statement names."""
MOST_COUNTED = 1 << 48
FEW_BITS = 50
"""So few audits as an honest server makes with a probability below 2^-50 are refused."""


class NoWordError(FederationError):
    """These bytes are not that server's word about that round: whoever handed them over may be at fault."""


class StatementError(FederationError):
    """A server's own signed word is against the rules: it, or its peer, did not follow the protocol."""

    def __init__(self, message: str, *servers: str) -> None:
        super().__init__(message)
        self.servers = servers
        """Whose word it is, by name."""


def mode_of(manifest: Manifest) -> tuple[str, str, str]:
    """How the run's noise is made: its security, the part that each server adds of its own, how much is audited."""
    parts = manifest.noise.parts
    return parts.security, f"{parts.own:g}", parts.audit or ""


def sign_statement(
    identity: Identity, manifest_digest: bytes, role: int, mode: tuple[str, str, str], life: bytes, draft: Draft,
    pending: Sequence[str] = (),
) -> bytes:  # fmt: skip
    """A SignedWord. Only a server that has the round before in its store can go on with the chain."""
    if (draft.round == 0) != (draft.previous is None):
        raise FederationError(
            f"round {draft.round} has no signed statement before it: an earlier release began the run, start another"
        )
    before = manifest_digest if draft.previous is None else digest_of(common_pb2.SignedWord.FromString(draft.previous))
    body = common_pb2.RoundStatement(
        aggregator=identity.name.uri,
        role=role,
        manifest_digest=manifest_digest,
        round=draft.round,
        query_digest=draft.query,
        contributions=[
            common_pb2.StatedContribution(party=party, upload_digest=upload) for party, upload in draft.contributions
        ],
        opening=draft.opening,
        epoch=draft.epoch,
        start=draft.start,
        length=draft.length,
        security=mode[0],
        own=mode[1],
        share_digest=draft.share,
        previous=before,
        life=life,
        audit=mode[2],
        audits_made=draft.audits[0],
        audits_passed=draft.audits[1],
        evidence=[bytes.fromhex(digest) for digest in pending],
    ).SerializeToString(deterministic=True)
    return _word(identity, STATEMENT, body)


def sign_receipt(
    identity: Identity, manifest_digest: bytes, role: int, life: bytes, index: int, query: bytes, upload: bytes
) -> bytes:
    """A SignedWord."""
    body = common_pb2.Receipt(
        aggregator=identity.name.uri, role=role, manifest_digest=manifest_digest, round=index, query_digest=query,
        upload_digest=upload, life=life,
    ).SerializeToString(deterministic=True)  # fmt: skip
    return _word(identity, RECEIPT, body)


def _word(identity: Identity, label: str, body: bytes) -> bytes:
    signature = signatures.sign(identity, label, body)
    return common_pb2.SignedWord(body=body, signature=signature).SerializeToString()


def digest_of(word: common_pb2.SignedWord) -> bytes:
    """Of what is said, whatever the signature: one statement has many signatures."""
    return hashlib.sha256(b"parley round statement 1\n" + word.body).digest()


def statement_signed_by(key: bytes, word: common_pb2.SignedWord) -> bool:
    """Whether that key has signed this statement; whose the key is, a pin says."""
    return signatures.signed_by(key, STATEMENT, word.body, word.signature)


@dataclass(frozen=True)
class Stated:
    """One server's word about one round, and nobody else's; what it says is not judged yet."""

    server: NodeName
    said: common_pb2.RoundStatement
    digest: bytes

    @property
    def contributions(self) -> dict[str, bytes]:
        return {each.party: each.upload_digest for each in self.said.contributions}

    @property
    def shared(self) -> tuple[object, ...]:
        """What both servers must say alike."""
        said = self.said
        pairs = tuple((each.party, each.upload_digest) for each in said.contributions)
        return said.query_digest, pairs, said.opening, said.epoch, said.start, said.length


def read_statement(word: common_pb2.SignedWord, manifest: Manifest, role: int, index: int, pins: Pins) -> Stated:
    """A NoWordError unless that server has signed it, about that round of that run; a NewerError of a newer server."""
    server = manifest.identities(Role.aggregator)[role]
    said = common_pb2.RoundStatement()
    _parse(word, said)
    if (said.aggregator, said.role, said.manifest_digest, said.round) != (server.uri, role, manifest.digest, index):
        raise NoWordError(f"this is not a statement of round {index} by {server.name}")
    _verify(pins, server, STATEMENT, word)
    newer.known(said, word.body)  # last: what the server itself has signed, and nobody else has added
    return Stated(server, said, digest_of(word))


def read_receipt(
    word: common_pb2.SignedWord, manifest: Manifest, role: int, index: int, pins: Pins
) -> common_pb2.Receipt:
    """A NoWordError unless that server has signed it, about that round of that run; a NewerError of a newer server."""
    server = manifest.identities(Role.aggregator)[role]
    said = common_pb2.Receipt()
    _parse(word, said)
    if (said.aggregator, said.role, said.manifest_digest, said.round) != (server.uri, role, manifest.digest, index):
        raise NoWordError(f"this is not a receipt for round {index} by {server.name}")
    _verify(pins, server, RECEIPT, word)
    return newer.known(said, word.body)


def _parse(word: common_pb2.SignedWord, into: "common_pb2.RoundStatement | common_pb2.Receipt") -> None:
    if len(word.body) > MOST_WORD_BYTES:
        raise NoWordError(f"a statement of {len(word.body):,} bytes: at most {MOST_WORD_BYTES:,}")
    try:
        into.ParseFromString(word.body)
    except DecodeError:
        raise NoWordError("a statement cannot be read") from None


def _verify(pins: Pins, server: NodeName, label: str, word: common_pb2.SignedWord) -> None:
    try:
        signatures.verify(pins, server, label, word.body, word.signature)
    except NotAuthenticatedError as error:
        raise NoWordError(str(error)) from None


def check_statement(stated: Stated, manifest: Manifest, previous: bytes) -> None:
    """A StatementError unless it keeps to the manifest, to itself, and to the same server's statement before it."""
    problem = _problem(stated.said, manifest, previous)
    if problem:
        name = stated.server.name
        raise StatementError(f"aggregator {name}'s statement of round {stated.said.round} {problem}", name)


def _problem(said: common_pb2.RoundStatement, manifest: Manifest, previous: bytes) -> str:
    """What is wrong with it, or nothing."""
    pairs = [(each.party, each.upload_digest) for each in said.contributions]
    parties = [party for party, _ in pairs]
    if said.previous != previous:
        return "does not follow the one before it"
    if parties != sorted(set(parties)) or not set(parties) <= set(manifest.parties):
        return "names others than the run's parties"
    if len(parties) < manifest.minimum_parties:
        return f"is of {len(parties)} parties, the run needs {manifest.minimum_parties}"
    if (said.security, said.own, said.audit) != mode_of(manifest):
        return "is of noise that the run does not have"
    named = (*said.evidence, *(upload for _, upload in pairs))
    sizes = {len(each) for each in (said.query_digest, said.share_digest, *named)}
    if len(said.evidence) > MOST_PENDING:
        return f"names {len(said.evidence)} pieces of evidence"
    if sizes != {DIGEST_BYTES} or (len(said.epoch), len(said.life)) != (EPOCH_BYTES, LIFE_BYTES):
        return "has a digest of another length"
    if said.opening != opening_id(said.epoch, said.start, said.length, pairs):
        return "is not of the opening that it names"
    return _audits_problem(said, manifest.noise.parts.audit_rate)


def _audits_problem(said: common_pb2.RoundStatement, rate: Fraction) -> str:
    counts = (said.audits_made, said.audits_passed, said.start)
    if not rate:
        return "counts audits, which the run does not have" if any(counts[:2]) else ""
    if max(counts) > MOST_COUNTED:
        return "counts more audits than there can be"
    if too_few(said.audits_made, -(-(said.start + said.length) // MOST_LANES), rate):
        return f"says {said.audits_made} audits where its noise took many times as many"
    return ""


def too_few(made: int, batches: int, rate: Fraction) -> bool:
    """Whether a server that audits at this rate makes no more than `made` audits before `batches` batches are kept with
    a probability below 2^-FEW_BITS, by Chernoff's bound.

    A batch is kept if neither server audits it. Of those that are kept or audited here, each is audited here with the
    probability q, so that made is at most so many exactly if of the first `batches + made` of them no more are.
    """
    q = float(rate / (rate + (1 - rate) ** 2))
    total = batches + made
    share = made / total if total else 1.0
    if share >= q:
        return False
    divergence = (share * math.log(share / q) if made else 0.0) + (1 - share) * math.log((1 - share) / (1 - q))
    return total * divergence > FEW_BITS * math.log(2)


def check_agreement(pair: Sequence[Stated]) -> None:
    """A StatementError unless both servers say the same of the round."""
    a, b = pair
    if a.shared != b.shared:
        raise StatementError(
            f"aggregators {a.server.name} and {b.server.name} state different sums of round {a.said.round}",
            a.server.name,
            b.server.name,
        )


def audits_stated(word: bytes, role: int) -> dict[str, object]:
    """For this server's trail: what it has just stated of a round whose noise is audited."""
    said = common_pb2.RoundStatement.FromString(common_pb2.SignedWord.FromString(word).body)
    if not said.audit:
        return {}
    counts = {"audits_made": said.audits_made, "audits_passed": said.audits_passed}
    return {"manifest": said.manifest_digest.hex(), "epoch": said.epoch.hex(), "server": role, **counts}


@dataclass(frozen=True)
class Audited:
    """How far audits had come by both servers' statements of a round; they count within one noise session."""

    epoch: bytes
    end: int
    """Of the round's noise in it."""
    made: tuple[int, int]
    """By A of B's batches, by B of A's."""


def check_audits(before: Audited | None, pair: Sequence[Stated]) -> Audited:
    """A StatementError unless each has audited what the other was audited in, and no count or place goes back."""
    a, b = (stated.said for stated in pair)
    names = [stated.server.name for stated in pair]
    where = f"aggregators {names[0]} and {names[1]}"
    if (a.audits_made, a.audits_passed) != (b.audits_passed, b.audits_made):
        raise StatementError(f"{where} count different audits up to round {a.round}", *names)
    found = Audited(a.epoch, a.start + a.length, (a.audits_made, b.audits_made))
    if before is not None and before.epoch == found.epoch:
        if a.start < before.end:
            raise StatementError(f"{where} state noise for round {a.round} that was used before", *names)
        if found.made[0] < before.made[0] or found.made[1] < before.made[1]:
            raise StatementError(f"{where} count fewer audits in round {a.round} than before", *names)
    return found
