"""Where a passphrase comes from: a file of mode 600, the keyboard, or the first line of what is piped in."""

import sys
from pathlib import Path

import typer

from parley.node.credentials import read_private


def passphrase_of(path: Path | None, whose: str, confirm: bool = False) -> bytes:
    """Of a file; without one, or for -, it is asked for."""
    if path is not None and str(path) != "-":
        return read_private(path).rstrip(b"\r\n")
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n").encode()
    entered: str = typer.prompt(f"passphrase of {whose}", hide_input=True, confirmation_prompt=confirm, err=True)
    return entered.encode()
