"""Evidence that nobody should be convicted by: what an accuser can write, who has an honest server's signature.

Each forgery starts from what a liar has of a batch that it audited. It may say anything, sign with keys of its own, and
mix what it has of several batches; the accused server's signature it has for what that server has signed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from parley.attacks.covert_lies import IDENTITY, SMALL_ORDER, signed, turned
from parley.attacks.covert_server import verified
from parley.mpc.errors import EvidenceError
from parley.mpc.evidence import Evidence, Verdict, judge
from parley.mpc.handover import question
from parley.node.pins import key_of

ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of the group."""
CURVE_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the keys' one."""
HEAD_FIELDS = ("commitment", "witness", "asked")
SEAL_FIELDS = ("accept", "witness", "opening", "nonce")


@dataclass(frozen=True)
class Forged:
    """A file, and how it came about."""

    how: str
    data: bytes


class Impostor:
    """Has a key of its own, and says that it is somebody's."""

    def __init__(self) -> None:
        self._private = ec.generate_private_key(ec.SECP256R1())
        self.key = key_of(self._private.public_key())

    def signed(self, evidence: Evidence) -> Evidence:
        """The same about itself: it is the accused."""
        keys = list(evidence.record.terms.keys)
        keys[evidence.role] = self.key
        made = _with_terms(evidence, keys=(keys[0], keys[1]))
        return replace(made, signature=signed(self._private, made.statement))


def _with_record(evidence: Evidence, **changes: Any) -> Evidence:
    return replace(evidence, record=replace(evidence.record, **changes))


def _with_terms(evidence: Evidence, **changes: Any) -> Evidence:
    return _with_record(evidence, terms=replace(evidence.record.terms, **changes))


def _put(pair: tuple[Any, Any], role: int, value: Any) -> tuple[Any, Any]:
    return (pair[0], value) if role else (value, pair[1])


def _respelled(signature: bytes) -> bytes:
    """Every ECDSA signature is right in two ways."""
    r, s = decode_dss_signature(signature)
    return encode_dss_signature(r, CURVE_ORDER - s)


