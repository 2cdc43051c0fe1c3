"""Who dials whom, read from the table of docs/federation.md."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "federation.md"


@dataclass(frozen=True)
class Edge:
    """One row: roles, where A and B are the two aggregators, and the port's name in node.toml."""

    callers: frozenset[str]
    callees: frozenset[str]
    port: str


@cache
def _rows() -> tuple[tuple[str, ...], ...]:
    section = PAGE.read_text().split("\n## Who dials whom\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return tuple(tuple(cell.strip() for cell in row.strip("|").split("|")) for row in rows[2:])


def edges() -> list[Edge]:
    """All but the operator's Unix socket, which no network carries."""
    found = []
    for caller, callee, _, port in _rows():
        if "Unix socket" not in port:
            found.append(Edge(frozenset(caller.split(", ")), frozenset(callee.split(", ")), port))
    return found
