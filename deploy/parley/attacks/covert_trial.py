"""Many sessions under audit between two processes, of which one may lie: what of it was caught, and who was accused.

Evidence of both sides is judged here, from its bytes alone: by a third process, as anybody would.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from parley.attacks.covert_lies import Known, known
from parley.attacks.covert_server import SERVERS, SIGNED, Server, Settings, Task, settings_line, task_line, verified
from parley.attacks.kinds import AttackError
from parley.mpc.evidence import Evidence, judge
from parley.mpc.kernels import Variant
from parley.mpc.tables import FORMATS
from parley.node.authority import ThrowAwayAuthority

FALSE_ALARM = 1e-9
"""Of a count outside its interval."""
Variants = tuple[Variant | None, Variant | None]


class TwoServers:
    """Server A and server B, each a fresh process; ended when the `with` block is left, however it is left.

    One of them may be `here`, in this process: then guards that are removed here are removed in that server.
    """

    def __init__(self, variants: Variants = (None, None), here: int | None = None) -> None:
        self._held = tempfile.TemporaryDirectory(prefix="parley-covert-")
        self.folder = Path(self._held.name)
        authority = ThrowAwayAuthority(SERVERS[0].federation)
        for name in SERVERS:
            authority.issue_as(name)  # both keys first: a folder pins those that there are
        for name in SERVERS:
            authority.install(self.folder / name.name, name)
        self.keys = [authority.issue_as(name).pin for name in SERVERS]
        self._variants, self._here = variants, here
        self._server: Server | None = None
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self.start()

    def start(self) -> None:
        """Both, for the first time or again."""
        self.stop()
        port: int | None = None
        for role in (1, 0):  # A is told where B listens
            settings = Settings(role, str(self.folder), self._variants[role])
            if role == self._here:
                self._server = Server(settings)
                if role == 0:
                    self._server.dial(port or 0)
                port = self._server.port
            else:
                process = self._processes[role] = _started()
                _tell(process, settings_line(settings))
                if role == 1:
                    port = _answer(process)["port"]
                else:
                    _tell(process, json.dumps({"port": port}))

    def session(self, task: Task) -> list[dict[str, Any]]:
        """What each has of it."""
        self.begin(task)
        mine = self._server.done(task) if self._server is not None else {}
        return [mine if role == self._here else _answer(self._processes[role]) for role in (0, 1)]

    def begin(self, task: Task) -> None:
        """Without waiting for its end."""
        for role in (0, 1):
            (self.folder / SIGNED.format(role)).unlink(missing_ok=True)
        for process in self._processes.values():
            _tell(process, task_line(task))

    def wait_for_signature(self, role: int) -> None:
        """Until that server has the other one's signature of a batch of the session that was begun."""
        place = self.folder / SIGNED.format(role)
        while not place.exists():
            if any(process.poll() is not None for process in self._processes.values()):
                raise AttackError("a server's process ended early; its message is above")
            time.sleep(0.001)

    def kill(self, role: int) -> dict[str, Any]:
        """In the middle of whatever it does; what the other one then has."""
        self._processes[role].kill()
        return _answer(self._processes[1 - role])

    def sums(self) -> NDArray[np.float64]:
        """Of the last session that was saved, put together, in standard deviations."""
        shares = [np.load(max((self.folder).glob(f"shares-{role}-*.npy"), key=_age)) for role in (0, 1)]
        sums: NDArray[np.int64] = (shares[0] + shares[1]).view(np.int64)
        return sums / 2.0 ** FORMATS["standard"].scale_bits

    def evidence(self, role: int, name: str) -> bytes:
        """As that server has kept it."""
        return (self.folder / f"evidence-{role}" / name).read_bytes()

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for process in self._processes.values():
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self._processes, self._server = {}, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.stop()
        self._held.cleanup()


def _age(path: Path) -> int:
    return path.stat().st_mtime_ns


