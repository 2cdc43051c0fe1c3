"""Who is told when something waits for a person: the optional table [notify] of node.toml. Nobody, without it.

    [notify]
    url = "https://chat.example.org/hooks/8d1c"     # a POST with JSON: exactly this address, no redirect, no proxy
or
    command = ["/usr/local/bin/tell", "on call"]    # started as it stands, without a shell; JSON on standard input

It is the operator's alone: no manifest and no peer has a word in it, so that a node.toml that others may write is
refused. The address may be a secret, and is shown and logged nowhere.
"""

import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from parley.federation.fields import Fields

LOOPBACK = ("127.0.0.1", "::1", "localhost")
LONGEST = 2000


@dataclass(frozen=True)
class NotifySettings:
    """One of the two."""

    url: str = field(default="", repr=False)
    command: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The table."""
        return {"url": self.url} if self.url else {"command": list(self.command)}


def notify_settings(fields: Fields, node_toml: Path) -> NotifySettings:
    """Of the file in which the table stands."""
    if fields.has("url") == fields.has("command"):
        raise fields.refuse("url", "or command: give one of the two")
    if node_toml.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise fields.refuse("command", f"or url, and others may write this file: chmod go-w {node_toml}")
    url = _url(fields) if fields.has("url") else ""
    command = _command(fields) if fields.has("command") else ()
    fields.finish()
    return NotifySettings(url, command)


def _url(fields: Fields) -> str:
    text = fields.text("url")
    try:
        parts = urlsplit(text)
        host, right = parts.hostname or "", parts.port != 0
    except ValueError:
        host, right = "", False
    plain = text.isascii() and not any(each.isspace() for each in text) and len(text) <= LONGEST
    if not (plain and right and host and parts.scheme in ("https", "http")):
        raise fields.refuse("url", "is no address: give one such as https://chat.example.org/hooks/…")
    if parts.scheme == "http" and host not in LOOPBACK:
        raise fields.refuse("url", "is without TLS: give https, or an address of this machine")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise fields.refuse("url", "has a name, a password or a fragment: leave them out, or use a command")
    return text


def _command(fields: Fields) -> tuple[str, ...]:
    words = fields.lines("command")
    if not words[0].startswith("/"):
        raise fields.refuse("command", f"begins with {words[0]!r}: give the whole path of a program")
    if not all(word.isprintable() and len(word) <= LONGEST for word in words):
        raise fields.refuse("command", "has a word that cannot be printed in one line: write a program of your own")
    return words
