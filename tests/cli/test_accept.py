"""`parley accept`: several requests at once, each by its number, and a list when all have come."""

from pathlib import Path

import pytest

from parley.cli.commands.accept import numbers_given
from parley.cli.console import CommandError
from parley.node.invitation import SCRYPT
from tests.support.command import answer, typed
from tests.support.invited import NAMES, Invited


def test_all_requests_in_one_call_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCRYPT, "n", 2)  # dear on purpose; tests/node/test_invitation.py has it as it is
    invited = Invited(tmp_path)
    begun = {name: invited.begin(name) for name in NAMES}
    requests = [str(each.path) for each in begun.values()]
    numbers = [word for name, each in begun.items() for word in ("--number", f"{name}={each.request.number}")]
    first = answer(typed("", "accept", str(invited.study), *requests[:2], *numbers, "--json"))
    assert first["missing"] == list(NAMES[2:])
    assert first["members"] is None
    all_of = answer(typed("", "accept", str(invited.study), *requests, *numbers, "--json"))
    assert [each["accepted"] for each in all_of["accepted"]] == [False, False, True, True, True]
    assert all_of["members"] == str(invited.study / "cardio.members")


def test_a_number_is_given_by_name() -> None:
    assert numbers_given(["a=12:34", "b= 5"]) == {"a": "12:34", "b": " 5"}
    for wrong in ("12:34", "a=", "a= "):
        with pytest.raises(CommandError, match="give NAME=NUMBER"):
            numbers_given([wrong])
