"""Tells a node's operator that something waits for a person, by [notify] of node.toml; a node without it tells nobody.

Whoever rings it goes on at once: a thread tells, by a process that is ended after LIMIT_SECONDS, whatever it does. It
tells public facts: fixed sentences, a run's name and digests, each checked as a log's facts are. A manifest's text, a
policy's reasons and figures of a budget are not among them, so that all that waits for an approval looks alike.

Runs are proposed by a stranger, as fast as they like. So the first thing is told at once, what comes while one waits
goes into one message, and the pause before the next grows to an hour while things keep coming. The pause outlives the
process (NODE/state/notified), so that a node that starts again and again does not ring each time.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from parley.federation.names import NodeName
from parley.node import facts, logs
from parley.node.evidence import now
from parley.node.node_file import Node
from parley.node.notify_settings import NotifySettings

log = logs.logger()
LIMIT_SECONDS = 10.0
TOGETHER_SECONDS = 1.0
"""Things that come at once are told together."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 30.0, 3600.0
ATTEMPTS = 3
MOST_TOLD = 20
"""In one message; of more there is the count."""
MOST_REMEMBERED = 1024
NOTIFIED = "notified"
PASSED_ON = frozenset({"HOME", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"})
"""Of this process's variables; the others may be secrets."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
APPROVAL, EVIDENCE, STALLED, REFUSED, TRY = "approval", "evidence", "stalled", "refused", "try"
CERTIFICATE = "certificate"
SENTENCES = {
    APPROVAL: "a run waits for this node's operator",
    EVIDENCE: "evidence against an aggregator waits for an answer",
    STALLED: "a run has stalled and waits to be resumed or stopped",
    REFUSED: "a run that was submitted here was refused",
    CERTIFICATE: "this node's certificate ends soon, and the request for another one waits for the authority",
    TRY: "somebody tries whether this message arrives: nothing waits",
}
DO = {
    APPROVAL: {"party": "parley party runs NODE", "aggregator": "parley doctor NODE --manifest RUN.toml"},
    EVIDENCE: dict.fromkeys(("party", "aggregator", "coordinator"), "parley evidence list NODE"),
    STALLED: {"coordinator": "parley status NODE"},
    REFUSED: {"coordinator": "parley status NODE"},
    CERTIFICATE: dict.fromkeys(("party", "aggregator", "coordinator"), "parley node show NODE"),
}
"""By role; an operator knows where NODE is."""


class Bell:
    """One node's. Any thread may ring it."""

    def __init__(self, settings: NotifySettings, name: NodeName, state: Path) -> None:
        self._settings, self._name, self._mark = settings, name, state / NOTIFIED
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str, str], dict[str, str]] = {}
        self._more = 0
        self._told: dict[tuple[str, str, str], None] = {}
        """Oldest first."""
        self._pause = FIRST_PAUSE_SECONDS
        self._rung, self._stop = threading.Event(), threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._main, name="bell", daemon=True)
        self._thread.start()

    def ring(self, kind: str, run: str = "", digest: str = "", peer: NodeName | None = None) -> None:
        """Something waits; each thing is told once. Never raises, and never waits."""
        given = {"run": facts.name(run), "digest": facts.digest(digest), "peer": facts.name(peer) if peer else None}
        key = (kind, given["run"] or "", given["digest"] or "")
        with self._lock:
            if kind not in SENTENCES or key in self._told:
                return
            self._told[key] = None
            for oldest in list(self._told)[: len(self._told) - MOST_REMEMBERED]:
                del self._told[oldest]
            if len(self._waiting) < MOST_TOLD:
                known = {name: value for name, value in given.items() if value}
                self._waiting[key] = {"what": kind, "text": SENTENCES[kind], "since": now(), **known}
            else:
                self._more += 1
        self._rung.set()

    def over(self, kind: str, run: str, digest: str) -> None:
        """A person has seen to it: if it waits again, it is told again."""
        with self._lock:
            self._told.pop((kind, run, digest), None)

    def close(self) -> None:
        """What was not told yet is rung again at the next start, if it still waits."""
        self._stop.set()
        self._rung.set()
        if (process := self._process) is not None:
            _end(process)
        self._thread.join(2.0)

    # ------------------------------------------------------------ the thread

    def _main(self) -> None:
        while not self._stop.is_set():
            self._rung.wait()
            if self._stop.wait(max(TOGETHER_SECONDS, self._seconds_left())):
                return
            self._rung.clear()
            if (body := self._message()) is not None:
                try:
                    self._tell_or_give_up(body)
                except Exception as error:  # of a thread that nobody waits for: the node goes on without being heard
                    log.warning("nobody was told that something waits", error=error)

    def _seconds_left(self) -> float:
        """Of the pause after the last message, of whichever process; it begins anew after a quiet time."""
        try:
            since = time.time() - self._mark.stat().st_mtime
        except OSError:
            return 0.0
        if since > LONGEST_PAUSE_SECONDS:
            self._pause = FIRST_PAUSE_SECONDS
        return min(self._pause, max(0.0, self._pause - since))

    def _message(self) -> bytes | None:
        with self._lock:
            waiting, more = list(self._waiting.values()), self._more
            self._waiting, self._more = {}, 0
        return message(self._name, waiting, more) if waiting else None

    def _begun(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        if self._stop.is_set():
            _end(process)

    def _tell_or_give_up(self, body: bytes) -> None:
        pause = FIRST_PAUSE_SECONDS
        for _ in range(ATTEMPTS):
            with contextlib.suppress(OSError):
                self._mark.touch(mode=0o600)
            told = tell(self._settings, body, self._begun)
            self._process = None
            if told:
                log.info("the operator was told that something waits")
                self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
                return
            log.warning("nobody was told that something waits, parley node notify tries it")
            if self._stop.wait(pause):
                return
            pause *= 2


def tell(settings: NotifySettings, body: bytes, begun: Callable[["subprocess.Popen[bytes]"], object] = id) -> bool:
    """Whether it was taken; within LIMIT_SECONDS, and never by a shell. `begun` is told of the process."""
    command, given = list(settings.command), body
    if settings.url:
        isolated = ["-I"] if sys.flags.isolated else []
        command = [sys.executable, "-P", *isolated, "-m", "parley.node.post"]
        given = settings.url.encode("ascii") + b"\n" + body
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=environment(os.environ), cwd="/", start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError):
        return False
    begun(process)
    try:
        process.communicate(given, LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        _end(process)
        process.communicate()
    except OSError:
        _end(process)
        process.wait()
    return process.returncode == 0


def message(name: NodeName, waiting: list[dict[str, str]], more: int = 0) -> bytes:
    """One line of JSON; `text` is what chat programs show."""
    said = []
    for each in waiting:
        run = f" ({each['run']})" if "run" in each else ""
        do = DO.get(each["what"], {}).get(name.role.value)
        said.append(f"{name.name}: {each['text']}{run}{f': {do}' if do else ''}")
    said += [f"{name.name}: and {more} more"] if more else []
    body: dict[str, Any] = {"node": name.uri, "waiting": waiting, "more": more, "text": "\n".join(said)}
    return json.dumps(body).encode() + b"\n"


def environment(whole: Mapping[str, str]) -> dict[str, str]:
    """For what tells."""
    passed = {name: value for name, value in whole.items() if name in PASSED_ON or name.startswith("LC_")}
    return {"PATH": PATH, **passed}


def _end(process: "subprocess.Popen[bytes]") -> None:
    """With everything that it has started and that is still of its session; it has not been waited for."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


_bell: Bell | None = None


def install(node: Node, name: NodeName) -> None:
    """At the start of a node's process."""
    global _bell  # one per process, as its log is
    if node.notify is not None:
        _bell = Bell(node.notify, name, node.state)


def remove() -> None:
    """At its end."""
    global _bell
    if _bell is not None:
        _bell.close()
        _bell = None


def over(kind: str, run: str, digest: str) -> None:
    """See `Bell.over`."""
    if _bell is not None:
        _bell.over(kind, run, digest)


def ring(kind: str, run: str = "", digest: str = "", peer: NodeName | None = None) -> None:
    """See `Bell.ring`; nothing where nobody is to be told."""
    if _bell is not None:
        _bell.ring(kind, run, digest, peer)
