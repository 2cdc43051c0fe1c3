"""Every known attack, both ways: with its guards it gains nothing beyond what is allowed, without any one it succeeds.

The second half is what makes the first mean something: an attack that is "refused" for a typo of its own does not
succeed without its guard either.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from parley.attacks import audit as attack_audit
from parley.attacks import registry
from parley.attacks.kinds import Attack, Finding, Guard

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
    "ledger-older", "state-older", "waste-joins", "waste-refused", "after-its-end",
    "ledger-modes", "ledger-salt", "outbox-flip", "openings-flip",
    "H6-callers", "H6-words", "rotation-unsigned", "rotation-stolen", "rotation-replayed",
    "early-position", "renoise", "dropped-party", "forked", "unchained", "forged-statements",
    "collapse-malicious", "leak-malicious",
    "one-address", "turns", "parsing", "parsing-ends",
}  # fmt: skip
"""Found since, or low ones by a word: every id that is not in a review's list."""
NAMED_ONLY = {"M1"}
"""What cannot be stopped."""
NO_SURFACES = {
    "__init__", "audit", "house", "institution", "kinds", "lying_server", "registry", "stage", "surroundings",
    "unguarded", "words",
}  # fmt: skip


def _id(attack: Attack) -> str:
    return attack.id


@pytest.mark.parametrize("attack", registry.attacks(), ids=_id)
def test_with_its_guards_an_attack_gains_nothing_beyond_what_is_allowed(attack: Attack) -> None:
    tried = registry.attempt(attack)
    assert tried.finding is not None, tried.broke
    assert tried.outcome in (("named",) if attack.id in NAMED_ONLY else ("refused", "bounded")), tried.finding


@pytest.mark.parametrize(
    ("attack", "guard"),
    [pytest.param(each, guard, id=f"{each.id}-{guard}") for each in registry.attacks() for guard in each.guards],
)
def test_without_any_one_of_its_guards_it_succeeds(attack: Attack, guard: str) -> None:
    tried = registry.attempt(attack, [guard])
    assert tried.finding is not None, tried.broke
    assert tried.outcome == "succeeds", tried.finding


def test_the_attacks_are_exactly_those_of_the_reviews_and_our_own() -> None:
    ids = [attack.id for attack in registry.attacks()]
    assert len(ids) == len(set(ids))
    due = {each for surface in registry.SURFACES for each in OF_THE_REVIEWS.get(surface, set())}
    assert set(ids) == due | NEW


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


# ------------------------------------------------------------ the command itself


def _standing() -> str:
    return "stands"


GUARD = Guard("stand-in", f"{__name__}:_standing", lambda: "gone")


def _honest(folder: Path, without: tuple[Guard, ...]) -> Finding:
    return Finding("refused" if _standing() == "stands" else "succeeds", 0.0, 1.0)


def _with_a_typo(folder: Path, without: tuple[Guard, ...]) -> Finding:
    raise AttributeError("upload_al")


def _always_refused(folder: Path, without: tuple[Guard, ...]) -> Finding:
    return Finding("refused", "", "for another reason")


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An audit of one attack of this file."""

    def use(attempt: Any) -> None:
        attack = Attack("x", "somebody tries something", (GUARD.name,), attempt)
        monkeypatch.setattr(registry, "attacks", lambda: (attack,))
        monkeypatch.setattr(registry, "guards", lambda: {GUARD.name: GUARD})

    return use


def _run(without: str | None, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = 0
    try:
        attack_audit.run([], without, json=True)
    except SystemExit as ended:
        code = int(ended.code or 0)
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


def test_an_attack_that_is_stopped_only_by_its_guard_is_good_news_both_ways(
    only: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    only(_honest)
    code, found = _run(None, capsys)
    assert (code, found["blocked"], found["of"], found["attacks"][0]["outcome"]) == (0, 1, 1, "refused")
    code, found = _run(GUARD.name, capsys)
    assert (code, found["blocked"], found["of"], found["attacks"][0]["outcome"]) == (0, 0, 1, "succeeds")


def test_an_attack_that_breaks_is_never_a_refusal(only: Any, capsys: pytest.CaptureFixture[str]) -> None:
    only(_with_a_typo)
    for without in (None, GUARD.name):
        code, found = _run(without, capsys)
        assert (code, found["blocked"], found["attacks"][0]["outcome"]) == (1, 0, "error")
        assert found["attacks"][0]["broke"] == "AttributeError: upload_al"


def test_an_attack_that_something_else_refuses_is_noticed_without_its_guard(
    only: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    only(_always_refused)
    assert _run(None, capsys)[0] == 0
    assert _run(GUARD.name, capsys)[0] == 1


def _command(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "parley.cli.main", "audit", "attacks", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_command_lists_refuses_and_ends_with_one_line_of_json() -> None:
    code, out, _ = _command("--list")
    assert code == 0
    assert "guard doorkeeper: parley.node.doorkeeper:Doorkeeper.look" in out
    code, _, said = _command("--without", "no-such-guard")
    assert (code, said) == (2, "error: no guard is called no-such-guard: see parley audit attacks --list\n")
    code, out, _ = _command("--only", "M1", "--json")
    found = json.loads(out.splitlines()[-1])
    assert (code, found["blocked"], found["of"], found["attacks"][0]["outcome"]) == (0, 1, 1, "named")


def test_a_process_runs_without_the_guards_that_are_named(tmp_path: Path) -> None:
    """And only guards that are known are taken away."""
    script = [sys.executable, "-m", "parley.attacks.unguarded"]
    (tmp_path / "shows.py").write_text(
        "from parley.node.connections import MOST_CONNECTIONS\nprint(MOST_CONNECTIONS)\n"
    )
    done = subprocess.run(
        [*script, "connections-of-a-port", "shows"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout == "parley.no_such_option\n"
    done = subprocess.run([*script, "nothing", "shows"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    done = subprocess.run(
        [*script, "doorkeeper", "parley.node.doorkeeper"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 2
