"""`parley backup`, where it refuses; what it does is tried among real processes."""

from pathlib import Path

from typer.testing import CliRunner

from parley.cli.main import app
from parley.node.backup_key import BackupError
from tests.support.typed_in import refused

RUNNER = CliRunner()


def test_a_key_is_made_once_and_printed_as_what_to_is_given(tmp_path: Path) -> None:
    phrase = tmp_path / "phrase"
    phrase.touch(0o600)
    phrase.write_text("correct horse battery\n")
    words = ["backup", "key", "-o", str(tmp_path / "k"), "--passphrase-file", str(phrase)]
    done = RUNNER.invoke(app, words)
    assert done.exit_code == 0
    assert "--to parley-backup-" in done.stdout
    assert "never replaced" in refused(*words)


def test_a_backup_to_nobody_is_refused(tmp_path: Path) -> None:
    assert "parley backup key" in refused("backup", str(tmp_path), "-o", str(tmp_path / "b"))


def test_the_errors_are_those_that_main_turns_into_a_line() -> None:
    from parley.errors import ParleyError

    assert issubclass(BackupError, ParleyError)
