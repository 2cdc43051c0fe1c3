"""Attacks of one aggregation server that lies: on the noise, on who is in a sum, and on what it tells to whom.

`collapse` and `leak`, which no check of messages sees, are in `parley.attacks.noise`: what bounds those is the other
server's own noise.
"""

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from parley.aggregator.opening_store import Opened, OpeningStore
from parley.aggregator.request import Request
from parley.attacks.kinds import Attack, Finding, Guard
from parley.attacks.lying_server import RushingChannel, Sampled, sampled, servers, uploads
from parley.federation.manifest import Manifest
from parley.federation.names import Role
from parley.mpc.errors import MpcError, PeerClosedError, PositionError
from parley.mpc.history import Draft, opening_id
from parley.mpc.kernels import Words
from parley.mpc.ring import Lattice
from parley.mpc.sampler import Sampler
from parley.mpc.sealed_shares import SALT_BYTES, seal
from parley.mpc.steps import Bytes, Steps, pack, unpack
from parley.node.authority import ThrowAwayAuthority
from parley.node.credentials import Identity
from parley.node.statements import mode_of, sign_receipt, sign_statement
from parley.party.errors import RefusedRunError
from parley.party.history import History, beginning
from parley.party.outbox import Answer
from parley.v1 import aggregator_pb2, common_pb2

LANES = 2048
KEPT = 1 / 16
"""Of the lanes: what a squeeze leaves."""
LATTICE = Lattice(1.0, 16)
LIFE = b"one life of both"
MOST_TRIES = 8
ACCEPTANCE = 0.99475

GUARDS: tuple[Guard, ...] = (
    Guard("accepted-counts", "parley.mpc.sampler:check_accepted", lambda tables, lanes, accepted: None),
    Guard("sealed-accept-shares", "parley.mpc.sealed_shares:matches", lambda sealed, opened: True),
    Guard("near-position", "parley.aggregator.pool:NoisePool._require_near", lambda self, epoch, start: None),
    Guard("few-noisings", "parley.aggregator.opening:MOST_NOISINGS", 1 << 30),
    Guard("receipts-bind", "parley.party.history:History._own", lambda self, pair, answered, index: False),
    Guard("statements-agree", "parley.party.history:check_agreement", lambda pair: None),
    Guard("statements-chain", "parley.party.history:check_statement", lambda stated, manifest, previous: None),
    Guard("statements-signed", "parley.node.statements:_verify", lambda pins, server, label, word: None),
)

# ------------------------------------------------------------ the noise


class Squeeze(Sampler):
    """Adds a constant to its share of U - T, so that only small U are accepted: every message is well-formed."""

    def _accept(self, gates: Any, difference: Words) -> Steps[Bytes]:
        shift = int((1 - KEPT) * (1 << self._tables.format.threshold_bits))
        return (yield from super()._accept(gates, difference + np.uint64(shift)))


class Peek(Sampler):
    """Shifts by a half, speaks last, and opens what makes an honest session's accept bits: the true ones stay here."""

    learned: list[tuple[Bytes, Bytes]]

    def _accept(self, gates: Any, difference: Words) -> Steps[Bytes]:
        bits = self._tables.format.threshold_bits
        difference = difference + np.uint64(1 << (bits - 1))
        low = difference & np.uint64((1 << bits) - 1)
        private = low if self._role == 0 else np.uint64((1 << bits) - 1) - low
        carry = yield from gates.less(private, bits)
        mine = pack(carry ^ (difference >> np.uint64(bits) & np.uint64(1)).astype(np.uint8))
        limit = np.uint64(int(ACCEPTANCE * 2.0**32))
        wanted = (self._rng.words(gates.lanes) >> np.uint64(32) < limit).astype(np.uint8)
        salt = self._rng.octets(SALT_BYTES)
        yield [np.frombuffer(seal(self._role, salt, mine), np.uint8)]
        channel = vars(self)["rushing"]
        assert isinstance(channel, RushingChannel)
        channel.late = mine, lambda theirs: pack(wanted) ^ theirs
        _, theirs = yield [salt, mine]
        vars(self).setdefault("learned", []).append((unpack(mine ^ theirs, gates.lanes), wanted))
        return wanted


def squeeze(folder: Path, without: Sequence[Guard]) -> Finding:
    """Either server; what is left of the noise."""
    deviations = [_deviation(sampled({role: Squeeze}, 2, LANES)) for role in (0, 1)]
    return _noise_left(min(deviations))


