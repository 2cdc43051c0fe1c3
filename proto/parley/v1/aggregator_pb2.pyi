from parley.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class UploadRequest(_message.Message):
    __slots__ = ("manifest_digest", "round", "query_digest", "commitment_a", "commitment_b", "size", "offset", "data", "relay_key", "relayed", "restored")
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    QUERY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    COMMITMENT_A_FIELD_NUMBER: _ClassVar[int]
    COMMITMENT_B_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    RELAY_KEY_FIELD_NUMBER: _ClassVar[int]
    RELAYED_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    manifest_digest: bytes
    round: int
    query_digest: bytes
    commitment_a: bytes
    commitment_b: bytes
    size: int
    offset: int
    data: bytes
    relay_key: bytes
    relayed: bytes
    restored: bytes
    def __init__(self, manifest_digest: _Optional[bytes] = ..., round: _Optional[int] = ..., query_digest: _Optional[bytes] = ..., commitment_a: _Optional[bytes] = ..., commitment_b: _Optional[bytes] = ..., size: _Optional[int] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., relay_key: _Optional[bytes] = ..., relayed: _Optional[bytes] = ..., restored: _Optional[bytes] = ...) -> None: ...

class UploadResponse(_message.Message):
    __slots__ = ("received", "complete", "rejection", "receipt")
    class Rejection(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REJECTION_UNSPECIFIED: _ClassVar[UploadResponse.Rejection]
        REJECTION_TOO_LATE: _ClassVar[UploadResponse.Rejection]
        REJECTION_OTHER_QUERY: _ClassVar[UploadResponse.Rejection]
        REJECTION_CONTRADICTION: _ClassVar[UploadResponse.Rejection]
        REJECTION_DIGEST: _ClassVar[UploadResponse.Rejection]
        REJECTION_TOO_EARLY: _ClassVar[UploadResponse.Rejection]
    REJECTION_UNSPECIFIED: UploadResponse.Rejection
    REJECTION_TOO_LATE: UploadResponse.Rejection
    REJECTION_OTHER_QUERY: UploadResponse.Rejection
    REJECTION_CONTRADICTION: UploadResponse.Rejection
    REJECTION_DIGEST: UploadResponse.Rejection
    REJECTION_TOO_EARLY: UploadResponse.Rejection
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    REJECTION_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    received: int
    complete: bool
    rejection: UploadResponse.Rejection
    receipt: _common_pb2.SignedWord
    def __init__(self, received: _Optional[int] = ..., complete: bool = ..., rejection: _Optional[_Union[UploadResponse.Rejection, str]] = ..., receipt: _Optional[_Union[_common_pb2.SignedWord, _Mapping]] = ...) -> None: ...

class EvidenceRequest(_message.Message):
    __slots__ = ("known",)
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    known: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, known: _Optional[_Iterable[bytes]] = ...) -> None: ...

class EvidenceResponse(_message.Message):
    __slots__ = ("evidence",)
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    evidence: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, evidence: _Optional[_Iterable[bytes]] = ...) -> None: ...

class StatementsRequest(_message.Message):
    __slots__ = ("manifest_digest", "round", "most")
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    manifest_digest: bytes
    round: int
    most: int
    def __init__(self, manifest_digest: _Optional[bytes] = ..., round: _Optional[int] = ..., most: _Optional[int] = ...) -> None: ...

class StatementsResponse(_message.Message):
    __slots__ = ("statements", "receipt")
    STATEMENTS_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    statements: _containers.RepeatedCompositeFieldContainer[_common_pb2.SignedWord]
    receipt: _common_pb2.SignedWord
    def __init__(self, statements: _Optional[_Iterable[_Union[_common_pb2.SignedWord, _Mapping]]] = ..., receipt: _Optional[_Union[_common_pb2.SignedWord, _Mapping]] = ...) -> None: ...

class AccountRequest(_message.Message):
    __slots__ = ("nonce", "offset", "manifest_digest")
    NONCE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    nonce: bytes
    offset: int
    manifest_digest: bytes
    def __init__(self, nonce: _Optional[bytes] = ..., offset: _Optional[int] = ..., manifest_digest: _Optional[bytes] = ...) -> None: ...

class AccountResponse(_message.Message):
    __slots__ = ("account", "manifest")
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    account: _common_pb2.SignedWord
    manifest: bytes
    def __init__(self, account: _Optional[_Union[_common_pb2.SignedWord, _Mapping]] = ..., manifest: _Optional[bytes] = ...) -> None: ...

