"""One batch once more: a server's messages from its opening, frame by frame.

Protocols are generators and all their randomness of a batch is one tape, so a replay runs the very code of the batch.
It costs what the batch has cost, for each server that is replayed.
"""

from dataclasses import dataclass

import numpy as np

from parley.mpc.base_ot import BaseTransfers
from parley.mpc.batch_record import FrameTags, Record
from parley.mpc.handover import Opening, digest
from parley.mpc.kernels import Kernels
from parley.mpc.ot_extension import ObliviousTransfers
from parley.mpc.sampler import Sampler
from parley.mpc.steps import Bytes, Message, Steps, pack
from parley.mpc.tables import Tables
from parley.mpc.transfers import Room

ACCEPT_SALT_BYTES = 32
TREE_BITS = 4
"""k of the extension: covert sessions know one value only."""


class SealedSampler(Sampler):
    """As far as the shares of the accept bits, which stay here."""

    def _opened(self, share: Bytes) -> Steps[Bytes]:
        yield from ()
        return share


def pad_key(batch: bytes) -> Bytes:
    return np.frombuffer(digest("pads", batch)[:16], np.uint8)


def accept_seal(batch: bytes, role: int, salt: bytes, share: bytes) -> bytes:
    return digest("accept bits", batch, bytes([role]), salt, share)


class Server:
    """A server in one batch as its opening makes it."""

    def __init__(
        self, native: Kernels, tables: Tables, role: int, batch: bytes, opening: Opening, room: Room | None = None
    ) -> None:
        self._role, self._batch, self._opening = role, batch, opening
        self._tape = opening.tape(batch, role)
        nothing = BaseTransfers(*(np.empty(0, np.uint8),) * 3)
        self._source = ObliviousTransfers(native, role, batch, pad_key(batch), nothing, self._tape, TREE_BITS, room)
        self._source.grow_again()
        self._sampler = SealedSampler(native, role, tables, self._source, self._tape)

    @property
    def leaves(self) -> Bytes:
        """Of its own trees."""
        return self._source.owned

    def messages(self, lanes: int, their_leaves: Bytes) -> Steps[bytes]:
        """All its frames against a server with those leaves; at the end, the seal of its accept bits."""
        self._source.learn(self._opening.delta_bits, their_leaves)
        view = yield from self._sampler.view(lanes)
        salt = self._tape.bytes(ACCEPT_SALT_BYTES)
        return accept_seal(self._batch, self._role, salt, pack(view.accepted).tobytes())


@dataclass(frozen=True)
class Kept:
    """What an auditor keeps of a batch until its verdict."""

    leaves: Bytes
    """Of its own trees."""
    sent: list[Message]


def departure(
    native: Kernels, tables: Tables, record: Record, role: int, opening: Opening, kept: Kept, room: Room | None = None
) -> str | None:
    """Where server `role` was not what its opening makes of it, by the record and what the other one has kept; None if
    it was. Its frames are compared by their tags, as a judge does.

    Its trees need no look: the extension's check, which the auditor made in the batch, ties what they gave to the first
    three frames, and these are compared.
    """
    if opening.commitment(record.batch, role) != record.heads[role].commitment:
        return "the seed that it handed over is not the one that it had committed to"
    messages = Server(native, tables, role, record.batch, opening, room).messages(record.lanes, kept.leaves)
    tags = FrameTags(record.batch, record.seals)
    frame = next(messages)
    for index, (mine, tag) in enumerate(zip(kept.sent, record.tags[role], strict=True)):
        if tags.of(role, index, frame) != tag:
            return f"frame {index} is not the one of its seed"
        try:
            frame = messages.send(mine)
        except StopIteration as stop:
            return None if stop.value == record.seals[role].accept else "its sealed accept bits are not its seed's"
    raise AssertionError("a replay has as many frames as the batch")


@dataclass(frozen=True)
class Finding:
    """The first departure of either server from what both openings make of a batch, frame by frame."""

    role: int
    frame: int | None
    """None: the seal of the accept bits."""


def first_departure(native: Kernels, tables: Tables, record: Record, openings: tuple[Opening, Opening],
                    accused: int) -> Finding | None:  # fmt: skip
    """Of the accused or of the other, whichever came first; of two in one exchange, which crossed, the other's.

    An accuser that follows the protocol is right up to and with the exchange in which the accused departs. So where
    both are wrong at once it is this replay that is in doubt: a release that computes a batch in another way would find
    every honest server guilty.
    """
    servers = [Server(native, tables, role, record.batch, openings[role]) for role in (0, 1)]
    ends = [servers[role].messages(record.lanes, servers[1 - role].leaves) for role in (0, 1)]
    tags = FrameTags(record.batch, record.seals)
    frames = [next(end) for end in ends]
    seals: list[bytes] = []
    order, index = (1 - accused, accused), 0
    while not seals:
        for role in order:
            if index >= len(record.tags[role]) or tags.of(role, index, frames[role]) != record.tags[role][index]:
                return Finding(role, index)
        following = []
        for role in (0, 1):
            try:
                following.append(ends[role].send(frames[1 - role]))
            except StopIteration as stop:
                seals.append(stop.value)
        frames, index = following, index + 1
    wrong = [role for role in order if seals[role] != record.seals[role].accept]
    return Finding(wrong[0], None) if wrong else None
