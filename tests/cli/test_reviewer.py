"""`parley reviewer`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parley.cli.commands.reviewer import app
from parley.federation.errors import CertificateError


def test_a_key_is_made_and_its_line_is_what_a_policy_takes(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text("correct horse battery\n")
    path = str(tmp_path / "ada.key")
    options = ["--passphrase-file", str(secret)]
    made = CliRunner().invoke(app, ["key", "-o", path, "--name", "ada-osei", *options])
    assert made.exit_code == 0
    assert made.output.startswith('ada-osei = "0')
    shown = CliRunner().invoke(app, ["show", path, *options])
    assert shown.output == made.output
    body = json.loads(CliRunner().invoke(app, ["show", path, *options, "--json"]).output)
    assert (body["name"], body["line"]) == ("ada-osei", made.output.strip())
    piped = CliRunner().invoke(app, ["show", path], input="correct horse battery\n")
    assert piped.output == made.output  # what is piped in is no prompt
    wrong = CliRunner().invoke(app, ["show", path], input="another one\n")
    assert isinstance(wrong.exception, CertificateError)


def test_a_passphrase_that_others_may_read_is_none(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("correct horse battery")
    secret.chmod(0o644)
    options = ["--name", "ada", "--passphrase-file", str(secret)]
    done = CliRunner().invoke(app, ["key", "-o", str(tmp_path / "ada.key"), *options])
    assert "mode 644" in str(done.exception)
    assert not (tmp_path / "ada.key").exists()
    with pytest.raises(CertificateError):
        raise done.exception or AssertionError