def peek(folder: Path, without: Sequence[Guard]) -> Finding:
    """What the bit that stayed with the liar tells of each coordinate: the deviation of the noise, given that."""
    found = sampled({1: Peek}, 4, LANES, rushing={1})
    honest = found.errors[0]
    if honest is not None or len(found.shares[0]) < 4:
        return Finding("refused", 1.0, 1.0)
    liar = found.samplers[1]
    assert liar is not None
    bits = np.concatenate([true[wanted.astype(bool)] for true, wanted in vars(liar)["learned"]]).astype(bool)
    return _noise_left(float(found.noise()[bits].std()))


def _deviation(found: Sampled) -> float:
    """Of the noise that the honest server would go on with, or 1 where it has none."""
    return float(found.noise().std()) if found.errors == [None, None] else 1.0


def _noise_left(deviation: float) -> Finding:
    """Against the certified law's one; a thousand samples of that are never below 0.8 (9 deviations)."""
    return Finding("refused" if deviation > 0.8 else "succeeds", 1.0, round(deviation, 3))


# ------------------------------------------------------------ which noise, and how often


def request(index: int = 0, query: bytes = bytes(32), run: str = "attacked") -> Request:
    return Request(
        run=run, round=index, dimension=8, lattice=LATTICE, minimum_parties=2, most_records=10, clip=5.0, query=query
    )


def early_position(folder: Path, without: Sequence[Guard]) -> Finding:
    """B claims to be three batches on: with a word about its lanes it would choose among them."""
    vectors = {"a": np.ones(8), "b": np.ones(8)}
    with servers(folder, {}, LANES) as two:
        liar = two.pools[1]
        position = liar.position
        liar.__dict__["position"] = lambda seconds: (position(seconds)[0], position(seconds)[1] + 3 * LANES)
        liar.__dict__["_require_near"] = lambda epoch, start: None
        opened = two.open(request(), uploads(LATTICE, vectors))
    if isinstance(opened[0], PositionError):
        return Finding("refused", LANES, 0)
    jumped = isinstance(opened[0], Opened) and isinstance(opened[1], Opened)
    return Finding("succeeds" if jumped else "bounded", LANES, 3 * LANES if jumped else 0)


class Forgetful(OpeningStore):
    """Of a server that prepares, looks at what it knows, and says that it has nothing: until it likes what it got."""

    tries = 0

    def prepare(self, asked: Request, opened: Opened, seen: int = 0) -> None:
        self.tries += 1
        if self.tries < MOST_TRIES:
            raise PeerClosedError("this noise is not to its liking")
        super().prepare(asked, opened, seen)

    def wasted(self, run: str, round_index: int) -> int:
        return 0


def renoise(folder: Path, without: Sequence[Guard]) -> Finding:
    """B drops out after it knows which noise it is, again and again: how often A makes its share anew."""
    vectors = {"a": np.ones(8), "b": np.ones(8)}
    with servers(folder, {}, LANES) as two:
        two.stores[1].close()
        liar = two.stores[1] = Forgetful(folder / "1.sqlite")
        two.aggregators[1]._store = liar
        for _ in range(MOST_TRIES):
            opened = two.open(request(), uploads(LATTICE, vectors))
        wasted = two.stores[0].wasted("attacked", 0)
    succeeds = isinstance(opened[0], Opened)
    return Finding("succeeds" if succeeds else "bounded", 3, wasted if succeeds else wasted - 1)


# ------------------------------------------------------------ what is stated


@cache
def manifest() -> Manifest:
    from parley.demo.recipe import STUDY

    return STUDY.replaced(minimum_parties=2).manifest()


