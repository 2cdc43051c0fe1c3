"""The fault matrix as tables for docs/faults.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

BEGIN, END = "<!-- table: tests/docker/test_faults.py -->", "<!-- end of table -->"
CAUGHT_BEGIN = "<!-- table: tests/end_to_end/test_caught_faults.py -->"
CAUGHT_END = "<!-- end of that table -->"


@dataclass(frozen=True)
class Cell:
    """One fault of one node in one phase."""

    node: str
    phase: str
    fault: str
    state: str
    """Of the run, once the node is back."""
    opened: int
    """Sums open by then, each once."""
    seconds: float
    """From the fault until the node is healthy again."""
    cause: str
    """Whose log named it first, and how."""
    page: str
    """What the run's page said of it."""


def write_table(path: Path, cells: list[Cell]) -> None:
    """Between the two marks of the file."""
    titles = ("node", "phase", "fault", "run then", "sums", "back in s", "first log that names it", "the run's page")
    rows = [
        (each.node, each.phase, each.fault, each.state, str(each.opened), f"{each.seconds:.1f}", each.cause, each.page)
        for each in cells
    ]
    replace_table(path, BEGIN, END, titles, rows)


def replace_table(path: Path, begin: str, end: str, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Between two marks of the file; columns of figures, by their titles, are aligned as such."""
    figures = ("sums", "back in s", "seconds after the catch")
    lines = [
        "| " + " | ".join(titles) + " |",
        "| " + " | ".join("---:" if title in figures else "---" for title in titles) + " |",
    ]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    head, _, rest = path.read_text().partition(begin)
    _, _, tail = rest.partition(end)
    path.write_text(head + begin + "\n\n" + "\n".join(lines) + "\n\n" + end + tail)
