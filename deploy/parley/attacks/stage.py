"""What attacks on processes share: nodes of the demonstration's federation in a folder, with guards or without."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import grpc

from parley.attacks.kinds import Guard
from parley.demo.heart_data import hospital_file
from parley.demo.local import LocalFederation, NodeProcess
from parley.demo.recipe import STUDY
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.node.refusals import refusal_in
from parley.node.transport import open_channel


@cache
def sample() -> Manifest:
    """The demonstration's: every module of this version accepts it."""
    return STUDY.manifest()


def records() -> dict[str, list[Path]]:
    """The demonstration's: folders are sealed as they are written, so there have to be some."""
    return {party: [hospital_file(party)] for party in sample().parties}


@contextlib.contextmanager
def federation(folder: Path, manifest: Manifest, without: Sequence[Guard]) -> Iterator[LocalFederation]:
    """Folders of all its nodes; nothing runs yet, and nothing is left running."""
    made = LocalFederation(folder, manifest, records())
    if without:
        names = ",".join(guard.name for guard in without)
        for node in made.nodes.values():
            node.before = ("parley.attacks.unguarded", names)
    try:
        yield made
    finally:
        made.stop()


def started(*nodes: NodeProcess) -> None:
    for node in nodes:
        node.start()
    for node in nodes:
        node.wait_ready()


def channel(federated: LocalFederation, role: Role, name: str, server: tuple[Role, str], port: int) -> Any:
    """A new connection of a node to a server's port."""
    identity = federated.authority.issue_as(NodeName(federated.manifest.federation, role, name))
    peer = NodeName(federated.manifest.federation, *server)
    return open_channel(f"127.0.0.1:{port}", identity, peer, [("grpc.use_local_subchannel_pool", 1)])


def answers(method: Callable[..., Any], request: Any, seconds: float) -> bool:
    """Whether a call is answered, be it by a refusal of this project's."""
    try:
        method(request, timeout=seconds)
    except grpc.RpcError as error:
        return refusal_in(error) is not None
    return True


def resident_mib(node: NodeProcess) -> float:
    """What the process holds now."""
    assert node.process is not None
    pages = int(Path(f"/proc/{node.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Silence:
    """Connections to ports of this machine that say `words` and then nothing, from loopback addresses."""

    def __init__(self, ports: Sequence[int], addresses: Sequence[str], words: bytes = b"") -> None:
        self._places = [(port, address) for address in addresses for port in ports]
        self._words = words
        self.held: list[socket.socket] = []
        self.opened = 0
        self.enough = threading.Event()

    def __enter__(self) -> "Silence":
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.held:
            each.close()

    def spread(self, most: int) -> None:
        """Until it is `enough`, as fast as one thread may; holds the first, who found a place, and the newest."""
        while not self.enough.is_set():
            port, address = self._places[self.opened % len(self._places)]
            made = socket.socket()
            made.settimeout(0.5)
            try:
                made.bind((address, 0))
                made.connect(("127.0.0.1", port))
                if self._words:
                    made.sendall(self._words)
            except OSError:
                made.close()
                time.sleep(0.005)
            else:
                self.held.append(made)
            self.opened += 1
            if len(self.held) > most:
                for old in self.held[most // 4 : most // 2]:
                    old.close()
                del self.held[most // 4 : most // 2]

    def burst(self, count: int) -> None:
        """So many at once, before anybody looks."""
        for number in range(count):
            port, address = self._places[number % len(self._places)]
            made = socket.socket()
            made.setblocking(False)
            made.bind((address, 0))
            made.connect_ex(("127.0.0.1", port))
            self.held.append(made)
