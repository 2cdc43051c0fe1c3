"""A server's signed account of a node: every run that names the node and that the server has ever admitted.

What a node that was restored from a backup asks for, of each server, before it takes part in anything. A server's word
is bound to who asked, and to random bytes that were drawn for the call: an older one cannot be played again.
"""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import grpc
from google.protobuf.message import DecodeError

from parley.federation.errors import FederationError, NotAuthenticatedError
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName
from parley.federation.rounds import DIGEST_BYTES
from parley.node import newer, signatures
from parley.node.credentials import Identity
from parley.node.endings import RESTORED_BYTES
from parley.node.pins import Pins
from parley.v1 import aggregator_pb2, common_pb2

Ask = Callable[[aggregator_pb2.AccountRequest], aggregator_pb2.AccountResponse]
LABEL = "account 1"
NONCE_BYTES = 32
MOST_RUNS = 64
"""In one part."""
MOST_ACCOUNTED = 100_000
"""In all: more than a node ever takes part in, and little memory."""
MOST_RESTORATIONS = 4096
CLOCKS_SECONDS = 3600
"""Two machines' clocks may differ by that."""
MOST_NAME = 200


@dataclass(frozen=True)
class Part:
    """Some of a server's account, verified."""

    runs: tuple[aggregator_pb2.AccountedRun, ...]
    total: int
    restored: tuple[aggregator_pb2.Restoration, ...]
    digest: str
    """Of what was signed, in hex."""


def sign_account(identity: Identity, account: aggregator_pb2.Account) -> common_pb2.SignedWord:
    """Only of a node's whole books: who relies on it charges nothing more than it says."""
    body = account.SerializeToString(deterministic=True)
    return common_pb2.SignedWord(body=body, signature=signatures.sign(identity, LABEL, body))


def read_account(
    word: common_pb2.SignedWord, pins: Pins, server: NodeName, caller: NodeName, nonce: bytes, offset: int
) -> Part:
    """A NotAuthenticatedError unless it is that server's word, for this call."""
    signatures.verify(pins, server, LABEL, word.body, word.signature)
    try:
        said = aggregator_pb2.Account.FromString(word.body)
    except DecodeError:
        raise NotAuthenticatedError(f"what {server} has signed is no account") from None
    meant = (said.aggregator, said.caller, said.nonce, said.offset)
    if meant != (server.uri, caller.uri, nonce, offset):
        raise NotAuthenticatedError(f"what {server} has signed is no answer to this call: ask again")
    try:
        newer.known(said, word.body)  # once it is known to be the server's own word: nobody else has added to it
    except newer.NewerError as error:
        raise FederationError(f"the account of {server}: {error}") from None
    if not _in_form(said):
        raise NotAuthenticatedError(f"the account of {server} makes no sense: its operator has to look into it")
    return Part(tuple(said.runs), said.total, tuple(said.restored), hashlib.sha256(word.body).hexdigest())


def _in_form(said: aggregator_pb2.Account) -> bool:
    """Whole but for what further parts have, and within bounds."""
    left = said.total - said.offset
    return (
        said.total <= MOST_ACCOUNTED
        and len(said.restored) <= MOST_RESTORATIONS
        and len(said.runs) == max(0, min(left, MOST_RUNS))
        and all(_run_in_form(run) for run in said.runs)
        and all(len(each.restored) == RESTORED_BYTES and each.made <= each.at for each in said.restored)
    )


def _run_in_form(run: aggregator_pb2.AccountedRun) -> bool:
    return len(run.manifest_digest) == DIGEST_BYTES and 0 < len(run.run) <= MOST_NAME and run.run.isprintable()


def gaps(restored: Sequence[aggregator_pb2.Restoration], since: int | None) -> list[tuple[int, int]]:
    """Times of which the server knows nothing, as far as they matter to who has a backup of `since`."""
    return [(each.made, each.at) for each in restored if since is None or each.at > since - CLOCKS_SECONDS]


@dataclass
class Heard:
    """All that one server says."""

    server: NodeName
    runs: dict[bytes, aggregator_pb2.AccountedRun] = field(default_factory=dict)
    digests: list[str] = field(default_factory=list)
    """Of what it has signed, part by part."""

    @property
    def digest(self) -> str:
        return hashlib.sha256("".join(self.digests).encode()).hexdigest()


def hear(ask: Ask, pins: Callable[[], Pins], server: NodeName, caller: NodeName, since: int | None) -> Heard:
    """A server's whole account, for who has a backup of `since`; a FederationError where there is none that counts."""
    heard, total = Heard(server), -1
    while total < 0 or len(heard.runs) < total:
        offset, nonce = len(heard.runs), os.urandom(NONCE_BYTES)
        answer = ask(aggregator_pb2.AccountRequest(nonce=nonce, offset=offset))
        part = read_account(answer.account, pins(), server, caller, nonce, offset)
        if times := gaps(part.restored, since):
            hours = sum(at - made for made, at in times) / 3600
            raise FederationError(
                f"{server} was restored from a backup and has forgotten {hours:.1f} hours in which runs may have cost "
                "something here"
            )
        heard.runs |= {run.manifest_digest: run for run in part.runs}
        heard.digests.append(part.digest)
        if (total >= 0 and part.total != total) or len(heard.runs) != offset + len(part.runs):
            raise FederationError(f"the parts of {server}'s account do not fit together: ask again")
        total = part.total
    return heard


def manifest_in(
    asks: Mapping[NodeName, Ask], digest: bytes, line: Callable[[grpc.RpcError, NodeName], str]
) -> Manifest:
    """A run's, by whichever of these servers hands it out: its digest says that it is the one. `line` is what a failed
    call comes to; a FederationError where none has it.
    """
    problem = ""
    for server, ask in asks.items():
        try:
            data = ask(aggregator_pb2.AccountRequest(manifest_digest=digest)).manifest
        except grpc.RpcError as error:
            problem = line(error, server)
            continue
        if hashlib.sha256(data).digest() == digest:
            return Manifest.from_canonical(data)
        problem = f"{server} hands out another manifest than it names"
    raise FederationError(problem)


def unpaid(digest: bytes, heard: Sequence[Heard]) -> bool:
    """Whether a run that its node does not know has to be charged: by anybody's word it may have cost something.

    Not where all who name it have signed that it is over, without this node. A server that follows the protocol says
    what is true of what it opened, and without it nothing was.
    """
    said = [each.runs[digest] for each in heard if digest in each.runs]
    return any(run.rounds or not run.HasField("end") for run in said)
