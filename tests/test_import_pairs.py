"""No room knows everybody: benchmarks/import_pairs.py counts where the imports between rooms start."""

import runpy
from pathlib import Path

PAIRS = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "import_pairs.py"))
MOST_OF_THE_COMMAND_LINE, MOST = 0.35, 0.25


def test_the_command_line_starts_less_than_a_third_of_them_and_nobody_else_a_quarter() -> None:
    shares = PAIRS["shares"]()
    assert abs(sum(shares.values()) - 1) < 1e-9
    assert shares["cli"] < MOST_OF_THE_COMMAND_LINE
    assert {name: share for name, share in shares.items() if name != "cli" and share >= MOST} == {}


def test_a_pair_is_found_wherever_it_is_imported(tmp_path: Path) -> None:
    inner = tmp_path / "inner.py"
    inner.write_text("def f():\n    from parley.node import logs, trail\n    import parley.study.simulation\n")
    known = dict.fromkeys(("parley.node.logs", "parley.node.trail", "parley.study.simulation", "parley.node"), inner)
    assert PAIRS["imported"](inner, known) == {"parley.node.logs", "parley.node.trail", "parley.study.simulation"}
