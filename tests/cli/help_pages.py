"""Every `--help` of the command line, as a person sees it 100 columns wide.

python -m tests.cli.help_pages        # rewrite tests/cli/help/ after a change that was meant
"""

from collections.abc import Iterator
from pathlib import Path

import typer
from typer.testing import CliRunner

from parley.cli.main import NAMES, app, command_of

FOLDER = Path(__file__).with_name("help")
ENVIRONMENT = {"COLUMNS": "100", "NO_COLOR": "1", "FORCE_COLOR": None, "GITHUB_ACTIONS": None, "TERMINAL_WIDTH": None}


def single_commands() -> Iterator[tuple[str, ...]]:
    """The words of every command that does something."""
    for name in NAMES:
        command = command_of(name)
        if not isinstance(command, typer.Typer):
            yield (name,)
            continue
        for info in command.registered_commands:
            assert info.callback is not None
            yield (name, info.name or info.callback.__name__)


def all_commands() -> list[tuple[str, ...]]:
    """With the groups, and `parley` itself."""
    words = list(single_commands())
    return sorted({(), *words, *(each[:1] for each in words)})


def help_of(words: tuple[str, ...]) -> str:
    done = CliRunner().invoke(app, [*words, "--help"], prog_name="parley", env=ENVIRONMENT)
    assert done.exit_code == 0, done.output
    return "\n".join(line.rstrip() for line in done.output.splitlines()).strip("\n") + "\n"


def page_of(words: tuple[str, ...]) -> Path:
    return FOLDER / f"{'-'.join(('parley', *words))}.txt"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for page in FOLDER.glob("*.txt"):
        page.unlink()
    for words in all_commands():
        page_of(words).write_text(help_of(words), encoding="utf-8")


if __name__ == "__main__":
    main()
