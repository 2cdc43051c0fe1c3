from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
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
    __slots__ = ("aggregator", "manifest_digest", "signature")
    AGGREGATOR_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    aggregator: str
    manifest_digest: bytes
    signature: bytes
    def __init__(self, aggregator: _Optional[str] = ..., manifest_digest: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class SignedEnd(_message.Message):
    __slots__ = ("aggregator", "manifest_digest", "openings", "signature")
    AGGREGATOR_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    OPENINGS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    aggregator: str
    manifest_digest: bytes
    openings: int
    signature: bytes
    def __init__(self, aggregator: _Optional[str] = ..., manifest_digest: _Optional[bytes] = ..., openings: _Optional[int] = ..., signature: _Optional[bytes] = ...) -> None: ...
