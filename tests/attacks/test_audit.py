"""`parley audit attacks`: what is good news, and what is never taken for a refusal."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from parley.attacks import audit as attack_audit
from parley.attacks import registry
from parley.attacks.kinds import Attack, Finding, Guard


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


@pytest.mark.slow
def test_the_command_lists_refuses_and_ends_with_one_line_of_json() -> None:
    code, out, _ = _command("--list")
    assert code == 0
    assert "guard doorkeeper: parley.node.doorkeeper:Doorkeeper.look" in out
    code, _, said = _command("--without", "no-such-guard")
    assert (code, said) == (2, "error: no guard is called no-such-guard: see parley audit attacks --list\n")
    code, out, _ = _command("--only", "M1", "--json")
    found = json.loads(out.splitlines()[-1])
    assert (code, found["blocked"], found["of"], found["attacks"][0]["outcome"]) == (0, 1, 1, "named")
