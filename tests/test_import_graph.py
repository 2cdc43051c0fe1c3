"""No room knows everybody: benchmarks/import_graph.py counts where the imports between rooms start."""

import runpy
from pathlib import Path

GRAPH = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "import_graph.py"))


def test_the_command_line_starts_less_than_a_third_of_them_and_nobody_else_a_quarter() -> None:
    found = GRAPH["graph"]("")
    assert abs(sum(found["share"].values()) - 1) < 0.01
    assert {"cli", "party", "coordinator"} <= set(found["share"])
    assert GRAPH["too_much"](found) == []


def test_a_room_from_which_too_much_starts_is_named() -> None:
    assert GRAPH["too_much"]({"share": {"cli": 0.34, "party": 0.26, "study": 0.24}}) == ["party"]
    assert GRAPH["too_much"]({"share": {"cli": 0.36, "party": 0.25}}) == ["cli"]
