"""A network namespace whose only neighbour is this machine, and a process inside of it.

    python -m tests.support.cut_off NAMESPACE parley.party NODE        # as root

Loopback in there is another than here: what listens on 127.0.0.1 of this machine is not reached but through a proxy.
"""

import ctypes
import itertools
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

CLONE_NEWNET = 0x40000000
NUMBER = itertools.count()
"""The kernel takes a link away some time after its namespace: the next of this process has another name."""


@dataclass(frozen=True)
class Neighbour:
    """The namespace's name, and the addresses of this machine and of it, as both see them."""

    name: str
    here: str
    there: str


def can_be_made() -> bool:
    return os.geteuid() == 0 and not subprocess.run(["unshare", "--net", "true"], check=False).returncode


@contextmanager
def namespace(ip: str) -> Iterator[Neighbour]:
    """`ip` is the program of that name."""
    own = os.getpid() + 100_000 * next(NUMBER)
    name, here, there = f"parley{own}", f"pa{own}", f"pb{own}"
    # Of the range for measurements between networks, which nobody routes; one net of four addresses for each process.
    net, first = f"198.18.{own % 256}", own // 256 % 63 * 4
    made = Neighbour(name, f"{net}.{first + 1}", f"{net}.{first + 2}")

    def run(*words: str) -> None:
        subprocess.run([ip, *words], check=True)

    run("netns", "add", name)
    try:
        run("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        run("address", "add", f"{made.here}/30", "dev", here)
        run("link", "set", here, "up")
        run("-n", name, "address", "add", f"{made.there}/30", "dev", there)
        run("-n", name, "link", "set", there, "up")
        run("-n", name, "link", "set", "lo", "up")
        yield made
    finally:
        run("netns", "delete", name)


def main(name: str, module: str, *arguments: str) -> None:
    handle = os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    if ctypes.CDLL(None, use_errno=True).setns(handle, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(handle)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
