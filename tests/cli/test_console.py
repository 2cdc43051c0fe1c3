"""How every command speaks: progress apart from the result, one line of JSON last, one line for what is wrong."""

import json
import os
import sys
from typing import Any

import pytest

from parley.cli.console import become, emit_json, fail, progress, withdrawn
from parley.node.entry import EXIT_PEER, EXIT_USAGE


def test_progress_cannot_be_mistaken_for_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    progress("verifying")
    emit_json({"epsilon": 0.5, "name": "Käthe\n"})
    said = capsys.readouterr()
    assert said.err == "verifying\n"
    assert said.out.count("\n") == 1
    assert json.loads(said.out) == {"epsilon": 0.5, "name": "Käthe\n"}


def test_no_result_holds_what_is_not_json(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        emit_json({"epsilon": float("inf")})
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("given", "code"), [((), EXIT_USAGE), ((EXIT_PEER,), EXIT_PEER), ((1,), 1)])
def test_a_failure_is_one_line_and_a_code(
    given: tuple[int, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        fail("no folder: give one", *given)
    assert ended.value.code == code
    assert capsys.readouterr() == ("", "error: no folder: give one\n")


def test_what_was_withdrawn_is_said_to_people_and_to_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    withdrawn("heart-1", b"\x01\xff", "it stays charged", json_output=True)
    assert json.loads(capsys.readouterr().out) == {"run": "heart-1", "digest": "01ff", "withdrawn": True}
    withdrawn("heart-1", b"\x01\xff", "it stays charged", json_output=False)
    assert capsys.readouterr().out == "withdrawn  heart-1\n  it stays charged\n"


def test_a_roles_process_takes_the_place_of_the_command_and_looks_for_modules_in_no_folder_of_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    become_of: list[Any] = []
    monkeypatch.setattr(os, "execv", lambda *words: become_of.append(words))
    become("parley.party.process", "node", "--once")
    command = [sys.executable, "-P", "-m", "parley.party.process", "node", "--once"]
    assert become_of == [(sys.executable, command)]


def test_a_room_that_an_image_lacks_is_found_out_before_anything_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "execv", lambda *words: pytest.fail("replaced"))
    with pytest.raises(ModuleNotFoundError) as missing:
        become("parley.kitchen.process")
    assert missing.value.name == "parley.kitchen"
