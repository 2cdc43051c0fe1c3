"""The page's own process: which folder, on which address, and the link that signs in.

It never listens elsewhere than on loopback: what is on it is for this institution alone. One page serves a node at a
time. `NODE/state/page.lock` says on which port, and is locked for as long as the page runs, so that a link is never
made for a port that somebody else has taken since.
"""

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from parley.federation.names import Role
from parley.node.errors import NodeError
from parley.node.node_file import Address, PartyNode, read_node
from parley.page.app import Wiring, application
from parley.page.folder import Folder
from parley.web.access import Sessions, token_in
from parley.web.guard import LOOPBACK
from parley.web.listener import Settings, Site, serve

TOKEN, LOCK = "page.token", "page.lock"
DEFAULT = Address("127.0.0.1", 0)
"""A port of the kernel's."""
OTHERS = {
    Role.coordinator: "its pages are `parley dashboard {node}`",
    Role.aggregator: "it has no pages: `parley aggregator status {node}`, or `parley report {node} -o report.html`",
}
LOCK_SECONDS = 2.0
"""How long a look at the lock, by `--link`, is waited for."""


def page_node(folder: Path) -> PartyNode:
    """A party's; of another role it says which command is right."""
    node = read_node(folder)
    if not isinstance(node, PartyNode):
        what = OTHERS[node.role].format(node=folder)
        raise NodeError(f"{folder} is the folder of {node.role.with_article}, and this page is a party's: {what}")
    return node


def settings_of(listen: Address | None) -> Settings:
    """Loopback, and nothing else."""
    address = listen or DEFAULT
    if not address.loopback:
        raise NodeError(
            f"a party's page answers on loopback only, not on {address.host}: leave --listen out, or give "
            f"127.0.0.1:{address.port}; from another machine, `ssh -L {address.port}:127.0.0.1:{address.port} HOST`"
        )
    return Settings(address.host, address.port)


def main(folder: Path, listen: Address | None = None) -> None:
    """Serve the page of the party in this folder, until a signal."""
    node, settings = page_node(folder), settings_of(listen)
    node.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    here = Folder(node)
    with _alone(node.state) as handle:

        def build(port: int) -> Site:
            at = str(Address(settings.host, port)).encode()
            os.ftruncate(handle, 0)
            os.pwrite(handle, at, 0)
            wiring = Wiring(here, Sessions(token_in(node.state, TOKEN)), LOOPBACK, port)
            app = application(wiring)
            return Site(here.name.name, app, app.state.pages.warm, app.state.pages.close, "page")

        asyncio.run(serve(settings, build))


def link(folder: Path) -> str:
    """An address that signs in at the page that is running now."""
    state = page_node(folder).state
    missing = NodeError(
        f"no page of {folder} is running: start it with `parley page {folder}`, and ask again beside it"
    )
    try:
        handle = os.open(state / LOCK, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        raise missing from None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        raise missing
    except BlockingIOError:
        text = os.pread(handle, 300, 0).decode(errors="replace")
    finally:
        os.close(handle)
    try:
        address = Address.parse(text)
    except ValueError:
        raise NodeError("the page is just starting: ask again") from None
    return Settings(address.host, address.port).link(token_in(state, TOKEN))


@contextlib.contextmanager
def _alone(state: Path) -> Iterator[int]:
    """The lock, held; a NodeError where another page of this node has it."""
    path = state / LOCK
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise NodeError(
                        f"another page of this node is running: `parley page {state.parent} --link` says where"
                    ) from None
                time.sleep(0.05)
        os.ftruncate(handle, 0)
        yield handle
    finally:
        os.close(handle)
