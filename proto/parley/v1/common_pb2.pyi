from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Refusal(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REFUSAL_UNSPECIFIED: _ClassVar[Refusal]
    REFUSAL_NOT_ADMITTED: _ClassVar[Refusal]
    REFUSAL_NOT_A_MEMBER: _ClassVar[Refusal]
    REFUSAL_MALFORMED: _ClassVar[Refusal]
    REFUSAL_CONTRADICTION: _ClassVar[Refusal]
    REFUSAL_TOO_LATE: _ClassVar[Refusal]
    REFUSAL_TOO_EARLY: _ClassVar[Refusal]
    REFUSAL_BUSY: _ClassVar[Refusal]
    REFUSAL_LOST: _ClassVar[Refusal]
    REFUSAL_POLICY: _ClassVar[Refusal]
    REFUSAL_STATEMENT: _ClassVar[Refusal]
    REFUSAL_CAUGHT: _ClassVar[Refusal]
    REFUSAL_NEWER: _ClassVar[Refusal]
REFUSAL_UNSPECIFIED: Refusal
REFUSAL_NOT_ADMITTED: Refusal
REFUSAL_NOT_A_MEMBER: Refusal
REFUSAL_MALFORMED: Refusal
REFUSAL_CONTRADICTION: Refusal
REFUSAL_TOO_LATE: Refusal
REFUSAL_TOO_EARLY: Refusal
REFUSAL_BUSY: Refusal
REFUSAL_LOST: Refusal
REFUSAL_POLICY: Refusal
REFUSAL_STATEMENT: Refusal
REFUSAL_CAUGHT: Refusal
REFUSAL_NEWER: Refusal

class RefusalDetail(_message.Message):
    __slots__ = ("refusal", "message", "hint")
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    refusal: Refusal
    message: str
    hint: str
    def __init__(self, refusal: _Optional[_Union[Refusal, str]] = ..., message: _Optional[str] = ..., hint: _Optional[str] = ...) -> None: ...

class SignedAdmission(_message.Message):
    __slots__ = ("aggregator", "manifest_digest", "signature", "restored")
    AGGREGATOR_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    aggregator: str
    manifest_digest: bytes
    signature: bytes
    restored: bytes
    def __init__(self, aggregator: _Optional[str] = ..., manifest_digest: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., restored: _Optional[bytes] = ...) -> None: ...

class SignedEnd(_message.Message):
    __slots__ = ("aggregator", "manifest_digest", "openings", "signature", "restored")
    AGGREGATOR_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    OPENINGS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    aggregator: str
    manifest_digest: bytes
    openings: int
    signature: bytes
    restored: bytes
    def __init__(self, aggregator: _Optional[str] = ..., manifest_digest: _Optional[bytes] = ..., openings: _Optional[int] = ..., signature: _Optional[bytes] = ..., restored: _Optional[bytes] = ...) -> None: ...

class SignedWord(_message.Message):
    __slots__ = ("body", "signature")
    BODY_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    body: bytes
    signature: bytes
    def __init__(self, body: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class RoundStatement(_message.Message):
    __slots__ = ("aggregator", "role", "manifest_digest", "round", "query_digest", "contributions", "opening", "epoch", "start", "length", "security", "own", "share_digest", "previous", "life", "audit", "audits_made", "audits_passed", "evidence")
    AGGREGATOR_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    QUERY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CONTRIBUTIONS_FIELD_NUMBER: _ClassVar[int]
    OPENING_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    SECURITY_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    SHARE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    LIFE_FIELD_NUMBER: _ClassVar[int]
    AUDIT_FIELD_NUMBER: _ClassVar[int]
    AUDITS_MADE_FIELD_NUMBER: _ClassVar[int]
    AUDITS_PASSED_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    aggregator: str
    role: int
    manifest_digest: bytes
    round: int
    query_digest: bytes
    contributions: _containers.RepeatedCompositeFieldContainer[StatedContribution]
    opening: bytes
    epoch: bytes
    start: int
    length: int
    security: str
    own: str
    share_digest: bytes
    previous: bytes
    life: bytes
    audit: str
    audits_made: int
    audits_passed: int
    evidence: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, aggregator: _Optional[str] = ..., role: _Optional[int] = ..., manifest_digest: _Optional[bytes] = ..., round: _Optional[int] = ..., query_digest: _Optional[bytes] = ..., contributions: _Optional[_Iterable[_Union[StatedContribution, _Mapping]]] = ..., opening: _Optional[bytes] = ..., epoch: _Optional[bytes] = ..., start: _Optional[int] = ..., length: _Optional[int] = ..., security: _Optional[str] = ..., own: _Optional[str] = ..., share_digest: _Optional[bytes] = ..., previous: _Optional[bytes] = ..., life: _Optional[bytes] = ..., audit: _Optional[str] = ..., audits_made: _Optional[int] = ..., audits_passed: _Optional[int] = ..., evidence: _Optional[_Iterable[bytes]] = ...) -> None: ...

class StatedContribution(_message.Message):
    __slots__ = ("party", "upload_digest")
    PARTY_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_DIGEST_FIELD_NUMBER: _ClassVar[int]
    party: str
    upload_digest: bytes
    def __init__(self, party: _Optional[str] = ..., upload_digest: _Optional[bytes] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("aggregator", "role", "manifest_digest", "round", "query_digest", "upload_digest", "life")
    AGGREGATOR_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    QUERY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_DIGEST_FIELD_NUMBER: _ClassVar[int]
    LIFE_FIELD_NUMBER: _ClassVar[int]
    aggregator: str
    role: int
    manifest_digest: bytes
    round: int
    query_digest: bytes
    upload_digest: bytes
    life: bytes
    def __init__(self, aggregator: _Optional[str] = ..., role: _Optional[int] = ..., manifest_digest: _Optional[bytes] = ..., round: _Optional[int] = ..., query_digest: _Optional[bytes] = ..., upload_digest: _Optional[bytes] = ..., life: _Optional[bytes] = ...) -> None: ...
