"""Answers of `costs`, asked for in a process of its own and kept: a page never waits for an accountant."""

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from parley.dashboard.views import Books, Budget, BudgetRun, Chart, Line, SpentView
from parley.federation.manifest import Manifest
from parley.web import spelling

GRID = 24
"""Points of the curve ε(k)."""
REFRESH_SECONDS = 20.0
"""Between two exact readings of one running run."""
BOOKS_SECONDS = 5.0
"""Between two readings of the books."""
PATIENCE_SECONDS = 600.0
MOST_RUNS = 200
MODULE = "parley.dashboard.costs"


@dataclass
class _Curve:
    """What is known of one run."""

    points: dict[str, dict[int, float]] = field(default_factory=lambda: {"pld": {}, "rdp": {}})
    party: str = ""
    problem: str = ""
    counts: set[int] = field(default_factory=set)
    """Numbers of rounds that were read, whether or not an accountant had an answer."""
    asked: float = 0.0
    task: "asyncio.Task[None] | None" = None

    def upto(self, name: str, count: int) -> tuple[int, float] | None:
        """The reading of the fewest rounds that are at least `count`: ε grows with rounds, so it is never too low."""
        if not self.points[name] or count == 0:
            return (0, 0.0) if self.points[name] else None
        known = [each for each in self.points[name] if each >= count]
        return (min(known), self.points[name][min(known)]) if known else None


class Accounts:
    """One per process; lives on the event loop."""

    def __init__(self, ledger: Path, trail: Path) -> None:
        self._ledger, self._trail = ledger, trail
        self._curves: dict[bytes, _Curve] = {}
        self._one = asyncio.Semaphore(1)
        self._books: Books | None = None
        self._books_asked = -BOOKS_SECONDS
        self._books_task: asyncio.Task[None] | None = None

    async def close(self) -> None:
        tasks = [each.task for each in self._curves.values() if each.task] + [self._books_task]
        for task in tasks:
            if task is not None:
                task.cancel()
        await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)

    # ------------------------------------------------------------ ε over rounds

    def spent(self, manifest: Manifest, released: int, resting: bool = False) -> SpentView:
        """What is known now; what is not is on its way, at once for a run that rests."""
        curve = self._curves.get(manifest.digest)
        if curve is None:
            while len(self._curves) >= MOST_RUNS:
                del self._curves[next(iter(self._curves))]
            curve = self._curves[manifest.digest] = _Curve()
        if not curve.problem:
            self._ask_if_due(curve, manifest, released, resting)
        pld, rdp = curve.upto("pld", released), curve.upto("rdp", released)
        last, guarantee = manifest.releases, manifest.guarantee
        known = bool(curve.points["pld"] or curve.points["rdp"])
        return SpentView(
            state=curve.problem or ("ready" if known else "computing"),
            pld=pld[1] if pld else None,
            rdp=rdp[1] if rdp else None,
            pld_end=curve.points["pld"].get(last),
            rdp_end=curve.points["rdp"].get(last),
            upto=max((each[0] for each in (pld, rdp) if each), default=released),
            exact=not resting or not known or released in curve.counts or released == 0,
            claimed=guarantee.epsilon,
            delta=guarantee.delta,
            accountant=guarantee.accountant,
            party=curve.party,
            chart=_spent_chart(curve, manifest, released) if known else None,
        )

    def _ask_if_due(self, curve: _Curve, manifest: Manifest, released: int, resting: bool) -> None:
        if curve.task is not None and not curve.task.done():
            return
        if not curve.points["pld"] and not curve.points["rdp"]:
            wanted = grid(manifest.releases, released)
        elif (
            released and released not in curve.counts and (resting or time.monotonic() - curve.asked > REFRESH_SECONDS)
        ):
            wanted = [released]
        else:
            return
        curve.asked = time.monotonic()
        curve.task = asyncio.ensure_future(self._read(curve, manifest, wanted))

    async def _read(self, curve: _Curve, manifest: Manifest, counts: list[int]) -> None:
        answer = await self._apart({"manifest": manifest.canonical.decode("ascii"), "counts": counts})
        if "refused" in answer:
            curve.problem = str(answer["refused"])[:500]
            return
        curve.party = answer["party"]
        curve.counts.update(counts)
        for name in ("pld", "rdp"):
            if answer.get(name) is not None:
                curve.points[name].update(zip(counts, answer[name], strict=True))

    # ------------------------------------------------------------ ledger and trail

    def books(self) -> Books:
        """As of the last reading; a new one is asked for when that is old."""
        running = self._books_task is not None and not self._books_task.done()
        if not running and time.monotonic() - self._books_asked > BOOKS_SECONDS:
            self._books_asked, running = time.monotonic(), True
            self._books_task = asyncio.ensure_future(self._read_books())
        held = self._books or Books("computing", "", "", (), "computing", "", False)
        return replace(held, fresh=not running)

    async def _read_books(self) -> None:
        answer = await self._apart({"ledger": str(self._ledger), "trail": str(self._trail)})
        whole = {"refused": answer["refused"]} if "refused" in answer else None
        ledger, trail = whole or answer["ledger"], whole or answer["trail"]
        self._books = Books(
            state=str(ledger.get("refused", "ready"))[:500],
            rule=ledger.get("rule", ""),
            ledger_head=ledger.get("head", ""),
            budgets=tuple(_budget(each) for each in ledger.get("populations", ())),
            trail_state=str(trail.get("refused", "ready"))[:500],
            trail_head=trail.get("head", ""),
            fresh=True,
        )

    # ------------------------------------------------------------

    async def _apart(self, question: dict[str, Any]) -> dict[str, Any]:
        """One question at a time: this machine has a run to serve."""
        async with self._one:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", MODULE,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    said, problem = await process.communicate(json.dumps(question).encode())
                answer: dict[str, Any] = json.loads(said)
            except TimeoutError:
                return {"refused": f"no answer in {PATIENCE_SECONDS:.0f} s"}
            except ValueError:
                last = problem.decode(errors="replace").strip().splitlines()[-1:] or ["no reason given"]
                return {"refused": f"the accountant's process ended with code {process.returncode}: {last[0][:300]}"}
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            return answer