class Account(_message.Message):
    __slots__ = ("aggregator", "caller", "nonce", "offset", "total", "runs", "restored")
    AGGREGATOR_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    aggregator: str
    caller: str
    nonce: bytes
    offset: int
    total: int
    runs: _containers.RepeatedCompositeFieldContainer[AccountedRun]
    restored: _containers.RepeatedCompositeFieldContainer[Restoration]
    def __init__(self, aggregator: _Optional[str] = ..., caller: _Optional[str] = ..., nonce: _Optional[bytes] = ..., offset: _Optional[int] = ..., total: _Optional[int] = ..., runs: _Optional[_Iterable[_Union[AccountedRun, _Mapping]]] = ..., restored: _Optional[_Iterable[_Union[Restoration, _Mapping]]] = ...) -> None: ...

class AccountedRun(_message.Message):
    __slots__ = ("manifest_digest", "run", "openings", "rounds", "end")
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    OPENINGS_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    manifest_digest: bytes
    run: str
    openings: int
    rounds: int
    end: _common_pb2.SignedEnd
    def __init__(self, manifest_digest: _Optional[bytes] = ..., run: _Optional[str] = ..., openings: _Optional[int] = ..., rounds: _Optional[int] = ..., end: _Optional[_Union[_common_pb2.SignedEnd, _Mapping]] = ...) -> None: ...

class Restoration(_message.Message):
    __slots__ = ("restored", "made", "at")
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    MADE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    restored: bytes
    made: int
    at: int
    def __init__(self, restored: _Optional[bytes] = ..., made: _Optional[int] = ..., at: _Optional[int] = ...) -> None: ...

