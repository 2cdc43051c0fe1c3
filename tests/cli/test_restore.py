"""`parley restore`, where it refuses; what it does is tried among real processes."""

import json
from pathlib import Path

import pytest

from parley.node.backup import RESTORED
from parley.node.restoration import require_confirmed
from parley.node.reviewer_key import ReviewerKey
from parley.party.process import party_node
from parley.privacy.durable import replace_durably
from tests.support.command import parley
from tests.support.documents import PARTY_POLICY
from tests.support.typed_in import refused

PASSPHRASE = b"a long passphrase of one person"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "--account NODE"),
        (("backup", "node"), "--key"),
        (("--account", "nowhere", "--give-up"), "needs --by"),
    ],
)
def test_a_call_that_says_too_little_is_told_what_to_say(words: tuple[str, ...], says: str) -> None:
    assert says in refused("restore", *words)


def test_reviewers_confirm_a_restored_folder_by_command(party: Path, tmp_path: Path) -> None:
    keys = {}
    for name in ("ada", "ben"):
        keys[name] = ReviewerKey.make(tmp_path / f"{name}.key", PASSPHRASE, name)
    lines = "\n".join(each.line(name) for name, each in keys.items())
    table = f"\n[review]\napproval = 1\nlarger_cap = 2\npolicy = 1\ndays = 14\n[review.reviewers]\n{lines}\n"
    node = party_node(party)
    node.policy.write_text(PARTY_POLICY + table)
    node.state.mkdir(mode=0o700, exist_ok=True)
    replace_durably(node.state / RESTORED, '{"made": 1700000000, "at": 1700000001, "confirmed_by": ""}\n')
    assert "2 of its reviewers" in refused("restore", "--confirm", str(party), "--by", "Dr. Ada Osei")
    shown = parley("restore", "--confirm", str(party), "--json")
    found = json.loads(shown.stdout)
    assert (found["needed"], found["signatures"], found["confirmed_by"]) == (2, [], "")
    secret = tmp_path / "passphrase"
    secret.write_bytes(PASSPHRASE)
    secret.chmod(0o600)
    for name, so_far in (("ada", "1 of 2"), ("ben", "2 of 2")):
        words = ["--reviewer", name, "--key", str(tmp_path / f"{name}.key"), "--passphrase-file", str(secret)]
        assert "--digest" in refused("restore", "--confirm", str(party), *words)
        done = parley("restore", "--confirm", str(party), *words, "--digest", found["digest"])
        assert done.returncode == 0, done.stderr
        assert so_far in done.stdout
    assert "confirmed    pins and policy" in done.stdout
    require_confirmed(node)
