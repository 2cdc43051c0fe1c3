"""One round on one server before it is opened: what it asks, who has contributed, and until when it waits."""

import time
from collections.abc import Sequence

from parley.aggregator.opening import Contributions, RolledBackError, RoundLostError
from parley.aggregator.opening_store import ErasedError, Opened, RefusedError
from parley.aggregator.peer import PeerLostError
from parley.aggregator.refusals import CallRefusedError, CallWaitsError
from parley.aggregator.uploads import Upload
from parley.federation.manifest import Manifest
from parley.mpc.errors import MpcError
from parley.v1 import aggregator_pb2, common_pb2


class Round:
    """In memory only: what is lost in a crash is sent again by the parties."""

    def __init__(self, manifest: Manifest, index: int) -> None:
        self._manifest, self.index = manifest, index
        self.uploads: dict[str, Upload] = {}
        self.query: bytes | None = None
        """Of its question; known when the coordinator has asked to open it."""
        self.length = 0
        self.expected: tuple[str, ...] = ()
        self.started = self.deadline = 0.0
        """On time.monotonic(); the deadline counts from the first time that the round is asked for."""
        self.ready = False
        self.taken = False
        """What is here is being opened: what comes now may be too late, and gets no receipt."""
        self.relayed = False
        """On server B: what A had for it has come."""

    def ask(self, query: bytes, length: int, expected: Sequence[str]) -> None:
        """The question, which the first to ask fixes; whom to wait for may change."""
        if self.query is None:
            self.query, self.length = query, length
            for party in [party for party, upload in self.uploads.items() if not upload.fits(query, length)]:
                self.uploads.pop(party).erase()
        elif (self.query, self.length) != (query, length):
            raise CallRefusedError(
                common_pb2.REFUSAL_CONTRADICTION,
                f"round {self.index} was asked with another question",
                "a round has one question: ask for that one, or end the run",
            )
        self.expected = tuple(expected)

    def start(self) -> None:
        """Begin to wait, anew if it has come to nothing before."""
        self.started = time.monotonic()
        self.deadline = self.started + self._manifest.deadline_seconds
        self.ready = False

    def complete(self) -> list[Upload]:
        """What counts."""
        return [upload for upload in list(self.uploads.values()) if upload.complete]  # workers ask too

    def has(self, party: str) -> bool:
        """Whether what counts of this party is here."""
        found = self.uploads.get(party)
        return found is not None and found.complete

    def missing(self) -> list[str]:
        """Of those expected."""
        return [party for party in self.expected if not self.has(party)]

    def sealed(self) -> list[aggregator_pb2.RelayedHalf]:
        """On server A: halves for B that came with those for A."""
        return [upload.sealed for upload in self.complete() if upload.sealed is not None]

    def decide(self) -> bool:
        """Whether to go on: everybody is here, or the deadline has passed with enough."""
        if self.query is not None and not self.ready and self.deadline:
            enough = len(self.complete()) >= self._manifest.minimum_parties
            self.ready = enough and (not self.missing() or time.monotonic() >= self.deadline)
        return self.ready

    def contributions(self) -> Contributions:
        """In a worker thread: expands seeds."""
        made = Contributions(self.length)
        for upload in self.complete():
            upload.add_to(made)
        return made

    def in_time(self) -> dict[str, tuple[bytes, bytes]]:
        """Whose upload was whole before the sum was taken: its question and its digest."""
        return {upload.party: (upload.query, upload.digest) for upload in self.complete() if upload.in_time}

    def erase(self) -> None:
        for upload in self.uploads.values():
            upload.erase()
        self.uploads.clear()


class Result:
    """An opened round, and how long it took here."""

    def __init__(self, opened: Opened, waited: float = 0.0, agreed: float = 0.0, noised: float = 0.0) -> None:
        self.opened, self.waited, self.agreed, self.noised = opened, waited, agreed, noised


class ShortError(Exception):
    """The deadline has passed and too few contributed."""

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__(f"missing: {', '.join(missing) or 'nobody'}")
        self.missing = list(missing)


def refusal_for(error: MpcError) -> CallRefusedError:
    """What the coordinator is told of it."""
    if isinstance(error, CallRefusedError):
        return error
    if isinstance(error, RoundLostError | RolledBackError | PeerLostError):
        return CallRefusedError(common_pb2.REFUSAL_LOST, str(error), "end the run")
    if isinstance(error, ErasedError):
        return CallRefusedError(common_pb2.REFUSAL_TOO_LATE, str(error), "go on from the newest round")
    if isinstance(error, RefusedError):
        return CallRefusedError(common_pb2.REFUSAL_CONTRADICTION, str(error), "ask what was asked before")
    return CallWaitsError(str(error), "ask again")
