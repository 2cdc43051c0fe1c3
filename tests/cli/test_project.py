"""`parley init STUDY --parties`, and `parley invite`: names, hosts, sizes and one file name throughout."""

import os
from pathlib import Path

import pytest

from parley.cli import project
from parley.cli.console import CommandError
from parley.node.invitation import Invitation
from parley.node.membership import Plan
from parley.study.document import read
from tests.support.command import answer, typed

HOSTS = "lead=lead.example.org,north=10.0.0.7,south=[2001:db8::1]:9000"
WHO = ("--organisation", "lead=L", "--organisation", "north=N", "--organisation", "south=S")


@pytest.mark.parametrize(
    ("parties", "least"), [("a=300,b=200", 2), pytest.param("a=300,b=200,c=100,d=90", 4, marks=pytest.mark.slow)]
)
def test_a_study_of_those_parties_and_an_invitation_for_each(tmp_path: Path, parties: str, least: int) -> None:
    home = tmp_path / "heart"
    found = answer(typed("", "init", str(home), "--parties", parties, "--hosts", HOSTS, *WHO, "--json"))
    assert found["files"] == ["study.toml", "federation.toml", "README.md"]
    manifest = read(home / "study.toml").manifest()
    assert (manifest.minimum_parties, manifest.federation, manifest.run) == (least, "heart", "heart-1")
    assert [each.legal_entity for each in manifest.aggregators] == ["N", "S"]
    told = {each.name: {kind: str(at) for kind, at in each.addresses.items()} for each in Plan.read(home).members}
    assert told["lead"] == {"parties": "lead.example.org:7400"}
    assert told["north"] == {"share": "10.0.0.7:7401", "control": "10.0.0.7:7402"}
    assert told["south"] == {
        "share": "[2001:db8::1]:9000", "control": "[2001:db8::1]:9001", "peer": "[2001:db8::1]:9002",
    }  # fmt: skip
    made = answer(typed("", "invite", str(home), "--all", "--json"))
    assert len(made["invitations"]) == 3 + len(parties.split(","))
    invitation = Invitation.parse((home / "invitations" / "b.invitation").read_bytes())
    assert invitation.noise.body["cover"] == manifest.noise.cover
    assert "data" not in invitation.study.body
    assert typed("", "init", str(home), "--parties", parties, "--local").returncode == 2


def test_invite_refuses_strangers_and_a_study_that_names_others(tmp_path: Path) -> None:
    home = tmp_path / "heart"
    assert typed("", "init", str(home), "--parties", "a=300,b=200", "--local").returncode == 0
    stranger = typed("", "invite", str(home), "../../etc")
    assert (stranger.returncode, "is not among the members" in stranger.stderr) == (2, True)
    study = home / "study.toml"
    study.write_text(study.read_text().replace('name = "b"', 'name = "c"'))
    other = typed("", "invite", str(home), "a")
    assert (other.returncode, "study.toml names as party a, c, federation.toml a, b" in other.stderr) == (2, True)
    assert not (home / "authority").exists()
    assert not (home / "invitations").exists()


def test_the_authoritys_passphrase_is_read_from_what_is_piped_in(tmp_path: Path) -> None:
    home = tmp_path / "heart"
    assert typed("", "init", str(home), "--parties", "a=300,b=200", "--local").returncode == 0
    done = typed("a long passphrase\n", "invite", str(home), "a", "--passphrase-file", "-")
    assert (done.returncode, done.stderr.count("Warning")) == (0, 0), done.stderr
    assert b"ENCRYPTED" in (home / "authority" / "authority.key").read_bytes()
    assert (home / "authority" / "authority.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--parties", "a"), "fewer than two"),
        (("--local",), "say who has records"),
        (("--parties", "a,../b"), "use 1 to 63"),
        (("--parties", "a,a"), "has a twice"),
        (("--parties", "a=0,b"), "give its number of units"),
        (("--parties", "a=" + "9" * 5000 + ",b"), "give its number of units"),
        (("--parties", "a,north"), "every node a name of its own"),
        (("--parties", "a,b", "--hosts", "x=1"), "who takes no part"),
        (("--parties", "a,b", "--hosts", "lead=a/b", *WHO), "--hosts has no host of north, south"),
        (("--parties", "a,b", "--hosts", "lead=a/b,north=n,south=s", *WHO), "give host:port"),
        (("--parties", "a,b", "--hosts", HOSTS), "say who answers for it in law"),
        (("--parties", "a,b", "--local", "--federation", "No Such"), "cannot be the federation's name"),
        (("--parties", "a,b", "--local", "--organisation", "lead=\u202eevil"), "one line of text"),
    ],
)
def test_what_does_not_fit_is_said_and_nothing_is_written(
    tmp_path: Path,
    words: tuple[str, ...],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = typed("", "init", str(tmp_path / "new"), *words)
    assert (done.returncode, problem in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "new").exists()


def test_ports_of_a_trial_differ_or_follow_the_base() -> None:
    assert project._ports(6, 9000) == [9000, 9001, 9002, 9003, 9004, 9005]
    found = project._ports(6, None)
    assert len(set(found)) == 6
    with pytest.raises(CommandError, match="leaves no 6 ports"):
        project._ports(6, 65533)


def test_own_columns_come_from_a_schema(tmp_path: Path) -> None:
    project_home = tmp_path / "explained"
    assert typed("", "init", str(project_home)).returncode == 0
    home = tmp_path / "own"
    schema = str(project_home / "hospital-a" / "schema.toml")
    assert typed("", "init", str(home), "--parties", "a,b", "--local", "--schema", schema).returncode == 0
    features = read(home / "study.toml").schema.features
    assert isinstance(features, tuple)
    named = [each.name for each in features]
    assert named == ["age", "pressure", "pain"]
    assert os.stat(home).st_mode & 0o777 == 0o700
