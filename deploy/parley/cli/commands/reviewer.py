"""`parley reviewer`: the key of a person who has a say in what a party does.

    parley reviewer key -o ada.key --name ada-osei         # asks for a passphrase
    parley reviewer show ada.key                           # the line for [review.reviewers] of policy.toml

The file stays with its owner. What it signs: `parley party approve`, `refuse` and `policy`.
"""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.console import emit_json
from parley.cli.options import Json, PassphraseFile
from parley.cli.passphrase import required
from parley.node.reviewer_key import ReviewerKey

app = typer.Typer(help="Make a key for a person who approves runs and policies.", no_args_is_help=True)


@app.command()
def key(
    out: Annotated[Path, typer.Option("--out", "-o", help="The new key file; none is ever replaced.")],
    name: Annotated[str, typer.Option(help="As the policy is to call its owner, such as ada-osei.")],
    passphrase_file: PassphraseFile = None,
    json_output: Json = False,
) -> None:
    """Make a key under a passphrase, and print the line that makes its owner a reviewer.

    Keep the file where only its owner can use it. Who has both file and passphrase signs as this person.

    Example: parley reviewer key -o ada.key --name ada-osei
    """
    passphrase = required(passphrase_file, "the new key", confirm=True)
    _show(ReviewerKey.make(out, passphrase, name), json_output)


@app.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The key file.")],
    passphrase_file: PassphraseFile = None,
    json_output: Json = False,
) -> None:
    """Print the line for [review.reviewers] of policy.toml.

    Example: parley reviewer show ada.key
    """
    _show(ReviewerKey.load(file, required(passphrase_file, file.name)), json_output)


def _show(found: ReviewerKey, json_output: bool) -> None:
    line = found.line()
    if json_output:
        emit_json({"name": found.name, "key": found.public.hex(), "line": line})
    else:
        print(line)
