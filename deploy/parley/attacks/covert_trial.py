"""Many sessions under audit between two processes, of which one may lie: what of it was caught, and who was accused.

Evidence of both sides is judged here, from its bytes alone: by a third process, as anybody would.
"""

import json
import math
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

from parley.attacks.covert_lies import Known, known
from parley.attacks.covert_server import SERVERS, Settings, Task, settings_line, task_line, verified
from parley.attacks.kinds import AttackError
from parley.mpc.evidence import Evidence, judge
from parley.mpc.kernels import Variant
from parley.node.authority import ThrowAwayAuthority

FALSE_ALARM = 1e-9
"""Of a count outside its interval."""
Variants = tuple[Variant | None, Variant | None]


class TwoServers:
    """Server A and server B, each a fresh process; ended when the `with` block is left, however it is left."""

    def __init__(self, variants: Variants = (None, None), folder: Path | None = None) -> None:
        self._own = None if folder else tempfile.TemporaryDirectory(prefix="parley-covert-")
        self.folder = folder or Path(self._own.name if self._own else "")
        authority = ThrowAwayAuthority(SERVERS[0].federation)
        for name in SERVERS:
            authority.install(self.folder / name.name, name)
        for name in SERVERS:  # once all keys are there, so that each has pinned the other's
            authority.install(self.folder / name.name, name)
        self.keys = [authority.issue_as(name).pin for name in SERVERS]
        self._processes: list[subprocess.Popen[str]] = []
        self._variants = variants
        self.start()

    def start(self) -> None:
        """Both processes, for the first time or again."""
        self.stop()
        self._processes = [_started() for _ in SERVERS]
        for role, process in enumerate(self._processes):
            _tell(process, settings_line(Settings(role, str(self.folder), self._variants[role])))
        port = _answer(self._processes[1])
        _tell(self._processes[0], json.dumps(port))

    def session(self, task: Task) -> list[dict[str, Any]]:
        """What each has of it."""
        self.begin(task)
        return [_answer(process) for process in self._processes]

    def begin(self, task: Task) -> None:
        """Without waiting for its end."""
        for process in self._processes:
            _tell(process, task_line(task))

    def kill(self, role: int) -> dict[str, Any]:
        """In the middle of whatever it does; what the other one then has."""
        self._processes[role].kill()
        return _answer(self._processes[1 - role])

    def evidence(self, role: int, name: str) -> bytes:
        """As that server has kept it."""
        return (self.folder / f"evidence-{role}" / name).read_bytes()

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self._processes = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._own is not None:
            self._own.cleanup()


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

    def wrong(self, rate: Fraction) -> list[str]:
        """Whatever should not be."""
        found = [*self.misjudged]
        if self.convicted:
            found.append(f"{self.convicted} of {self.accusations} accusations convicted the honest server")
        if self.known.outcome == "caught" and self.caught != self.audited:
            found.append(f"{self.caught} caught of {self.audited} audited")
        if self.known.outcome == "refused" and self.caught:
            found.append(f"{self.caught} caught of a lie that leaves no trace in a batch")
        allowed = {"CaughtError", "", *self.known.refused}
        if strange := set(self.endings) - allowed:
            found.append(f"ended by {', '.join(sorted(strange))}: {dict(self.words)}")
        if self.known.outcome == "refused" and self.known.refused and "" in self.endings:
            found.append(f"{self.endings['']} sessions ended well")
        low, high = interval(self.signed, rate)
        if self.known.outcome == "caught" and not low <= self.audited <= high:
            found.append(f"{self.audited} of {self.signed} audited, where {low} to {high} are due")
        return found


def interval(trials: int, rate: Fraction) -> tuple[int, int]:
    """Counts that leave at most half of FALSE_ALARM in either tail, exactly."""
    yes, no = rate, 1 - rate
    limit = Fraction(FALSE_ALARM) / 2
    weights = [math.comb(trials, k) * yes**k * no ** (trials - k) for k in range(trials + 1)]
    low = high = 0
    below = Fraction(0)
    for low, weight in enumerate(weights):
        below += weight
        if below > limit:
            break
    above = Fraction(0)
    for high in range(trials, -1, -1):
        above += weights[high]
        if above > limit:
            break
    return low, high


def tried(
    servers: TwoServers, lie: str, liar: int, batches: int, lanes: int, audits: int = 8, most_sessions: int = 10_000,
    deadline: float = 60.0,
) -> Tally:  # fmt: skip
    """Sessions until the liar has signed so many batches."""
    tally, honest = Tally(lie, liar), 1 - liar
    while tally.signed < batches and tally.sessions < most_sessions:
        task = Task(batches - tally.signed, lanes, audits, lie, liar, deadline)
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
