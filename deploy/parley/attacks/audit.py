"""What `parley audit attacks` does: tries the attacks one after another and says how each went."""

import contextlib
import sys
from collections.abc import Sequence
from typing import Any

from parley.attacks import registry
from parley.attacks.kinds import AttackError
from parley.attacks.registry import Tried, attempt, chosen
from parley.cli.console import EXIT_BAD_NEWS, emit_json, fail, progress

WIDTHS = (20, 10, 30, 30)
"""Of the table's columns before the last."""


def run(only: Sequence[str], without: str | None, json: bool) -> None:
    """All, or some; without a guard those that it stops, which then have to succeed. Ends by its exit code."""
    try:
        todo = chosen(only, without)
    except (AttackError, ModuleNotFoundError) as error:
        fail(_missing(error))
    if not todo:
        fail(f"guard {without} protects against none of these attacks: leave out --only")
    found: list[Tried] = []
    for number, attack in enumerate(todo, 1):
        progress(f"{number}/{len(todo)} {attack.id}: {attack.what}")
        with contextlib.redirect_stdout(sys.stderr):  # standard output is the result's
            found.append(attempt(attack, [without] if without else []))
        progress(f"    {found[-1].outcome} in {found[-1].seconds:.1f} s")
    right = [each for each in found if (each.outcome == "succeeds") == bool(without) and each.finding is not None]
    if json:
        blocked = sum(each.outcome in ("refused", "bounded", "named") for each in found)
        emit_json({"attacks": [_row(each) for each in found], "blocked": blocked, "of": len(found), "without": without})
    else:
        _table(found)
        print(_verdict(len(right), len(found), without))
    if len(right) < len(found):
        raise SystemExit(EXIT_BAD_NEWS)


def show_all(json: bool) -> None:
    """What there is to try, and what stands against it."""
    try:
        known, everything = registry.guards(), registry.attacks()
    except (AttackError, ModuleNotFoundError) as error:
        fail(_missing(error))
    if json:
        listed = [{"id": each.id, "what": each.what, "guards": list(each.guards)} for each in everything]
        emit_json({"attacks": listed, "guards": {name: guard.target for name, guard in known.items()}})
        return
    width = max(len(each.id) for each in everything) + 2
    for each in everything:
        print(f"{each.id:<{width}}{each.what}")
        for name in each.guards:
            print(f"{'':<{width}}  guard {name}: {known[name].target}")


def _missing(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is missing: pip install 'parley-federation[accounting]'"
    return str(error)


def _row(tried: Tried) -> dict[str, Any]:
    finding = tried.finding
    row = {
        "id": tried.attack.id,
        "outcome": tried.outcome,
        "bound": finding.bound if finding else None,
        "measured": finding.measured if finding else None,
        "seconds": round(tried.seconds, 2),
    }
    return row if finding else {**row, "broke": tried.broke}


def _table(found: Sequence[Tried]) -> None:
    _line("id", "outcome", "bound", "measured", "what")
    for each in found:
        finding = each.finding
        bound, measured = (_shown(finding.bound), _shown(finding.measured)) if finding else ("", each.broke)
        _line(each.attack.id, each.outcome, bound, measured, each.attack.what)


def _line(*cells: str) -> None:
    print("".join(f"{cell[: width - 2]:<{width}}" for cell, width in zip(cells, WIDTHS, strict=False)) + cells[-1])


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _verdict(right: int, tried: int, without: str | None) -> str:
    if without:
        return f"without {without} {right} of {tried} attacks succeed" + (
            ", as they have to" if right == tried else ": the others are stopped by something else, or are no attacks"
        )
    return f"{right} of {tried} attacks gain nothing beyond what is allowed" + (
        "" if right == tried else ": see those that succeed or broke above"
    )
