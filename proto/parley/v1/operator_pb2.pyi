from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SubmitRequest(_message.Message):
    __slots__ = ("manifest",)
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    manifest: bytes
    def __init__(self, manifest: _Optional[bytes] = ...) -> None: ...

class SubmitResponse(_message.Message):
    __slots__ = ("digest",)
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    def __init__(self, digest: _Optional[bytes] = ...) -> None: ...

class StopRequest(_message.Message):
    __slots__ = ("run", "final")
    RUN_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    run: str
    final: bool
    def __init__(self, run: _Optional[str] = ..., final: bool = ...) -> None: ...

class StopResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: str
    def __init__(self, state: _Optional[str] = ...) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: str
    def __init__(self, run: _Optional[str] = ...) -> None: ...

class ResumeResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: str
    def __init__(self, state: _Optional[str] = ...) -> None: ...

class PresenceRequest(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: str
    def __init__(self, run: _Optional[str] = ...) -> None: ...

class PresenceResponse(_message.Message):
    __slots__ = ("round", "uploaded", "absent", "open_seconds", "troubles", "gathering_until")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    UPLOADED_FIELD_NUMBER: _ClassVar[int]
    ABSENT_FIELD_NUMBER: _ClassVar[int]
    OPEN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TROUBLES_FIELD_NUMBER: _ClassVar[int]
    GATHERING_UNTIL_FIELD_NUMBER: _ClassVar[int]
    round: int
    uploaded: _containers.RepeatedScalarFieldContainer[str]
    absent: _containers.RepeatedScalarFieldContainer[str]
    open_seconds: float
    troubles: _containers.RepeatedCompositeFieldContainer[NodeTrouble]
    gathering_until: float
    def __init__(self, round: _Optional[int] = ..., uploaded: _Optional[_Iterable[str]] = ..., absent: _Optional[_Iterable[str]] = ..., open_seconds: _Optional[float] = ..., troubles: _Optional[_Iterable[_Union[NodeTrouble, _Mapping]]] = ..., gathering_until: _Optional[float] = ...) -> None: ...

class NodeTrouble(_message.Message):
    __slots__ = ("node", "kind", "seconds")
    NODE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    node: str
    kind: str
    seconds: float
    def __init__(self, node: _Optional[str] = ..., kind: _Optional[str] = ..., seconds: _Optional[float] = ...) -> None: ...
