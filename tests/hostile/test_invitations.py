"""Whatever stands in an invitation, a request or a list: it is taken, or refused in one line, and never a defect."""

import copy
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from parley.cli.commands.join import _schema_text
from parley.errors import ParleyError
from parley.federation.names import Role
from parley.federation.toml_text import toml_text
from parley.node import membership, newcomer
from parley.node.invitation import SCRYPT, Invitation, InvitationError, Members, Request, kind_of
from tests.support.invited import Invited

ODD: list[Any] = [
    "", " ", "../../x", "/", "a\x00b", "\u202e", "é" * 3, "x" * 5000, "-----BEGIN CERTIFICATE-----", "$(id)",
    0, -1, 1 << 62, 1.5, 1e308, True, [], {}, [[]], ["a", 1], {"a": {}}, [{"name": "a"}],
    "\x1b[31m", "a:b:c", "::1", "0",
]  # fmt: skip
MUTATIONS = 80


def places(body: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a document that holds a value."""
    for key in list(body) if isinstance(body, dict) else range(len(body)):
        yield body, key
        if isinstance(body[key], dict | list):
            yield from places(body[key])


def taken_or_refused(body: dict[str, Any], take: Callable[[bytes], None], draw: random.Random) -> None:
    for _ in range(MUTATIONS):
        changed = copy.deepcopy(body)
        for _ in range(draw.choice([1, 1, 2])):
            where, key = draw.choice(list(places(changed)))
            if draw.random() < 0.2:
                del where[key]
            else:
                where[key] = draw.choice(ODD)
        try:
            take(toml_text(changed).encode())
        except ParleyError as error:
            assert str(error).isprintable(), repr(str(error))


@pytest.mark.parametrize("name", ["hospital-a", "south", "lead"])
def test_an_invitation(tmp_path: Path, name: str) -> None:
    def take(data: bytes) -> None:
        invitation = Invitation.parse(data)
        assert Invitation.parse(invitation.text().encode()).digest == invitation.digest
        newcomer.node_of(invitation, tmp_path / name, [])
        newcomer.policy_of(invitation)
        newcomer.must_type(invitation)
        [newcomer.described(each) for each in invitation.members]
        if invitation.node.role is Role.party:
            newcomer.limits_of(invitation)
            _schema_text(invitation, tmp_path / "records.csv")

    invited = Invited(tmp_path)
    taken_or_refused(invited.invitation(name).as_json(), take, random.Random(name))


def test_a_request_and_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCRYPT, "n", 2)  # dear on purpose
    invited = Invited(tmp_path)
    members = invited.everybody()
    held = invited.homes / "hospital-a"
    request = Request.parse((held / "hospital-a.request").read_bytes())

    def accepted(data: bytes) -> None:
        found = Request.parse(data)
        assert not membership.accept(invited.study, found, invited.authority, lambda _: "", replacing=True)

    taken_or_refused(request.as_json(), accepted, random.Random("request"))
    taken_or_refused(members.as_json(), lambda data: _checked(held, data), random.Random("members"))


def _checked(folder: Path, data: bytes) -> None:
    newcomer.check(folder, Members.parse(data))


@pytest.mark.parametrize("kind", ["invitation", "request", "members"])
def test_a_long_dotted_name_in_the_mail_takes_no_memory(kind: str) -> None:
    data = f'parley = "{kind} 1"\n{"a." * 20_000}a = 1\n'.encode()
    with pytest.raises(InvitationError, match="has a name with over 16 dots"):
        kind_of(data)