def bytewise(data: bytes, step: int = 1) -> Iterator[Forged]:
    """One bit of a byte turned over, everywhere; cut off; longer."""
    for place in range(0, len(data), step):
        yield Forged(f"byte {place}", turned(data, place))
    for length in (0, 1, len(data) // 2, len(data) - 1):
        yield Forged(f"cut to {length}", data[:length])
    yield Forged("longer", data + b"\0")
    yield Forged("twice", data + data)


def fieldwise(evidence: Evidence, other: Evidence) -> Iterator[Forged]:
    """Every field changed, or taken from what the same accuser has of another batch or session."""
    record, role = evidence.record, evidence.role
    peer = 1 - role
    for name, changed in _changed(evidence, other):
        yield Forged(name, changed.encoded())
    for number in (0, record.number - 1, record.number + 1, 2**64 - 1):
        yield Forged(f"number {number}", replace(evidence, record=replace(record, number=number % 2**64)).encoded())
    for lanes in (0, 1, record.lanes - 16, record.lanes + 16, 1 << 14, (1 << 14) + 16, 2**32 - 1):
        yield Forged(f"lanes {lanes}", replace(evidence, record=replace(record, lanes=lanes)).encoded())
    for point in (IDENTITY, SMALL_ORDER, bytes(32), b"\xff" * 32):
        yield Forged("point", _with_terms(evidence, points=_put(record.terms.points, role, point)).encoded())
        head = replace(record.heads[peer], asked=point)
        yield Forged("R", replace(evidence, record=replace(record, heads=_put(record.heads, peer, head))).encoded())
    for x in (0, 1, ORDER - 1, ORDER, (int.from_bytes(evidence.x, "little") + ORDER) % 2**256, 2**256 - 1):
        yield Forged(f"x {x:#x}", replace(evidence, x=x.to_bytes(32, "little")).encoded())
    for frames in (0, 1, len(record.tags[0]) - 1):
        cut = (record.tags[0][:frames], record.tags[1][:frames])
        yield Forged(f"{frames} frames", replace(evidence, record=replace(record, tags=cut)).encoded())
    more = (record.tags[0] * 2, record.tags[1] * 2)
    yield Forged("more frames", replace(evidence, record=replace(record, tags=more)).encoded())
    yield Forged("other role", replace(evidence, role=peer).encoded())
    keys = record.terms.keys
    yield Forged("keys exchanged", _with_terms(replace(evidence, role=peer), keys=(keys[1], keys[0])).encoded())
    yield Forged("own key", _with_terms(evidence, keys=_put(keys, peer, keys[role])).encoded())
    # An x of the accuser's choice for a question that it did not ask: reads something else than the opening.
    head = replace(record.heads[peer], asked=question(other.x, record.terms.points[role], True))
    asked = replace(record, heads=_put(record.heads, peer, head))
    yield Forged("another question", replace(evidence, record=asked, x=other.x).encoded())


def _changed(evidence: Evidence, other: Evidence) -> Iterator[tuple[str, Evidence]]:
    record, theirs = evidence.record, other.record
    for role in (0, 1):
        for name in ("heads", "seals", "tags"):
            mixed = _put(getattr(record, name), role, getattr(theirs, name)[role])
            yield f"{name} {role}", _with_record(evidence, **{name: mixed})
        for names, name in [("heads", each) for each in HEAD_FIELDS] + [("seals", each) for each in SEAL_FIELDS]:
            part = replace(getattr(record, names)[role], **{name: getattr(getattr(theirs, names)[role], name)})
            mixed = _put(getattr(record, names), role, part)
            yield f"{names} {role}.{name}", _with_record(evidence, **{names: mixed})
        for name in ("keys", "points"):
            mixed = _put(getattr(record.terms, name), role, getattr(theirs.terms, name)[role][::-1])
            yield f"{name} {role}", _with_terms(evidence, **{name: mixed})
    yield "terms", replace(evidence, record=replace(record, terms=theirs.terms))
    for name in ("context", "session", "tables"):
        yield name, _with_terms(evidence, **{name: turned(getattr(record.terms, name))})
    yield "rate", _with_terms(evidence, audit_rate=record.terms.audit_rate / 2)
    yield "record", replace(evidence, record=theirs)
    yield "signature", replace(evidence, signature=other.signature)
    yield "signature in another spelling", replace(evidence, signature=_respelled(evidence.signature))
    yield "no signature", replace(evidence, signature=b"")
    yield "long signature", replace(evidence, signature=evidence.signature + bytes(255 - len(evidence.signature)))
    yield "opening", replace(evidence, opening=other.opening)
    for name in ("seed", "delta", "salt"):
        changed = replace(evidence.opening, **{name: turned(getattr(evidence.opening, name))})
        yield f"opening.{name}", replace(evidence, opening=changed)
    yield "x", replace(evidence, x=other.x)
    yield "x and opening", replace(evidence, x=other.x, opening=other.opening)


def under_another_key(evidence: Evidence, other: Evidence) -> Iterator[Forged]:
    """As `fieldwise`, signed by somebody who calls itself the accused: at best it convicts itself."""
    impostor = Impostor()
    yield Forged("signed by another key", replace(evidence, signature=impostor.signed(evidence).signature).encoded())
    yield Forged("under another key", impostor.signed(evidence).encoded())
    for name, changed in _changed(evidence, other):
        yield Forged(f"{name}, under another key", impostor.signed(changed).encoded())


def all_of(evidence: Evidence, other: Evidence, step: int = 1) -> Iterator[Forged]:
    yield Forged("as it is", evidence.encoded())
    yield from bytewise(evidence.encoded(), step)
    yield from fieldwise(evidence, other)
    yield from under_another_key(evidence, other)


def anybody(evidence: Evidence) -> Verdict:
    """What anybody's verdict is."""
    return judge(evidence, verified)


def convicting(files: Iterable[Forged], key: bytes) -> tuple[int, list[str]]:
    """How many files, and how those were made by which the holder of that key is found guilty."""
    count, found = 0, []
    for each in files:
        count += 1
        try:
            verdict = anybody(Evidence.decode(each.data))
        except EvidenceError:
            continue
        if verdict.guilty and verdict.key == key:
            found.append(f"{each.how}: {verdict.reason}")
    return count, found
