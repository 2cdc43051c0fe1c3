"""policy.toml: every field is required, and what is not understood is no policy."""

from pathlib import Path

import pytest

from parley.federation.errors import PolicyError
from parley.federation.names import Role
from parley.federation.policy_file import read_policy
from tests.support.policies import POLICIES, policy


@pytest.mark.parametrize("role", list(Role))
def test_a_policy_without_one_of_its_fields_or_with_another_is_none(tmp_path: Path, role: Role) -> None:
    lines = POLICIES[role][1].strip().splitlines()
    path = tmp_path / "policy.toml"
    for index, line in enumerate(lines):
        if line.startswith(("north", "south", "[")):
            continue
        path.write_text("\n".join(lines[:index] + lines[index + 1 :]))
        with pytest.raises(PolicyError, match="is missing") as caught:
            read_policy(path)
        assert caught.value.field == line.split()[0]
    path.write_text("surprise = 1\n" + "\n".join(lines))
    with pytest.raises(PolicyError, match=r"^surprise: is unknown"):
        read_policy(path)


def test_any_is_the_only_word_for_a_limit(tmp_path: Path) -> None:
    for figure in ('"none"', "0.0", "true", '""'):
        with pytest.raises(PolicyError, match="epsilon_if_a_server_lies_per_run"):
            policy(tmp_path, Role.party, ('per_run = "any"', f"per_run = {figure}"))


DEEP = "a." * 20_000 + "a"
TRICKS = {
    "a dotted name": f"{DEEP} = 1",
    "a table's name": f"[{'a.' * 200}a]",
    "in a table within a line": f"x = {{ {'a.' * 100}a = 1 }}",
    "after a text": f'x = {{ y = "#", {"a." * 100}a = 1 }}',
    "quoted parts": "x = { " + '"a".' * 100 + "a = 1 }",
    "after a text over several lines": f"x = {{ y = '''\n' ''', {'a.' * 100}a = '1' }}",
    "a file without end": "# x\n" * 100_000,
}


@pytest.mark.parametrize("trick", TRICKS)
def test_a_policy_that_would_fill_the_memory_of_its_reader_is_refused_before_it_is_read(
    tmp_path: Path, trick: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reads TOML holds every prefix of a dotted name: 40 kB of dots were gigabytes."""
    path = tmp_path / "policy.toml"
    path.write_text(TRICKS[trick])
    monkeypatch.setattr("parley.federation.files.tomllib.loads", lambda text: pytest.fail("it is read"))
    with pytest.raises(PolicyError):
        read_policy(path)


def test_dots_and_hashes_in_texts_and_comments_are_no_names(tmp_path: Path) -> None:
    text = POLICIES[Role.party][1].replace('"North Trust"', '"North # Trust, e.V. ' + "." * 100 + '"')
    path = tmp_path / "policy.toml"
    path.write_text("# don't " + "a." * 100 + "\n" + text)
    assert read_policy(path)
