"""One of two servers that make one batch from a seed, over gRPC and TLS as in a federation: a process of its own.

    python noise_end.py 1 FOLDER LANES         # prints its port, and then what it did
    python noise_end.py 0 FOLDER LANES PORT

FOLDER holds both servers' identities. On whichever processor either of them runs, both must say the same.
"""

import base64
import hashlib
import json
import platform
import sys
from typing import Any

import numpy as np

from parley.bench.noise_server import Connections, Settings, end_together
from parley.mpc.channel import Channel, record
from parley.mpc.kernels import best_variant
from parley.mpc.randomness import Csprng
from parley.mpc.session import Session
from parley.mpc.steps import Bytes, Steps
from parley.mpc.tables import load

DEADLINE_SECONDS = 1200.0
"""Emulation is slow, and a machine may be busy."""


def digest(pieces: list[Bytes]) -> list[Any]:
    data = b"".join(each.tobytes() for each in pieces)
    return [len(data), hashlib.sha256(data).hexdigest()]


def main(role: int, folder: str, lanes: int, port: int = 0) -> None:
    settings = Settings(role=role, cover="strips", precision="standard", channel="grpc", k=4, folder=folder)
    connections = Connections(settings)
    if role == 1:
        print(connections.listen(), flush=True)
    else:
        connections.dial(port)
    channel = Channel(connections.link(), DEADLINE_SECONDS)
    transcript: list[tuple[Bytes, Bytes]] = []
    run = channel.run

    def recorded(protocol: Steps[Any]) -> Any:
        return record(channel, transcript, protocol)

    channel.run = recorded  # type: ignore[method-assign]
    session = Session(channel, role, load("strips", "standard"), Csprng(bytes([role + 1]) * 32))
    shares = session.samples(lanes)
    run(end_together())
    told = {
        "machine": platform.machine(),
        "kernels": best_variant(),
        "session": session.id.hex(),
        "sent": digest([mine for mine, _ in transcript]),
        "heard": digest([theirs for _, theirs in transcript]),
        "shares": base64.b64encode(np.ascontiguousarray(shares).tobytes()).decode(),
    }
    print(json.dumps(told), flush=True)
    channel.close("done")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
