"""Who may look: a token on disk, sessions in memory, and a word that only the session's own pages know. The token has
256 bits, so guessing needs no throttle. A session ends after twelve hours, or with the process.
"""

import hmac
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from parley.node.errors import NodeError

TOKEN_FILE = "dashboard.token"
TOKEN_BYTES = 32
SESSION_SECONDS = 12 * 3600.0
MOST_SESSIONS = 64


def token_in(state: Path, name: str = TOKEN_FILE) -> str:
    """The node's token, made at the first call; refused where others may read it."""
    path = state / name
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        status = path.lstat()
        if status.st_mode & 0o077 or status.st_uid != os.geteuid():
            raise NodeError(f"others can read {path}: remove it, and a new token is made") from None
        token = path.read_text().strip()
        if len(token) < TOKEN_BYTES:
            raise NodeError(f"{path} is cut short: remove it, and a new token is made") from None
        return token
    except OSError as error:
        raise NodeError(f"{path} cannot be made ({error.strerror}): check the node's folder") from None
    with os.fdopen(handle, "w") as file:
        token = secrets.token_urlsafe(TOKEN_BYTES)
        file.write(token + "\n")
        file.flush()
        os.fsync(file.fileno())
    return token


@dataclass(frozen=True)
class Session:
    """One browser that knew the token."""

    csrf: str
    until: float


class Sessions:
    """Those that are logged in."""

    def __init__(self, token: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._token, self._clock = token.encode(), clock
        self._held: dict[str, Session] = {}

    def knows(self, token: str) -> bool:
        """In constant time."""
        return hmac.compare_digest(token.strip().encode(), self._token)

    def begin(self, token: str) -> str | None:
        """A cookie's value for who knows the token."""
        if not self.knows(token):
            return None
        while len(self._held) >= MOST_SESSIONS:
            del self._held[next(iter(self._held))]
        name = secrets.token_urlsafe(TOKEN_BYTES)
        self._held[name] = Session(secrets.token_urlsafe(TOKEN_BYTES), self._clock() + SESSION_SECONDS)
        return name

    def of(self, cookie: str | None) -> Session | None:
        found = self._held.get(cookie) if cookie else None
        if found is None or found.until < self._clock():
            self.end(cookie)
            return None
        return found

    def end(self, cookie: str | None) -> None:
        if cookie:
            self._held.pop(cookie, None)


def matches(session: Session, word: str) -> bool:
    """Whether a form came from one of this session's own pages."""
    return hmac.compare_digest(session.csrf.encode(), word.encode())
