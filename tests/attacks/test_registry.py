"""The list of attacks: complete, each with its guards, tried by a command. That each is held: the files beside."""

import re
from pathlib import Path

from parley.attacks import registry

DOCS = Path(__file__).parents[2] / "docs"
OF_THE_REVIEWS = {
    "records": {"C1", "C2", "H5", "M5", "M6", "M7"},
    "contribution": {"C3a", "C3b", "C3c", "H1"},
    "budgets": {"H2", "H3", "H4"},
    "keys": {"H6"},
    "servers": {"squeeze", "peek"},
    "noise": {"collapse", "leak"},
    "floods": {"M1", "M2", "M3", "M4", "stale-files"},
}
"""By the module of `parley.attacks` that tries them."""
NEW = {
    "foreign-column", "spread-threshold", "edited-records", "subset-of-columns", "M4-party",
    "rounding", "other-kinds", "failing-again",
    "data-sets", "people-twice",
    "ledger-older", "state-older", "waste-joins", "waste-refused", "after-its-end",
    "ledger-modes", "ledger-salt", "outbox-flip", "openings-flip",
    "H6-callers", "H6-words", "rotation-unsigned", "rotation-stolen", "rotation-replayed",
    "early-position", "renoise", "dropped-party", "forked", "unchained", "forged-statements",
    "collapse-malicious", "leak-malicious",
    "covert-collapse", "covert-squeeze", "covert-leak", "covert-one-bit", "covert-row", "covert-false-bits",
    "covert-tape", "covert-tables", "covert-hides-seed", "covert-late-seed", "covert-other-delta", "covert-hangs-up",
    "covert-peek", "covert-false-audit", "covert-counts", "covert-signature", "covert-stranger", "covert-audits",
    "covert-accuser", "covert-question", "covert-forged",
    "one-address", "turns", "parsing", "parsing-ends",
}  # fmt: skip
"""Found since, or low ones by a word: every id that is not in a review's list."""
NO_SURFACES = {
    "__init__", "audit", "covert_counts", "covert_forgery", "covert_gates", "covert_liar", "covert_lies",
    "covert_pool", "covert_server", "covert_trial", "house", "institution", "kinds", "lying_server", "registry",
    "stage", "surroundings", "unguarded", "words",
}  # fmt: skip


def test_the_attacks_are_exactly_those_of_the_reviews_and_our_own() -> None:
    ids = [attack.id for attack in registry.attacks()]
    assert len(ids) == len(set(ids))
    due = {each for surface in registry.SURFACES for each in OF_THE_REVIEWS.get(surface, set())}
    assert set(ids) == due | NEW


def test_every_attack_is_on_a_page() -> None:
    pages = "".join((DOCS / name).read_text() for name in ("attacks.md", "attacks-servers.md"))
    assert [attack.id for attack in registry.attacks() if attack.id not in pages] == []


def test_every_surface_is_registered() -> None:
    modules = {path.stem for path in Path(registry.__file__).parent.glob("*.py")} - NO_SURFACES
    surfaces = {name for name in modules if re.search("^ATTACKS", (_folder() / f"{name}.py").read_text(), re.MULTILINE)}
    assert surfaces == set(registry.SURFACES)
    assert {name for name in OF_THE_REVIEWS if (_folder() / f"{name}.py").exists()} <= surfaces


def _folder() -> Path:
    return Path(registry.__file__).parent


def test_no_attack_is_without_a_guard_and_no_guard_without_an_attack() -> None:
    used = [guard for attack in registry.attacks() for guard in attack.guards]
    assert all(attack.guards for attack in registry.attacks())
    assert set(used) == set(registry.guards())
