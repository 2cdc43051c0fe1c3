"""The one strict reader of files that people write."""

import os
from pathlib import Path

import pytest

from parley.federation.files import endless, toml_file, toml_table


class WrongError(Exception):
    """The caller's own."""


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a = ", "is not TOML, correct the syntax"),
        (b'a = "\xff"', "is not TOML, correct the syntax"),
        (b"a = " + b"9" * 5000, "is not TOML, correct the syntax"),
        (b"a = " + b"[" * 5000, "is nested too deep"),
        (b"#" * 1025, "is over 1 KiB: shorten it"),
        (None, "cannot be read .*: write it"),
    ],
)
def test_what_a_file_must_not_hold_is_refused_in_the_callers_words(
    tmp_path: Path, data: bytes | None, reason: str
) -> None:
    path = tmp_path / "node.toml"
    if data is not None:
        path.write_bytes(data)
    most = 1 << 10 if data is None or data.startswith(b"#") else 1 << 16
    with pytest.raises(WrongError, match=reason):
        toml_file(path, WrongError, "write it", most)


LONG = "a." * 20_000 + "a"
BOMBS = {
    "a name": f"{LONG} = 1",
    "a table": f"[{LONG}]",
    "in a table within a line": f"x = {{ {LONG} = 1 }}",
    "quoted parts": '"a".' * 20_000 + "a = 1",
    "spaces between": "a . " * 20_000 + "a = 1",
    "after texts over several lines": f"""x = '''\n' '' " '''\ny = \"\"\"\\\"\"\" # \"\"\"\"\n{LONG} = 1""",
    "after a quote in a comment": f"x = 1 # don't '''\n{LONG} = 1",
    "after a literal that ends in a backslash": f"x = {{ y = '\\', {LONG} = '1' }}",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_long_dotted_name_is_refused_before_it_is_read(bomb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """40 KB of it were 1.6 GB, in whatever the mail brings."""
    monkeypatch.setattr("parley.federation.files.tomllib.loads", lambda text: pytest.fail("it is read"))
    with pytest.raises(WrongError, match="has a name with over 16 dots"):
        toml_table(BOMBS[bomb].encode(), WrongError)


def test_dots_in_texts_comments_and_lists_of_numbers_are_no_names() -> None:
    dots, numbers = "a." * 200, "1.5, " * 200
    text = f"""a.b.c = "{dots}\\" {dots}" # ' {dots}
[x]
cuts = [{numbers}]
one = '{dots}\\'
several = '''\n{dots} " '' {dots}'''''
more = \"\"\"{dots}\\\"\"\" {dots} \"\"\"\"
end = 1
"""
    found = toml_table(text.encode(), WrongError)
    assert found["a"]["b"]["c"] == f'{dots}" {dots}'
    assert len(found["x"]["cuts"]) == 200
    assert found["x"]["several"] == f"{dots} \" '' {dots}''"
    assert found["x"]["more"] == f'{dots}""" {dots} "'
    assert found["x"]["end"] == 1


def test_what_does_not_fit_into_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: str) -> None:
        raise MemoryError

    monkeypatch.setattr("parley.federation.files.tomllib.loads", full)
    with pytest.raises(WrongError, match="does not fit into this machine's memory"):
        toml_table(b"a = 1", WrongError)


def test_a_file_is_its_table(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text('role = "party"\n[data]\nfiles = ["a"]\n')
    assert toml_file(path, WrongError) == {"role": "party", "data": {"files": ["a"]}}


def test_a_pipe_or_a_device_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(WrongError, match="is no regular file: give one"):
            toml_file(path, WrongError)
        assert endless(path)
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    assert endless(tmp_path / "link")
    assert not any(endless(path) for path in (tmp_path, tmp_path / "none", Path(__file__)))