class RecallRequest(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class RecallResponse(_message.Message):
    __slots__ = ("runs", "next")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[RecalledRun]
    next: int
    def __init__(self, runs: _Optional[_Iterable[_Union[RecalledRun, _Mapping]]] = ..., next: _Optional[int] = ...) -> None: ...

class RecalledRun(_message.Message):
    __slots__ = ("manifest_digest", "run", "last_round")
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    LAST_ROUND_FIELD_NUMBER: _ClassVar[int]
    manifest_digest: bytes
    run: str
    last_round: int
    def __init__(self, manifest_digest: _Optional[bytes] = ..., run: _Optional[str] = ..., last_round: _Optional[int] = ...) -> None: ...

class ProposeRequest(_message.Message):
    __slots__ = ("manifest", "revoked")
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    manifest: bytes
    revoked: bytes
    def __init__(self, manifest: _Optional[bytes] = ..., revoked: _Optional[bytes] = ...) -> None: ...

class ProposeResponse(_message.Message):
    __slots__ = ("admitted", "reasons", "pending", "admission")
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    ADMISSION_FIELD_NUMBER: _ClassVar[int]
    admitted: bool
    reasons: _containers.RepeatedScalarFieldContainer[str]
    pending: bool
    admission: _common_pb2.SignedAdmission
    def __init__(self, admitted: bool = ..., reasons: _Optional[_Iterable[str]] = ..., pending: bool = ..., admission: _Optional[_Union[_common_pb2.SignedAdmission, _Mapping]] = ...) -> None: ...

class OpenRequest(_message.Message):
    __slots__ = ("manifest_digest", "round", "query_digest", "length", "expected", "wait_seconds", "revoked")
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    QUERY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    manifest_digest: bytes
    round: int
    query_digest: bytes
    length: int
    expected: _containers.RepeatedScalarFieldContainer[str]
    wait_seconds: float
    revoked: bytes
    def __init__(self, manifest_digest: _Optional[bytes] = ..., round: _Optional[int] = ..., query_digest: _Optional[bytes] = ..., length: _Optional[int] = ..., expected: _Optional[_Iterable[str]] = ..., wait_seconds: _Optional[float] = ..., revoked: _Optional[bytes] = ...) -> None: ...

class OpenResponse(_message.Message):
    __slots__ = ("state", "contributors", "missing", "share", "size", "opening", "waited_seconds", "agreed_seconds", "noised_seconds", "statement")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[OpenResponse.State]
        STATE_WAITING: _ClassVar[OpenResponse.State]
        STATE_OPENED: _ClassVar[OpenResponse.State]
        STATE_SHORT: _ClassVar[OpenResponse.State]
    STATE_UNSPECIFIED: OpenResponse.State
    STATE_WAITING: OpenResponse.State
    STATE_OPENED: OpenResponse.State
    STATE_SHORT: OpenResponse.State
    STATE_FIELD_NUMBER: _ClassVar[int]
    CONTRIBUTORS_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    OPENING_FIELD_NUMBER: _ClassVar[int]
    WAITED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    AGREED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    NOISED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STATEMENT_FIELD_NUMBER: _ClassVar[int]
    state: OpenResponse.State
    contributors: _containers.RepeatedScalarFieldContainer[str]
    missing: _containers.RepeatedScalarFieldContainer[str]
    share: bytes
    size: int
    opening: bytes
    waited_seconds: float
    agreed_seconds: float
    noised_seconds: float
    statement: _common_pb2.SignedWord
    def __init__(self, state: _Optional[_Union[OpenResponse.State, str]] = ..., contributors: _Optional[_Iterable[str]] = ..., missing: _Optional[_Iterable[str]] = ..., share: _Optional[bytes] = ..., size: _Optional[int] = ..., opening: _Optional[bytes] = ..., waited_seconds: _Optional[float] = ..., agreed_seconds: _Optional[float] = ..., noised_seconds: _Optional[float] = ..., statement: _Optional[_Union[_common_pb2.SignedWord, _Mapping]] = ...) -> None: ...

class FetchShareRequest(_message.Message):
    __slots__ = ("manifest_digest", "round", "offset")
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    manifest_digest: bytes
    round: int
    offset: int
    def __init__(self, manifest_digest: _Optional[bytes] = ..., round: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class FetchShareResponse(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class EndRequest(_message.Message):
    __slots__ = ("manifest_digest", "manifest")
    MANIFEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    manifest_digest: bytes
    manifest: bytes
    def __init__(self, manifest_digest: _Optional[bytes] = ..., manifest: _Optional[bytes] = ...) -> None: ...

class EndResponse(_message.Message):
    __slots__ = ("end",)
    END_FIELD_NUMBER: _ClassVar[int]
    end: _common_pb2.SignedEnd
    def __init__(self, end: _Optional[_Union[_common_pb2.SignedEnd, _Mapping]] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("pool_available", "pool_capacity", "pool_produced", "pool_used", "pool_lost", "pool_error", "version", "share_bytes", "covert", "evidence")
    POOL_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    POOL_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    POOL_PRODUCED_FIELD_NUMBER: _ClassVar[int]
    POOL_USED_FIELD_NUMBER: _ClassVar[int]
    POOL_LOST_FIELD_NUMBER: _ClassVar[int]
    POOL_ERROR_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SHARE_BYTES_FIELD_NUMBER: _ClassVar[int]
    COVERT_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    pool_available: int
    pool_capacity: int
    pool_produced: int
    pool_used: int
    pool_lost: int
    pool_error: str
    version: str
    share_bytes: int
    covert: CovertPool
    evidence: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, pool_available: _Optional[int] = ..., pool_capacity: _Optional[int] = ..., pool_produced: _Optional[int] = ..., pool_used: _Optional[int] = ..., pool_lost: _Optional[int] = ..., pool_error: _Optional[str] = ..., version: _Optional[str] = ..., share_bytes: _Optional[int] = ..., covert: _Optional[_Union[CovertPool, _Mapping]] = ..., evidence: _Optional[_Iterable[bytes]] = ...) -> None: ...

class CovertPool(_message.Message):
    __slots__ = ("available", "capacity", "produced", "used", "lost", "error", "resting", "lanes", "audits_made", "audits_passed")
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    PRODUCED_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RESTING_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    AUDITS_MADE_FIELD_NUMBER: _ClassVar[int]
    AUDITS_PASSED_FIELD_NUMBER: _ClassVar[int]
    available: int
    capacity: int
    produced: int
    used: int
    lost: int
    error: str
    resting: str
    lanes: int
    audits_made: int
    audits_passed: int
    def __init__(self, available: _Optional[int] = ..., capacity: _Optional[int] = ..., produced: _Optional[int] = ..., used: _Optional[int] = ..., lost: _Optional[int] = ..., error: _Optional[str] = ..., resting: _Optional[str] = ..., lanes: _Optional[int] = ..., audits_made: _Optional[int] = ..., audits_passed: _Optional[int] = ...) -> None: ...

class RelayedHalves(_message.Message):
    __slots__ = ("halves",)
    HALVES_FIELD_NUMBER: _ClassVar[int]
    halves: _containers.RepeatedCompositeFieldContainer[RelayedHalf]
    def __init__(self, halves: _Optional[_Iterable[_Union[RelayedHalf, _Mapping]]] = ...) -> None: ...

class RelayedHalf(_message.Message):
    __slots__ = ("party", "query_digest", "commitment_a", "commitment_b", "sealed")
    PARTY_FIELD_NUMBER: _ClassVar[int]
    QUERY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    COMMITMENT_A_FIELD_NUMBER: _ClassVar[int]
    COMMITMENT_B_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    party: str
    query_digest: bytes
    commitment_a: bytes
    commitment_b: bytes
    sealed: bytes
    def __init__(self, party: _Optional[str] = ..., query_digest: _Optional[bytes] = ..., commitment_a: _Optional[bytes] = ..., commitment_b: _Optional[bytes] = ..., sealed: _Optional[bytes] = ...) -> None: ...

class OpeningServiceConverseRequest(_message.Message):
    __slots__ = ("data", "last")
    DATA_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    last: bool
    def __init__(self, data: _Optional[bytes] = ..., last: bool = ...) -> None: ...

class OpeningServiceConverseResponse(_message.Message):
    __slots__ = ("data", "last")
    DATA_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    last: bool
    def __init__(self, data: _Optional[bytes] = ..., last: bool = ...) -> None: ...
