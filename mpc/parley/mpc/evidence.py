"""Proof that a server departed from the noise protocol in one batch: a file of less than two kilobytes, which anybody
can check who has these tables and a way to verify signatures.

It holds the statement that the accused signed of that batch, the accuser's own opening, and the scalar by which the
accused's opening can be read. From both openings a judge makes both servers' messages again and looks for the first
that is not what the statement says: if the accused sent it, it is guilty; if it came to the accused, the accuser
departed first and there is no verdict; nor where both did at once, for then this judge may be of a release that makes
batches in another way. Nothing that a file holds can make an honest server guilty: its own signature
says what it sent and what it received, and what it sent follows from its seed and from what it received.

A verdict names a key. Whose key it is, is for whoever has pinned it to say.
"""

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from parley.errors import ParleyError
from parley.mpc import group
from parley.mpc.batch_record import Record
from parley.mpc.errors import EvidenceError, InvalidPointError
from parley.mpc.handover import OPENING_BYTES, Masks, Opening, question
from parley.mpc.kernels import Kernels, kernels
from parley.mpc.replay import first_departure
from parley.mpc.sampler import LANE_STEP
from parley.mpc.tables import Tables, by_digest

MAGIC = b"parley evidence1"
START = struct.Struct("<16sHB")
"""Magic, bytes of the statement, bytes of the signature."""
MOST_BYTES = 1 << 16
MOST_LANES = 1 << 14
Verify = Callable[[bytes, bytes, bytes], bool]
"""Key, statement, signature."""


@dataclass(frozen=True)
class Evidence:
    """What an auditor hands to everybody. The accused is whoever signed the statement."""

    record: Record
    role: int
    """Of the accused."""
    signature: bytes
    opening: Opening
    """The accuser's."""
    x: bytes
    """Of the accuser's R = xG + S."""

    @property
    def accused_key(self) -> bytes:
        return self.record.terms.keys[self.role]

    @property
    def accuser_key(self) -> bytes:
        return self.record.terms.keys[1 - self.role]

    @property
    def context(self) -> bytes:
        return self.record.terms.context

    @property
    def session(self) -> bytes:
        return self.record.terms.session

    @property
    def lanes(self) -> int:
        return self.record.lanes

    @property
    def tables(self) -> bytes:
        """Digest of the tables."""
        return self.record.terms.tables

    @property
    def statement(self) -> bytes:
        return self.record.statement(self.role)

    @property
    def digest(self) -> bytes:
        """Names this evidence."""
        return hashlib.sha256(self.encoded()).digest()

    def encoded(self) -> bytes:
        statement = self.statement
        start = START.pack(MAGIC, len(statement), len(self.signature))
        return start + statement + self.signature + self.opening.encoded() + self.x

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """What `encoded` made, and nothing else; an EvidenceError otherwise."""
        if not START.size <= len(data) <= MOST_BYTES:
            raise EvidenceError(f"{len(data):,} bytes are no evidence: files of it have less than two kilobytes")
        magic, statement, signature = START.unpack_from(data)
        if magic != MAGIC:
            raise EvidenceError("this file is no evidence of a batch of noise, or of another release's")
        if len(data) != START.size + statement + signature + OPENING_BYTES + group.SCALAR_BYTES:
            raise EvidenceError("this evidence was cut off, or something was put behind it")
        rest = memoryview(data)[START.size :]
        try:
            record, role = Record.decoded(bytes(rest[:statement]))
        except ValueError as error:
            raise EvidenceError(f"the statement in this evidence is none: {error}") from None
        end = statement + signature
        opening, x = Opening.decoded(bytes(rest[end : end + OPENING_BYTES])), bytes(rest[end + OPENING_BYTES :])
        if not group.is_scalar(x):
            raise EvidenceError("the scalar in this evidence is none")
        return cls(record, role, bytes(rest[statement:end]), opening, x)


@dataclass(frozen=True)
class Verdict:
    """Whether the evidence shows that the holder of a key departed from the protocol."""

    guilty: bool
    key: bytes
    """33 bytes: of whom it is about, the accused."""
    reason: str
    frame: int | None = None
    """The first wrong message of the batch, counted from 0, where it is one."""


def judge(evidence: Evidence, verify: Verify, tables: Tables | None = None, native: Kernels | None = None) -> Verdict:
    """Anybody's verdict. Whatever the accuser did wrong comes first: then there is none."""

    def none(why: str) -> Verdict:
        return Verdict(False, evidence.accused_key, f"no verdict: {why}")

    def guilty(why: str, frame: int | None = None) -> Verdict:
        return Verdict(True, evidence.accused_key, why, frame)

    record, accused, accuser = evidence.record, evidence.role, 1 - evidence.role
    tables = tables or by_digest().get(evidence.tables)
    if tables is None or tables.digest != evidence.tables:
        return none("it is about tables that this release does not have; verify it with the release that wrote it")
    if not 0 < record.lanes <= MOST_LANES or record.lanes % LANE_STEP:
        return none("no batch is like that")
    try:
        signed = verify(evidence.accused_key, evidence.statement, evidence.signature)
    except (ParleyError, ValueError):
        signed = False
    if not signed:
        return none("the statement is not signed by the key that it accuses")
    head, batch, point = record.heads[accuser], record.batch, record.terms.points[accused]
    if evidence.opening.commitment(batch, accuser) != head.commitment:
        return none("the accuser's seed is not the one that it had committed to")
    masks = Masks(batch, accused, point, head.asked)
    try:
        if question(evidence.x, point, audit=True) != head.asked:
            return none("the accuser did not ask for the seed")
        opening = Opening.decoded(masks.read(evidence.x, True, record.seals[accused].opening))
    except InvalidPointError:
        return none("the accuser let something pass as a point that is none")
    if opening.commitment(batch, accused) != record.heads[accused].commitment:
        return guilty("it handed over another seed than the one that it had committed to")
    openings = (opening, evidence.opening) if accused == 0 else (evidence.opening, opening)
    found = first_departure(native or kernels(), tables, record, openings, accused)
    if found is None:
        return none("the accused did all that its seed says")
    if found.role != accused:
        what = "the seal" if found.frame is None else f"message {found.frame}"
        return none(f"{what} of the accuser is the first that is not what its seed says")
    if found.frame is None:
        return guilty("the accept bits that it sealed are not those that its seed gives")
    return guilty(f"its message {found.frame} is not the one that its seed gives", found.frame)
