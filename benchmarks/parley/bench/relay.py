"""A line of a given length between two processes of this machine: what comes in leaves later, in order, all of it.

    python -m parley.bench.relay PORT SECONDS    # prints its own port; started by parley.bench.noise_lines

Many kernels lack netem, and a container may not use it. Each direction of a connection has a thread that reads at once
whatever there is, with the time at which it is due, and one that sends it then: a delay, and no limit on the rate but
the processor's. Reading at once means that no window of TCP is full because the line is long.
"""

import contextlib
import json
import queue
import socket
import sys
import threading
import time

READ_BYTES = 1 << 18


def pipe(source: socket.socket, target: socket.socket, seconds: float) -> None:
    """One direction, until the source has ended."""
    due: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

    def send() -> None:
        with contextlib.suppress(OSError):
            while (piece := due.get())[1]:
                time.sleep(max(piece[0] - time.monotonic(), 0))
                target.sendall(piece[1])
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    threading.Thread(target=send, daemon=True).start()
    data = b""
    with contextlib.suppress(OSError):
        while data := source.recv(READ_BYTES):
            due.put((time.monotonic() + seconds, data))
    due.put((0.0, b""))


def serve(listener: socket.socket, port: int, seconds: float) -> None:
    """Connections to that port of this machine, `seconds` away each way; for ever."""
    while True:
        near, _ = listener.accept()
        far = socket.create_connection(("127.0.0.1", port))
        for source, target in ((near, far), (far, near)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=pipe, args=(source, target, seconds), daemon=True).start()


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    serve(listener, int(sys.argv[1]), float(sys.argv[2]))


if __name__ == "__main__":
    main()
