from parley.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListRunsRequest(_message.Message):
    __slots__ = ("known_digests", "wait_seconds", "revoked_number")
    KNOWN_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    REVOKED_NUMBER_FIELD_NUMBER: _ClassVar[int]
    known_digests: _containers.RepeatedScalarFieldContainer[bytes]
    wait_seconds: float
    revoked_number: int
    def __init__(self, known_digests: _Optional[_Iterable[bytes]] = ..., wait_seconds: _Optional[float] = ..., revoked_number: _Optional[int] = ...) -> None: ...

class ListRunsResponse(_message.Message):
    __slots__ = ("manifests", "revoked")
    MANIFESTS_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    manifests: _containers.RepeatedScalarFieldContainer[bytes]
    revoked: bytes
    def __init__(self, manifests: _Optional[_Iterable[bytes]] = ..., revoked: _Optional[bytes] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("manifest_digest", "accepted", "reason")
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    manifest_digest: bytes
    accepted: bool
    reason: str
    def __init__(self, manifest_digest: _Optional[bytes] = ..., accepted: bool = ..., reason: _Optional[str] = ...) -> None: ...

class JoinResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NextRoundRequest(_message.Message):
    __slots__ = ("manifest_digest", "after_round", "held_points", "wait_seconds")
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    AFTER_ROUND_FIELD_NUMBER: _ClassVar[int]
    HELD_POINTS_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    manifest_digest: bytes
    after_round: int
    held_points: _containers.RepeatedScalarFieldContainer[bytes]
    wait_seconds: float
    def __init__(self, manifest_digest: _Optional[bytes] = ..., after_round: _Optional[int] = ..., held_points: _Optional[_Iterable[bytes]] = ..., wait_seconds: _Optional[float] = ...) -> None: ...

class NextRoundResponse(_message.Message):
    __slots__ = ("state", "round", "ends", "outcome", "admissions", "statements", "evidence")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[NextRoundResponse.State]
        STATE_WAIT: _ClassVar[NextRoundResponse.State]
        STATE_ROUND: _ClassVar[NextRoundResponse.State]
        STATE_ENDED: _ClassVar[NextRoundResponse.State]
    STATE_UNSPECIFIED: NextRoundResponse.State
    STATE_WAIT: NextRoundResponse.State
    STATE_ROUND: NextRoundResponse.State
    STATE_ENDED: NextRoundResponse.State
    STATE_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ADMISSIONS_FIELD_NUMBER: _ClassVar[int]
    STATEMENTS_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    state: NextRoundResponse.State
    round: Round
    ends: _containers.RepeatedCompositeFieldContainer[_common_pb2.SignedEnd]
    outcome: str
    admissions: _containers.RepeatedCompositeFieldContainer[_common_pb2.SignedAdmission]
    statements: _containers.RepeatedCompositeFieldContainer[_common_pb2.SignedWord]
    evidence: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, state: _Optional[_Union[NextRoundResponse.State, str]] = ..., round: _Optional[_Union[Round, _Mapping]] = ..., ends: _Optional[_Iterable[_Union[_common_pb2.SignedEnd, _Mapping]]] = ..., outcome: _Optional[str] = ..., admissions: _Optional[_Iterable[_Union[_common_pb2.SignedAdmission, _Mapping]]] = ..., statements: _Optional[_Iterable[_Union[_common_pb2.SignedWord, _Mapping]]] = ..., evidence: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Round(_message.Message):
    __slots__ = ("index", "kind", "scale", "points", "local", "length", "query_digest")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    QUERY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    index: int
    kind: str
    scale: float
    points: _containers.RepeatedCompositeFieldContainer[Point]
    local: LocalFit
    length: int
    query_digest: bytes
    def __init__(self, index: _Optional[int] = ..., kind: _Optional[str] = ..., scale: _Optional[float] = ..., points: _Optional[_Iterable[_Union[Point, _Mapping]]] = ..., local: _Optional[_Union[LocalFit, _Mapping]] = ..., length: _Optional[int] = ..., query_digest: _Optional[bytes] = ...) -> None: ...

class Point(_message.Message):
    __slots__ = ("digest", "data", "size")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    data: bytes
    size: int
    def __init__(self, digest: _Optional[bytes] = ..., data: _Optional[bytes] = ..., size: _Optional[int] = ...) -> None: ...

class LocalFit(_message.Message):
    __slots__ = ("method", "steps", "step", "strength", "reach")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    STRENGTH_FIELD_NUMBER: _ClassVar[int]
    REACH_FIELD_NUMBER: _ClassVar[int]
    method: str
    steps: int
    step: float
    strength: float
    reach: float
    def __init__(self, method: _Optional[str] = ..., steps: _Optional[int] = ..., step: _Optional[float] = ..., strength: _Optional[float] = ..., reach: _Optional[float] = ...) -> None: ...

class FetchPointRequest(_message.Message):
    __slots__ = ("manifest_digest", "digest", "offset")
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    manifest_digest: bytes
    digest: bytes
    offset: int
    def __init__(self, manifest_digest: _Optional[bytes] = ..., digest: _Optional[bytes] = ..., offset: _Optional[int] = ...) -> None: ...

class FetchPointResponse(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...
