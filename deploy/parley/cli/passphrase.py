"""Passphrases of keys: from a file, from a prompt, or piped in."""

import sys
from pathlib import Path

import typer

from parley.node.credentials import read_private

LONGEST = 4096


def entered(path: Path | None, whose: str, confirm: bool = False) -> bytes | None:
    """What the file says, whose mode must be 600; for `-` what is typed, or piped in where there is no terminal."""
    if path is None:
        return None
    if str(path) != "-":
        return read_private(path).rstrip(b"\r\n")
    if not sys.stdin.isatty():
        return sys.stdin.buffer.readline(LONGEST).rstrip(b"\r\n")
    typed: str = typer.prompt(f"passphrase of {whose}", hide_input=True, confirmation_prompt=confirm, err=True)
    return typed.encode()


def required(path: Path | None, whose: str, confirm: bool = False) -> bytes:
    """Of a key that always has one: it is asked for where no file is given."""
    return entered(path or Path("-"), whose, confirm) or b""
