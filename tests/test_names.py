"""Modules are named for what they are, not for what is going on in them."""

from tests.support.sources import modules

NOUNS = {"clipping", "encoding", "holding", "lying", "meaning", "opening", "ring", "sampling", "spelling", "standing"}
"""Terms of this field and of the protocol, which only sound like something going on."""


def test_no_module_is_named_by_a_gerund() -> None:
    names = {path.stem for path in modules()}
    assert {name for name in names if name.endswith("ing")} == NOUNS
