"""Modules are named for what they are, not for what is going on in them."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
NOUNS = {"clipping", "encoding", "holding", "lying", "meaning", "opening", "ring", "sampling", "spelling"}
"""Terms of this field and of the protocol, which only sound like something going on."""


def test_no_module_is_named_by_a_gerund() -> None:
    names = {path.stem for place in ROOT.glob("*/parley") for path in place.rglob("*.py")}
    assert len(names) > 100
    assert {name for name in names if name.endswith("ing")} == NOUNS
