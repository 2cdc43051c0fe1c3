"""Passphrases that are typed, piped in or kept in a file."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from parley.cli.passphrase import entered
from parley.federation.errors import KeyExposedError

ASK = [sys.executable, "-c", "from pathlib import Path; from parley.cli.passphrase import entered; "
       "print(entered(Path('-'), 'the key'))"]  # fmt: skip


def test_what_is_piped_in_is_read_without_a_prompt() -> None:
    done = subprocess.run(ASK, input=b"correct horse\nand no more\n", capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"b'correct horse'\n", b"")


def test_a_terminal_is_asked_and_shows_nothing_that_is_typed() -> None:
    ours, theirs = pty.openpty()
    own = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); " + ASK[2]
    command = [*ASK[:2], own]
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, start_new_session=True
    ) as asked:
        os.close(theirs)
        shown = b""
        while (
            b"passphrase of the key: " not in shown
        ):  # the last space comes once what is typed is no longer thrown away
            shown += os.read(ours, 1024)
        os.write(ours, b"battery\n")
        stdout, _ = asked.communicate()
    shown += os.read(ours, 1024)
    os.close(ours)
    assert stdout == b"b'battery'\n"
    assert b"battery" not in shown


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"staple\r\n")
    file.chmod(0o600)
    assert entered(file, "the key") == b"staple"
    file.chmod(0o644)
    with pytest.raises(KeyExposedError, match="chmod 600"):
        entered(file, "the key")
    assert entered(None, "the key") is None
