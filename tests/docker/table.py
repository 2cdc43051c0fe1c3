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
    """What a log said, if one did."""


def write_table(path: Path, cells: list[Cell]) -> None:
    """Between the two marks of the file."""
    lines = ["| node | phase | fault | run afterwards | sums open, once each | back in s | first log that names it |"]
    lines.append("| --- | --- | --- | --- | ---: | ---: | --- |")
    for each in cells:
        cause = each.cause.replace("|", "/")[:160]
        row = (each.node, each.phase, each.fault, each.state, str(each.opened), f"{each.seconds:.1f}", cause)
        lines.append("| " + " | ".join(row) + " |")
    text = path.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    path.write_text(head + BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END + tail)
