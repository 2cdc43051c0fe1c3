"""The HTTP proxy that gRPC would take to a peer, by this process's environment, as gRPC's core reads it.

The first of `grpc_proxy`, `https_proxy` and `http_proxy` that is set counts, in small letters, and an empty one stands
for no proxy; `no_grpc_proxy`, or else `no_proxy`, lists ends of host names that are dialled directly, and networks. A
proxy passes TLS through (CONNECT): it sees whom this node talks to, and when.
"""

import base64
import ipaddress
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

NAMES = ("grpc_proxy", "https_proxy", "http_proxy")
EXCEPTIONS = ("no_grpc_proxy", "no_proxy")
LONGEST_ANSWER = 1 << 14


class ProxyError(Exception):
    """The proxy was not reached, or does not open a way; the text is for people."""


@dataclass(frozen=True)
class Proxy:
    """Where it listens, and which variable says so; the name and password in it are shown to nobody."""

    host: str
    port: int
    variable: str
    credentials: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def connect(self, host: str, port: int, seconds: float) -> socket.socket:
        """A connection to `host` through it; ProxyError says which side fails."""
        try:
            connection = socket.create_connection((self.host, self.port), seconds)
        except OSError as error:
            raise ProxyError(f"the proxy {self} of {self.variable} cannot be reached: {error}") from None
        try:
            where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            lines = [f"CONNECT {where} HTTP/1.1", f"Host: {where}"]
            if self.credentials:
                lines.append(f"Proxy-Authorization: Basic {base64.b64encode(self.credentials.encode()).decode()}")
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            status = _status(connection)
        except (OSError, UnicodeError):
            connection.close()
            raise ProxyError(f"the proxy {self} of {self.variable} does not answer to CONNECT {host}:{port}") from None
        if status != 200:
            connection.close()
            raise ProxyError(f"the proxy {self} of {self.variable} answers {status} to CONNECT {host}:{port}")
        return connection


def _status(connection: socket.socket) -> int:
    """Read to the end of the answer's head and no byte further: what follows is the peer's."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        if not byte or len(data) >= LONGEST_ANSWER:
            return 0
        data += byte
    words = data.split(b"\r\n", 1)[0].split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def proxy_to(host: str, environment: Mapping[str, str] = os.environ) -> Proxy | None:
    """None where gRPC dials directly."""
    name = next((name for name in NAMES if name in environment), None)
    if name is None:
        return None
    try:
        parts = urlsplit(environment[name])
        if parts.scheme != "http" or not parts.hostname:
            return None  # gRPC's core takes no other, and dials directly
        port = parts.port or 80
    except ValueError:
        return None
    listed = next((environment[each] for each in EXCEPTIONS if each in environment), "")
    if any(_excepted(host, entry.strip()) for entry in listed.split(",")):
        return None
    who = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
    return Proxy(parts.hostname, port, name, who)


def ignored(environment: Mapping[str, str] = os.environ) -> str | None:
    """A proxy that somebody meant, and that gRPC does not take: the variable, and why. It dials directly then."""
    name = next((name for name in NAMES if name in environment), None)
    if name is None:
        loud = next((each for each in (name.upper() for name in NAMES) if environment.get(each)), None)
        return loud and f"{loud} is not read by gRPC, which knows small letters only"
    if not environment[name]:
        lost = next((each for each in NAMES if environment.get(each)), None)
        return lost and f"{name} is empty and stands before {lost}: no proxy is taken"
    if proxy_to("", {name: environment[name]}) is None:
        return f"{name} is no address of the form http://HOST:PORT, and gRPC takes no other"
    return None


def _excepted(host: str, entry: str) -> bool:
    if not entry:
        return False
    try:
        if ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False):
            return True
    except ValueError:
        pass
    return host.lower().endswith(entry.lower())
