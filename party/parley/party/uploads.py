"""One contribution to both aggregators: pieces of 1 MiB, both at once, resumed where the server says.

Server B's half goes there over this party's own call once, with a key; the following ones are sealed under it and
travel with A's half (parley.node.relay). What is asked for again goes to each server itself: something was lost.
Idempotent: halves are sent again byte for byte. A server's rejection never fails a round, so it is noted and the party
goes on.
"""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc

from parley.federation.names import NodeName
from parley.federation.rounds import PIECE_BYTES
from parley.mpc.randomness import random_bytes
from parley.node import logs
from parley.node.relay import KEY_BYTES, KEY_SECONDS, NONCE_BYTES, RoundKey, seal
from parley.party.outbox import Answer
from parley.party.wire import Pauses, Wire, code_of, passing
from parley.v1 import aggregator_pb2, common_pb2

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
    there: bool = False
    """It is whole, and right."""
    receipt: common_pb2.SignedWord | None = None
    """The server's word that it came in time."""
    beside: dict[str, Any] = field(default_factory=dict)
    """What else the request says to this server only."""


class Uploader:
    """Sends the answers of one run."""

    def __init__(
        self, wire: Wire, manifest_digest: bytes, aggregators: tuple[NodeName, ...], seconds: float,
        restored: Callable[[], Mapping[NodeName, bytes]] = dict,
    ) -> None:  # fmt: skip
        """`restored` is what each server said when it admitted the run, asked once the run is charged."""
        self._restored = restored
        self._wire, self._digest, self._peers, self._seconds = wire, manifest_digest, aggregators, seconds
        # A thread that stays: grpc's own futures start one for every call.
        self._helper = ThreadPoolExecutor(1, "upload")
        self._key, self._relays_until = RoundKey(0, b""), 0.0
        """What server B has of this party, and until when it is used: half of what B allows."""
        self.direct = False
        """Nothing goes through server A any more: a sum was opened without what this party had sent."""

    def close(self) -> None:
        self._helper.shutdown(wait=False)

    def send(self, answer: Answer, stop: threading.Event, again: bool = False) -> bool:
        """True once neither server waits for more; False where time ran out, so that the coordinator is asked again."""
        common = {
            "manifest_digest": self._digest,
            "round": answer.round_index,
            "query_digest": answer.query,
            "commitment_a": answer.commitments[0],
            "commitment_b": answer.commitments[1],
        }
        words = self._restored()
        relays = not again and not self.direct and time.monotonic() < self._relays_until
        halves = self._relayed(answer) if relays else self._both(answer)
        for half in halves:
            if word := words.get(half.peer):
                half.beside["restored"] = word
        ends, backoff = time.monotonic() + self._seconds, Pauses(stop)
        while (waiting := [half for half in halves if not half.over]) and time.monotonic() < ends:
            *others, here = waiting
            left = ends - time.monotonic()
            with self._wire.stopping(stop):  # to both at the same time: one in the helper, the other in this thread
                calls = [self._helper.submit(self._upload, half, common, left) for half in others]
                self._upload(here, common, left)
                for call in calls:
                    call.result()
            if any(half.stuck for half in waiting):
                backoff.pause()
            else:
                backoff.reset()
        self._account(answer, halves)
        answer.acknowledged = not waiting
        return answer.acknowledged

    def _relayed(self, answer: Answer) -> list[_Half]:
        """To server A alone, with B's half sealed."""
        key = self._key.advance(answer.round_index)
        sealed = seal(key, answer.upload, answer.payload_b, random_bytes(NONCE_BYTES))
        return [_Half(self._peers[0], answer.payload_a, beside={"relayed": sealed})]

    def _both(self, answer: Answer) -> list[_Half]:
        """To each server its own, and to B a new key."""
        self._relays_until = 0.0
        key = random_bytes(KEY_BYTES)
        return [
            _Half(self._peers[0], answer.payload_a),
            _Half(self._peers[1], answer.payload_b, beside={"relay_key": key}),
        ]

    def _account(self, answer: Answer, halves: list[_Half]) -> None:
        """What has left, and whether B knows the key now."""
        answer.sent_a += halves[0].sent
        answer.receipts |= {role: half.receipt for role, half in enumerate(halves) if half.receipt is not None}
        if len(halves) == 1:
            answer.sent_b += len(answer.payload_b)
            return
        answer.sent_b += halves[1].sent
        if halves[1].there:
            self._key = RoundKey(answer.round_index, halves[1].beside["relay_key"])
            self._relays_until = time.monotonic() + KEY_SECONDS / 2

    def _upload(self, half: _Half, common: dict[str, Any], seconds: float) -> None:
        """The next piece to one server, and what became of it."""
        size = len(half.payload)
        offset = half.received if size > PIECE_BYTES else 0
        data = half.payload[offset : offset + PIECE_BYTES] if size > PIECE_BYTES else half.payload
        half.sent += len(data)
        piece = aggregator_pb2.UploadRequest(**common, **half.beside, size=size, offset=offset, data=data)
        try:
            response = self._wire.ask(half.peer, "Upload", piece, seconds)
        except grpc.RpcError as error:
            if code_of(error) is grpc.StatusCode.CANCELLED:
                raise  # by `Wire.close`
            if not passing(error):
                log.warning("an upload was refused", peer=half.peer, error=self._wire.described(error, half.peer))
            half.stuck = True
            return
        rejection = response.rejection
        if rejection in NOT_YET:
            half.over = half.there = response.complete
            if response.complete and response.HasField("receipt"):
                half.receipt = response.receipt
            half.stuck = not response.complete and response.received <= half.received
            half.received = min(response.received, len(half.payload))
            return
        half.over, half.stuck = True, False
        if rejection != Response.REJECTION_TOO_LATE:
            name = Response.Rejection.Name(rejection).removeprefix("REJECTION_").lower()
            log.error("this party's contribution does not count", peer=half.peer, refusal=name)
