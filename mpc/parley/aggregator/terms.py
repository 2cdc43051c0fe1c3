"""What this folder is handed from outside: the terms of a run, who calls, and how a call is refused."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from parley.aggregator.request import Request
from parley.mpc.errors import MpcError
from parley.mpc.history import Draft
from parley.v1 import common_pb2

PIECE_BYTES = 1 << 20
"""Of a payload or a share, in one message."""
MOST_WAIT_SECONDS = 30.0
"""Of a long poll."""
BLIND_BYTES = 32
DIGEST_BYTES = 32


class CallRefusedError(MpcError):
    """A call that is answered with a typed refusal."""

    def __init__(self, refusal: "common_pb2.Refusal", message: str, hint: str) -> None:
        super().__init__(f"{message}: {hint}")
        self.refusal, self.message, self.hint = refusal, message, hint


class CallWaitsError(CallRefusedError):
    """Not now; the same call may succeed later."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(common_pb2.REFUSAL_BUSY, message, hint)


def malformed(message: str, hint: str) -> CallRefusedError:
    """A field that is not as the run fixes it."""
    return CallRefusedError(common_pb2.REFUSAL_MALFORMED, message, hint)


def bounded_wait(asked_seconds: float) -> float:
    """Of a long poll, whatever was asked: nan, which compares false, would spoil the order of the loop's timers."""
    return min(asked_seconds, MOST_WAIT_SECONDS) if asked_seconds > 0 else 0.0


@dataclass(frozen=True)
class RunTerms:
    """What an admitted manifest says of a run, as far as an aggregation server has to know it."""

    digest: bytes
    """SHA-256 of the manifest."""
    name: str
    """Of the run; the key of its openings."""
    role: int
    """Of this server: 0 is A, 1 is B."""
    parties: Mapping[str, str]
    """URI in the certificate -> name."""
    coordinator: str
    """URI."""
    dimension: int
    releases: int
    minimum_parties: int
    deadline_seconds: float
    request: Callable[[int, int, bytes], Request]
    """Of a round, the length of its answer and its question's digest."""
    upload_digest: Callable[[int, str, bytes, bytes, bytes], bytes]
    """Of a round, a party, the question, and the commitments to A's half and to B's."""
    commitment: Callable[[bytes | bytearray], bytes]
    """To this server's half of an upload."""
    mode: tuple[str, str] = ("semi-honest", "0")
    """How the noise is made, for statements: security, and each server's own part."""

    def payload_bytes(self, length: int) -> int:
        """Of this server's half when `length` integers answer."""
        return BLIND_BYTES + 8 * length if self.role == 0 else DIGEST_BYTES

    def length_of(self, payload_bytes: int) -> int | None:
        """The inverse, on server A; B's halves have one size. A size that no answer has is refused."""
        if self.role == 1:
            if payload_bytes == DIGEST_BYTES:
                return None
            raise malformed(f"a payload of {payload_bytes} bytes", f"send server B {DIGEST_BYTES} bytes, the seed")
        length, rest = divmod(payload_bytes - BLIND_BYTES, 8)
        if rest or not 1 <= length <= self.dimension:
            raise malformed(
                f"a payload of {payload_bytes} bytes",
                f"send server A {BLIND_BYTES} random bytes and 1 to {self.dimension} words of 8 bytes",
            )
        return length


@dataclass(frozen=True)
class Proposal:
    """What became of a manifest."""

    admitted: bool
    reasons: tuple[str, ...] = ()
    pending: bool = False


class Words(Protocol):
    """What this server signs, each a serialized SignedWord."""

    def statement(self, terms: RunTerms, draft: Draft) -> bytes:
        """Of a round, before its share may leave; an MpcError if there is none to be had. Asked by workers."""
        ...

    def receipt(self, terms: RunTerms, index: int, query: bytes, upload: bytes) -> bytes:
        """For a whole half of an upload that is in time for the round's sum."""
        ...


class Surroundings(Protocol):
    """The process around the state machine."""

    def caller(self, context: Any) -> str:
        """The URI of who is calling, from its certificate."""
        ...

    def heard(self, caller: str, context: Any) -> str | None:
        """The event of its own trail that the caller mentions."""
        ...

    def mention(self, context: Any, event: str) -> None:
        """Let the answer mention an event of this server's trail."""
        ...

    async def abort(self, context: Any, error: CallRefusedError) -> None:
        """End a call with its refusal; does not return."""
        ...

    def terms(self, manifest_digest: bytes, ending: bool = False) -> RunTerms | None:
        """Of an admitted run; asked at every call, for it may be withdrawn meanwhile. One that was withdrawn can still
        be brought to its end: `ending`.
        """
        ...

    def sign_end(self, manifest_digest: bytes, openings: int) -> "common_pb2.SignedEnd":
        """This server's word that a run is over."""
        ...

    def sign_admission(self, manifest_digest: bytes) -> "common_pb2.SignedAdmission":
        """This server's word that it takes part in a run."""
        ...

    def never_admit(self, manifest: bytes, manifest_digest: bytes, caller: str) -> Awaitable[None]:
        """See to it, durably, that a manifest that was not admitted never is; a refusal where that cannot be said."""
        ...

    def taking_part(self, caller: str) -> "list[RunTerms]":
        """Of all admitted runs, withdrawn ones too, that have the caller as a party."""
        ...

    def propose(self, manifest: bytes, caller: str) -> Awaitable[Proposal]:
        """Admit a manifest, or say why not."""
        ...
