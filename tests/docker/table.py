"""The fault matrix as a table for docs/faults.md."""

from dataclasses import dataclass
from pathlib import Path

BEGIN, END = "<!-- table: tests/docker/test_faults.py -->", "<!-- end of table -->"


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
    lines = ["| " + " | ".join(titles) + " |", "| --- | --- | --- | --- | ---: | ---: | --- | --- |"]
    for each in cells:
        figures = (each.state, str(each.opened), f"{each.seconds:.1f}")
        row = (each.node, each.phase, each.fault, *figures, each.cause, each.page)
        lines.append("| " + " | ".join(row) + " |")
    text = path.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    path.write_text(head + BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END + tail)