def grid(releases: int, released: int) -> list[int]:
    """Numbers of rounds to read ε at: dense at the start, where it grows fastest, then even, and what was released."""
    early = {2**power for power in range(releases.bit_length()) if 2**power <= max(1, releases // GRID)}
    even = {max(1, releases * place // GRID) for place in range(1, GRID + 1)}
    return sorted(early | even | ({released} if released else set()))


def _spent_chart(curve: _Curve, manifest: Manifest, released: int) -> Chart:
    lines = []
    for name, style in (("rdp", "second"), ("pld", "main")):
        points = sorted(curve.points[name].items())
        if not points:
            continue
        here = curve.upto(name, released)
        done = [(0.0, 0.0)] + [(float(x), y) for x, y in points if x <= released]
        if released and here and (not done or done[-1][0] < released):
            done.append((float(released), here[1]))
        rest = [done[-1]] + [(float(x), y) for x, y in points if x > released]
        if len(done) > 1:
            lines.append(Line(name.upper(), style, tuple(done)))
        if len(rest) > 1:
            lines.append(Line(f"{name.upper()}, projected", f"{style} planned", tuple(rest)))
    cap = manifest.guarantee.epsilon
    lines.append(Line("cap", "limit", ((0.0, cap), (float(manifest.releases), cap))))
    return Chart(
        "spent",
        "Privacy spent",
        f"ε at δ = {spelling.number(manifest.guarantee.delta)} over rounds, by two accountants, and the run's cap.",
        "ε",
        tuple(lines),
        0.0,
        spelling.axis_end(manifest.releases),
        now=float(released) if released < manifest.releases else None,
    )


def _budget(body: dict[str, Any]) -> Budget:
    return Budget(**{**body, "runs": tuple(BudgetRun(**each) for each in body["runs"])})