def _started() -> "subprocess.Popen[str]":
    command = [sys.executable, "-P", "-m", "parley.attacks.covert_server"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _tell(process: "subprocess.Popen[str]", line: str) -> None:
    if process.stdin is None:
        raise AttackError("a server has no input")
    process.stdin.write(line + "\n")
    process.stdin.flush()


def _answer(process: "subprocess.Popen[str]") -> dict[str, Any]:
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise AttackError(f"a server's process ended early (exit code {process.wait()}); its message is above")
    answer: dict[str, Any] = json.loads(line)
    return answer


# ------------------------------------------------------------ counts


@dataclass
class Tally:
    """All sessions of one lie by one server."""

    lie: str
    liar: int
    sessions: int = 0
    signed: int = 0
    """Batches of the liar's that the honest server holds signed: any of them may be audited."""
    audited: int = 0
    caught: int = 0
    """With evidence by which a judge finds the liar's key guilty."""
    misjudged: list[str] = field(default_factory=list)
    """Verdicts on the honest server's evidence that are anything else."""
    accusations: int = 0
    """Of the honest server, by the liar."""
    convicted: int = 0
    """Of these."""
    kept: int = 0
    """Batches that went into the honest server's pool."""
    reasons: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    """The honest server's errors."""
    words: Counter[str] = field(default_factory=Counter)
    processor: float = 0.0

    @property
    def known(self) -> Known:
        return known(self.lie)

    def told(self) -> dict[str, Any]:
        return {
            "lie": self.lie, "by": "AB"[self.liar], "sessions": self.sessions, "batches": self.signed,
            "audited": self.audited, "caught": self.caught, "kept": self.kept, "endings": dict(self.endings),
            "reasons": dict(self.reasons), "accusations": self.accusations, "convicted": self.convicted,
            "processor_seconds": round(self.processor, 1),
        }  # fmt: skip

    @property
    def begun(self) -> int:
        """Batches that the liar bet on."""
        return self.signed + self.endings["PeerCheatedError"]

    def wrong(self, rate: Fraction) -> list[str]:
        """Whatever should not be."""
        known, found = self.known, [*self.misjudged]
        if self.convicted:
            found.append(f"{self.convicted} of {self.accusations} accusations convicted the honest server")
        if self.caught != (self.audited if known.proved else 0):
            found.append(f"{self.caught} caught of {self.audited} audited")
        if strange := set(self.endings) - {*known.refused, *(["CaughtError"] if known.proved else [])} - {""}:
            found.append(f"ended by {', '.join(sorted(strange))}: {dict(self.words)}")
        if self.endings[""] and not known.goes_on:
            found.append(f"{self.endings['']} sessions ended well")
        low, high = interval(self.signed, rate)
        if not low <= self.audited <= high:
            found.append(f"{self.audited} of {self.signed} audited, where {low} to {high} are due")
        low, high = interval(self.begun, Fraction(1, 1 << known.bits))
        if known.bits and not low <= self.signed <= high:
            found.append(f"{self.signed} of {self.begun} bets won, where {low} to {high} are due")
        return found


def interval(trials: int, rate: Fraction) -> tuple[int, int]:
    """Counts that leave at most half of FALSE_ALARM in either tail, exactly."""
    return _first_inside(trials, rate), trials - _first_inside(trials, 1 - rate)


def _first_inside(trials: int, rate: Fraction) -> int:
    """The first count, from 0, up to which the tail is longer. In integers, over a common denominator."""
    yes, no = rate.numerator, rate.denominator - rate.numerator
    limit = Fraction(FALSE_ALARM) / 2 * rate.denominator**trials
    term = tail = no**trials
    for count in range(trials):
        if tail > limit:
            return count
        term = term * (trials - count) * yes // ((count + 1) * no) if no else 0
        tail += term
    return trials


def tried(
    servers: TwoServers, lie: str, liar: int, batches: int, lanes: int, audits: int = 8, most_sessions: int = 10_000,
    most_batches: int = 10_000,
) -> Tally:  # fmt: skip
    """Sessions until the liar has signed so many batches; at most so many, and of so many."""
    tally, honest = Tally(lie, liar), 1 - liar
    while tally.signed < batches and tally.sessions < most_sessions:
        task = Task(min(batches - tally.signed, most_batches), lanes, audits, lie, liar)
        answers = servers.session(task)
        found, theirs = answers[honest], answers[liar]
        tally.sessions += 1
        tally.signed += found["signed"]
        tally.audited += found["made"]
        tally.kept += sum(count > 0 for count in found["kept"])
        tally.endings[found["error"]] += 1
        if found["error"] not in ("", "CaughtError"):
            tally.words[found["words"]] += 1
        tally.processor += sum(answer["processor"] for answer in answers)
        for name in found["evidence"]:
            _judge(tally, servers.evidence(honest, name), servers.keys[liar])
        for name in theirs["evidence"]:
            tally.accusations += 1
            verdict = judge(Evidence.decode(servers.evidence(liar, name)), verified)
            tally.convicted += verdict.guilty
    return tally


def _judge(tally: Tally, data: bytes, key: bytes) -> None:
    verdict = judge(Evidence.decode(data), verified)
    if verdict.guilty and verdict.key == key:
        tally.caught += 1
        tally.reasons[verdict.reason] += 1
    else:
        tally.misjudged.append(f"evidence of the honest server: {verdict.reason}")
