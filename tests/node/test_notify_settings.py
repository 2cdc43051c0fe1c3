"""[notify] of node.toml: the operator's alone, one address or one program, nothing that a stranger could bend."""

from pathlib import Path

import pytest

from parley.node.errors import NodeFileError
from parley.node.node_file import Node, read_node
from parley.node.notify_settings import NotifySettings

NODE = 'role = "coordinator"\nlisten = "127.0.0.1:0"\n[aggregators]\nnorth = "a:1"\nsouth = "b:1"\n'


def read(folder: Path, lines: str) -> Node:
    path = folder / "node.toml"
    path.write_text(f"{NODE}[notify]\n{lines}\n")
    path.chmod(0o600)
    return read_node(folder)


def test_an_address_or_a_command(tmp_path: Path) -> None:
    url = "https://chat.example.org/hooks/8d1c?x=1"
    found = read(tmp_path, f'url = "{url}"').notify
    assert found == NotifySettings(url=url)
    assert "8d1c" not in repr(found), "an address may be a secret"
    assert read(tmp_path, 'url = "http://127.0.0.1:8000/x"').notify is not None
    found = read(tmp_path, 'command = ["/usr/bin/tell", "$(id)", "-v", "-v"]').notify
    assert found == NotifySettings(command=("/usr/bin/tell", "$(id)", "-v", "-v"))
    (tmp_path / "node.toml").write_text(NODE)
    assert read_node(tmp_path).notify is None


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "give one of the two"),
        ('url = "https://a.example"\ncommand = ["/bin/true"]', "give one of the two"),
        ('url = "http://chat.example.org/x"', "is without TLS"),
        ('url = "file:///etc/passwd"', "is no address"),
        ('url = "https:///x"', "is no address"),
        ('url = "https://a.example/x y"', "is no address"),
        ('url = "https://ä.example/x"', "is no address"),
        ('url = "https://a.example:99999/"', "is no address"),
        ('url = "https://user:s3cr3t@a.example/"', "leave them out"),
        ('url = "https://a.example/#part"', "leave them out"),
        ('command = "/bin/true"', "give a list of texts"),
        ("command = []", "give a list of texts"),
        ('command = ["tell"]', "give the whole path of a program"),
        ('command = ["./tell"]', "give the whole path of a program"),
        ('command = ["/bin/tell", "a\\nb"]', "cannot be printed in one line"),
        ('command = ["/bin/tell"]\nshell = true', "shell"),
    ],
)
def test_what_is_refused(tmp_path: Path, lines: str, said: str) -> None:
    with pytest.raises(NodeFileError) as caught:
        read(tmp_path, lines)
    assert said in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


def test_a_file_that_others_may_write_starts_no_program_of_theirs(tmp_path: Path) -> None:
    read(tmp_path, 'command = ["/bin/true"]')
    for mode in (0o620, 0o602):
        (tmp_path / "node.toml").chmod(mode)
        with pytest.raises(NodeFileError, match="others may write this file: chmod go-w"):
            read_node(tmp_path)
