"""`parley join`: asks for what is missing, touches no folder that is there, and installs by typed numbers alone."""

from pathlib import Path

import pytest

from parley.federation.names import Role
from parley.learning.holding import read_holding
from parley.node import trust
from parley.node.invitation import SCRYPT, Members
from parley.node.membership import write_members
from parley.node.node_file import PartyNode, read_node
from tests.support.command import answer, typed
from tests.support.invited import Invited, node


@pytest.fixture
def invited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invited:
    monkeypatch.setitem(SCRYPT, "n", 2)  # dear on purpose; tests/node/test_invitation.py has it as it is
    made = Invited(tmp_path)
    (tmp_path / "records.csv").write_text("age,sick\n" + "54,1\n" * 300)
    return made


def test_a_party_from_invitation_to_pins(invited: Invited) -> None:
    home, file = invited.homes / "hospital-a", str(invited.invitation_file("hospital-a"))
    records = str(invited.homes / "records.csv")
    silent = typed("", "join", file, str(home))
    assert (silent.returncode, "nobody answered: give --data FILE" in silent.stderr) == (2, True)
    assert not home.exists()
    done = typed(f"{records}\nSt. Anna\n", "join", file, str(home))
    assert done.returncode == 0, done.stderr
    assert "aggregator south: South Foundation" in done.stdout
    assert "epsilon 1 and delta 1e-05 for a run" in done.stdout
    assert 'minimum_parties = 2; unit_column = ""' in done.stdout
    assert "yours to change" in done.stdout
    settings = read_node(home)
    assert isinstance(settings, PartyNode)
    assert settings.data[0].files == (Path(records),)
    assert read_holding(home / "schema.toml").units == 300
    again = typed("", "join", file, str(home), "--data", records, "--organisation", "x")
    assert (again.returncode, "nothing was written" in again.stderr) == (2, True)

    for name in ("lead", "north", "south", "hospital-b"):
        invited.accept(invited.begin(name))
    accepted = typed("", "accept", str(invited.study), str(home / "hospital-a.request"), "--number", "hospital-a=0000")
    assert (accepted.returncode, "nothing was signed" in accepted.stderr) == (2, True)
    (number,) = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("number")]
    told = typed(f"{number}\n", "accept", str(invited.study), str(home / "hospital-a.request"))
    assert told.returncode == 0, told.stderr
    assert "St. Anna" in told.stdout
    listed = invited.study / "cardio.members"
    members = Members.parse(listed.read_bytes())
    numbers = {name: members.number_of(node(name)) for name in ("north", "south", "hospital-a")}
    own = typed(f"{numbers['hospital-a']}\n{numbers['hospital-a']}\n", "join", str(listed), str(home))
    assert (own.returncode, "this is not the number that north must show" in own.stderr) == (2, True)
    assert numbers["north"] not in own.stdout
    silent = typed("", "join", str(listed), str(home), "--number", f"north={numbers['north']}")
    assert (silent.returncode, "give --number south=" in silent.stderr) == (2, True)
    right = typed(f"{numbers['north']}\n{numbers['south'].upper()}\n", "join", str(listed), str(home))
    assert right.returncode == 0, right.stderr
    trust.require(read_node(home))


def test_a_server_shows_its_number_before_it_asks(invited: Invited) -> None:
    """Else neither of the two could begin."""
    members = invited.everybody()
    listed = write_members(invited.study)
    words = ("join", str(listed), str(invited.homes / "north"))
    shown = typed("", *words)
    assert shown.returncode == 2
    assert f"number    {members.number_of(node('north'))}" in shown.stdout
    found = answer(typed("", *words, "--number", f"south={members.number_of(node('south'))}", "--json"))
    assert found["pinned"] == [node(name).uri for name in ("lead", "south", "hospital-a", "hospital-b")]


def test_files_for_somebody_else_are_refused(invited: Invited, tmp_path: Path) -> None:
    records = str(tmp_path / "records.csv")
    server = typed("", "join", str(invited.invitation_file("north")), str(tmp_path / "x"), "--data", records)
    assert (server.returncode, f"invitation is {Role.aggregator.with_article}'s" in server.stderr) == (2, True)
    begun = invited.begin("hospital-a")
    wrong = typed("", "join", str(begun.path))
    assert (wrong.returncode, "is a request, which goes to the lead: parley accept" in wrong.stderr) == (2, True)
    claimed = typed(
        "", "join", str(invited.invitation_file("south")), str(tmp_path / "x"), "--organisation", "Other Ltd"
    )
    assert (claimed.returncode, "ask the lead for another invitation" in claimed.stderr.replace("\n", " ")) == (2, True)
    assert not (tmp_path / "x").exists()
