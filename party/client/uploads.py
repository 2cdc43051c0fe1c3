"""One contribution to both aggregators: pieces of 1 MiB, both at once, resumed where the server says.

Idempotent: whatever is lost is sent again, byte for byte. A server's rejection never fails a round, so it is noted and
the party goes on. Imports grpc, `parley` and `party.client` only.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
from parley.federation import logs
from parley.federation.names import NodeName
from parley.federation.rounds import PIECE_BYTES
from parley.v1 import aggregator_pb2

from party.client.outbox import Answer
from party.client.wire import Backoff, Wire, code_of, passing

log = logs.logger()
Response = aggregator_pb2.UploadResponse
NOT_YET = (Response.REJECTION_UNSPECIFIED, Response.REJECTION_TOO_EARLY)


@dataclass
class _Half:
    """One server's payload on its way."""

    peer: NodeName
    payload: bytes
    received: int = 0
    sent: int = 0
    over: bool = False
    """Nothing more is due there."""
    stuck: bool = False
    """The last piece did not get through: pause before the next."""


class Uploader:
    """Sends the answers of one run."""

    def __init__(self, wire: Wire, manifest_digest: bytes, aggregators: tuple[NodeName, ...], seconds: float) -> None:
        self._wire, self._digest, self._peers, self._seconds = wire, manifest_digest, aggregators, seconds
        # A thread that stays: grpc's own futures start one for every call.
        self._helper = ThreadPoolExecutor(1, "upload")
        self.mention = ""
        """This party's newest event of the run, which calls mention."""
        self.heard: dict[NodeName, str] = {}
        """And the newest that each server has mentioned."""

    def close(self) -> None:
        self._helper.shutdown(wait=False)

    def send(self, answer: Answer, stop: threading.Event) -> bool:
        """True once neither server waits for more; False where time ran out, so that the coordinator is asked again."""
        common = {
            "manifest_digest": self._digest,
            "round": answer.round_index,
            "query_digest": answer.query,
            "commitment_a": answer.commitments[0],
            "commitment_b": answer.commitments[1],
        }
        halves = [_Half(self._peers[0], answer.payload_a), _Half(self._peers[1], answer.payload_b)]
        ends, backoff = time.monotonic() + self._seconds, Backoff(stop)
        while (waiting := [half for half in halves if not half.over]) and time.monotonic() < ends:
            with self._wire.stopping(stop):
                self._pieces(waiting, common, ends - time.monotonic())
            if any(half.stuck for half in waiting):
                backoff.pause()
            else:
                backoff.reset()
        answer.sent_a, answer.sent_b = answer.sent_a + halves[0].sent, answer.sent_b + halves[1].sent
        answer.acknowledged = not waiting
        return answer.acknowledged

    def _pieces(self, halves: list[_Half], common: dict[str, Any], seconds: float) -> None:
        """The next piece to each server, at the same time: one in the helper, the other in this thread."""
        *others, here = halves
        calls = [(half, self._helper.submit(self._upload, half, _piece(half, common), seconds)) for half in others]
        _settle(here, self._wire, lambda: self._upload(here, _piece(here, common), seconds))
        for half, call in calls:
            _settle(half, self._wire, call.result)

    def _upload(self, half: _Half, piece: aggregator_pb2.UploadRequest, seconds: float) -> Any:
        return self.ask(half.peer, "Upload", piece, seconds)

    def ask(self, peer: NodeName, method: str, request: Any, seconds: float) -> Any:
        """A call that mentions this party's newest event; what the answer mentions is kept."""
        response, event = self._wire.mentioning(peer, method, request, seconds, self.mention)
        if event is not None:
            self.heard[peer] = event
        return response


def _piece(half: _Half, common: dict[str, Any]) -> aggregator_pb2.UploadRequest:
    data = half.payload
    if len(data) > PIECE_BYTES:
        data = data[half.received : half.received + PIECE_BYTES]
    half.sent += len(data)
    offset = half.received if len(half.payload) > PIECE_BYTES else 0
    return aggregator_pb2.UploadRequest(**common, size=len(half.payload), offset=offset, data=data)


def _settle(half: _Half, wire: Wire, result: Callable[[], aggregator_pb2.UploadResponse]) -> None:
    """What became of a piece."""
    try:
        response = result()
    except grpc.RpcError as error:
        if code_of(error) is grpc.StatusCode.CANCELLED:
            raise  # by `Wire.close`
        if not passing(error):
            log.warning("an upload was refused", peer=half.peer, error=wire.described(error, half.peer))
        half.stuck = True
        return
    rejection = response.rejection
    if rejection in NOT_YET:
        half.over = response.complete
        half.stuck = not response.complete and response.received <= half.received
        half.received = min(response.received, len(half.payload))
        return
    half.over, half.stuck = True, False
    if rejection != Response.REJECTION_TOO_LATE:
        name = Response.Rejection.Name(rejection).removeprefix("REJECTION_").lower()
        log.error("this party's contribution does not count", peer=half.peer, refusal=name)
