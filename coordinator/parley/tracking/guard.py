"""Nothing leaves this machine unless its operator has said where to: a guard over the whole process, for good.

A tracker loads large libraries of others, some of which report on their use. The guard sees every look-up of a name
and every connection that Python makes, whoever makes it, and refuses all but those to the one server that stands in
node.toml. It cannot be taken off again (PEP 578).
"""

import os
import sys
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

LOOKED_UP = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")
REACHED = ("socket.connect", "socket.sendto", "socket.sendmsg")
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "_MLFLOW_TESTING_TELEMETRY": "false",  # or it reports all the same
    "DO_NOT_TRACK": "true",
    "MLFLOW_ALLOW_HTTP_REDIRECTS": "false",
    "MLFLOW_ALLOW_FILE_STORE": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "GIT_PYTHON_REFRESH": "quiet",
}
"""Of the tracker's process, before anything of others is imported."""
PROXIES = ("http_proxy", "https_proxy", "all_proxy")


class RefusedConnectionError(OSError):
    """Something in this process wanted to reach a machine that nobody has named."""


class Guard:
    """Refuses, and counts what it has refused."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._hosts = frozenset(hosts)
        self.refused = 0

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in LOOKED_UP:
            self._require(arguments[0])
        elif event in REACHED and isinstance(arguments[1], tuple) and not self._hosts:
            # Where there is a server its addresses follow from its name, which was looked up first.
            self._refuse()

    def _require(self, host: Any) -> None:
        name = host.decode(errors="replace") if isinstance(host, bytes) else host
        if name not in self._hosts:
            self._refuse()

    def _refuse(self) -> None:
        self.refused += 1
        raise RefusedConnectionError("nothing but the tracker's server that stands in node.toml is reached from here")


def hosts_of(place: object) -> set[str]:
    """Whom a tracker may reach: nobody for a folder, and for an address its host, or the proxy on the way to it."""
    if not isinstance(place, str):
        return set()
    addresses = [place, *(os.environ.get(each, "") or os.environ.get(each.upper(), "") for each in PROXIES)]
    found = {urlsplit(each if "://" in each else f"//{each}").hostname for each in addresses if each}
    return {each for each in found if each}


def keep_quiet(place: object) -> Guard:
    """Before anything of others is imported; holds until the process ends."""
    os.environ.update(QUIET)
    guard = Guard(hosts_of(place))
    sys.addaudithook(guard)
    return guard