class Stated:
    """Two servers' keys, and a party that looks at what they sign. B may sign whatever it likes."""

    def __init__(self) -> None:
        self.manifest, self.mode = manifest(), mode_of(manifest())
        authority = ThrowAwayAuthority(self.manifest.federation)
        self.identities = [authority.issue_as(name) for name in self.manifest.identities(Role.aggregator)]
        self.party, *self.others = self.manifest.parties
        self.words: list[list[bytes]] = [[], []]
        self.history = History(
            self.manifest, self.party, lambda: self.identities[0].pins, self._asked, beginning(self.manifest)
        )
        self.query = _digest("question")

    def draft(self, parties: Sequence[str], previous: bytes | None, **changes: Any) -> Draft:
        length, epoch, start = 8, b"e" * 16, changes.pop("start", 0)
        pairs = tuple((party, _digest(party)) for party in sorted(parties))
        index = changes.pop("round", 0)
        return Draft(
            round=index,
            query=self.query,
            contributions=pairs,
            opening=opening_id(epoch, start, length, pairs),
            epoch=epoch,
            start=start,
            length=length,
            share=_digest(f"share {index}"),
            previous=previous,
        )

    def state(self, role: int, draft: Draft, identity: Identity | None = None) -> None:
        signer = identity or self.identities[role]
        self.words[role].append(sign_statement(signer, self.manifest.digest, role, self.mode, LIFE, draft))

    def answer(self) -> Answer:
        """What the party has sent to round 0, with both servers' receipts."""
        upload = _digest(self.party)
        words = [
            sign_receipt(self.identities[role], self.manifest.digest, role, LIFE, 0, self.query, upload)
            for role in (0, 1)
        ]
        receipts = {role: common_pb2.SignedWord.FromString(word) for role, word in enumerate(words)}
        return Answer(round_index=0, query=self.query, upload=upload, payload_a=b"", payload_b=b"", receipts=receipts)

    def follow(self, index: int, last: Answer | None) -> Finding:
        """Whether the party goes on to that round: then nobody has noticed anything."""
        handed = [common_pb2.SignedWord.FromString(words[index - 1]) for words in self.words]
        try:
            self.history.seen = self.history.follow(index, handed, last)
        except RefusedRunError:
            return Finding("refused", 0, 0)
        return Finding("succeeds", 0, 1)

    def _asked(self, role: int, index: int, most: int) -> aggregator_pb2.StatementsResponse:
        words = [common_pb2.SignedWord.FromString(word) for word in self.words[role][index : index + most]]
        return aggregator_pb2.StatementsResponse(statements=words)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def dropped_party(folder: Path, without: Sequence[Guard]) -> Finding:
    """B leaves a party out whose half it has given a receipt for: a real opening, which both servers state."""
    world = Stated()
    vectors = {party: np.ones(8) for party in world.manifest.parties}
    asked = request(0, world.query, world.manifest.run)
    drafts: list[Draft] = []

    def sign(role: int) -> Any:
        def signed(draft: Draft) -> bytes:
            drafts.append(draft)
            return sign_statement(world.identities[role], world.manifest.digest, role, world.mode, LIFE, draft)

        return signed

    with servers(folder, {}, LANES) as two:
        made = uploads(LATTICE, vectors)
        for contributions in made:
            contributions.shares = {party: (_digest(party), held[1]) for party, held in contributions.shares.items()}
        del made[1].shares[world.party]
        opened = two.open(asked, made, (sign(0), sign(1)))
    for role, each in enumerate(opened):
        if isinstance(each, MpcError):
            raise each
        world.words[role].append(each.statement)
    return world.follow(1, world.answer())


def forked(folder: Path, without: Sequence[Guard]) -> Finding:
    """B states one sum to this party and another one to everybody else, A included."""
    world = Stated()
    world.state(0, world.draft(world.manifest.parties, None))
    world.state(1, world.draft([world.party, world.others[0]], None))
    return world.follow(1, world.answer())


def unchained(folder: Path, without: Sequence[Guard]) -> Finding:
    """B's second statement follows on a first one that this party was not shown."""
    world = Stated()
    for role in (0, 1):
        world.state(role, world.draft(world.manifest.parties, None))
    answer = world.answer()
    first = world.follow(1, answer)
    if first.outcome != "succeeds":
        raise RuntimeError("an honest round was refused")
    hidden = sign_statement(
        world.identities[1], world.manifest.digest, 1, world.mode, LIFE, world.draft(world.others, None)
    )
    for role, previous in ((0, world.words[0][0]), (1, hidden)):
        world.state(role, world.draft(world.others, previous, round=1))
    return world.follow(2, answer)


def forged(folder: Path, without: Sequence[Guard]) -> Finding:
    """The coordinator makes up both servers' statements, signed with keys of its own."""
    world = Stated()
    impostor = ThrowAwayAuthority(world.manifest.federation)
    for role, name in enumerate(world.manifest.identities(Role.aggregator)):
        world.state(role, world.draft(world.manifest.parties, None), impostor.issue_as(name))
    return world.follow(1, world.answer())


ATTACKS: tuple[Attack, ...] = (
    Attack("squeeze", "One server shifts U - T, so that only small noise is accepted.", ("accepted-counts",), squeeze),
    Attack(
        "peek", "One server speaks last, forces the accept bits and keeps the true one of each lane.",
        ("sealed-accept-shares",), peek,
    ),
    Attack(
        "early-position", "One server jumps ahead in the noise, to lanes that it would rather have.",
        ("near-position",), early_position,
    ),
    Attack(
        "renoise", "One server drops out of an opening until the noise is to its liking.", ("few-noisings",), renoise
    ),
    Attack(
        "dropped-party", "One server leaves out a party whose upload it has acknowledged.", ("receipts-bind",),
        dropped_party,
    ),
    Attack("forked", "One server states different sums to different parties.", ("statements-agree",), forked),
    Attack("unchained", "One server's statement follows on another history than the one shown.",
           ("statements-chain",), unchained),
    Attack("forged-statements", "The coordinator makes up what the servers state.", ("statements-signed",), forged),
)  # fmt: skip
