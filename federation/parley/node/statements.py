"""What an aggregation server says of a round, signed: receipts for uploads, and a statement of each opened sum.

A statement names everything that a party can check of a round: the question, who is in the sum with which upload, where
the noise is from, and the server's statement of the round before. So whoever has seen the two newest has seen one
history, and no server can show another to somebody else without signing two things.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from parley.federation.errors import FederationError, NotAuthenticatedError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.rounds import DIGEST_BYTES
from parley.mpc.history import Draft, opening_id
from parley.node import signatures
from parley.node.credentials import Identity
from parley.node.pins import Pins
from parley.v1 import common_pb2

STATEMENT, RECEIPT = "round statement 1", "receipt 1"
EPOCH_BYTES, LIFE_BYTES = 16, 16
MOST_STATEMENTS = 64
"""In one answer."""
MOST_WORD_BYTES = 1 << 20


class NoWordError(FederationError):
    """These bytes are not that server's word about that round: whoever handed them over may be at fault."""


class StatementError(FederationError):
    """A server's own signed word is against the rules: it, or its peer, did not follow the protocol."""

    def __init__(self, message: str, *servers: str) -> None:
        super().__init__(message)
        self.servers = servers
        """Whose word it is, by name."""


def mode_of(manifest: Manifest) -> tuple[str, str]:
    """How the run's noise is made: its security, and the part that each server adds of its own."""
    parts = manifest.noise.parts
    return parts.security, f"{parts.own:g}"


def sign_statement(
    identity: Identity, manifest_digest: bytes, role: int, mode: tuple[str, str], life: bytes, draft: Draft
) -> bytes:
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
    """A NoWordError unless that server has signed it, about that round of that run."""
    server = manifest.identities(Role.aggregator)[role]
    said = common_pb2.RoundStatement()
    _parse(word, said)
    if (said.aggregator, said.role, said.manifest_digest, said.round) != (server.uri, role, manifest.digest, index):
        raise NoWordError(f"this is not a statement of round {index} by {server.name}")
    _verify(pins, server, STATEMENT, word)
    return Stated(server, said, digest_of(word))


def read_receipt(
    word: common_pb2.SignedWord, manifest: Manifest, role: int, index: int, pins: Pins
) -> common_pb2.Receipt:
    """A NoWordError unless that server has signed it, about that round of that run."""
    server = manifest.identities(Role.aggregator)[role]
    said = common_pb2.Receipt()
    _parse(word, said)
    if (said.aggregator, said.role, said.manifest_digest, said.round) != (server.uri, role, manifest.digest, index):
        raise NoWordError(f"this is not a receipt for round {index} by {server.name}")
    _verify(pins, server, RECEIPT, word)
    return said


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
    if (said.security, said.own) != mode_of(manifest):
        return "is of noise that the run does not have"
    sizes = {len(each) for each in (said.query_digest, said.share_digest, *(upload for _, upload in pairs))}
    if sizes != {DIGEST_BYTES} or (len(said.epoch), len(said.life)) != (EPOCH_BYTES, LIFE_BYTES):
        return "has a digest of another length"
    if said.opening != opening_id(said.epoch, said.start, said.length, pairs):
        return "is not of the opening that it names"
    return ""


def check_agreement(pair: Sequence[Stated]) -> None:
    """A StatementError unless both servers say the same of the round."""
    a, b = pair
    if a.shared != b.shared:
        raise StatementError(
            f"aggregators {a.server.name} and {b.server.name} state different sums of round {a.said.round}",
            a.server.name,
            b.server.name,
        )
