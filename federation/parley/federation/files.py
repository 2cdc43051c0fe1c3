"""Files that people write, read strictly: bounded, and TOML, or one line in the caller's words that says what to mend.

`problem` makes the caller's error of what is wrong.
"""

import re
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST_BYTES = 1 << 20
MOST_DOTS = 16
"""In one name: what reads TOML takes memory and time by the square of the number of its parts."""
QUOTED = re.compile(
    # As TOML has them, each in one go: what is not closed is an error there, and nothing behind it is read.
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5}|\Z)'
    r"|'''(?:[^']|'(?!''))*+(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\[^\n])*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
BETWEEN_NAMES = re.compile(r"[=,\[\]{}\n]")
Problem = Callable[[str], Exception]


def endless(path: Path) -> bool:
    """Whether it is a device, a pipe or a socket: what reads it may wait for ever, or never come to its end."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False  # whoever opens it says why
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def file_bytes(
    path: Path, problem: Problem, missing: str = "", most_bytes: int = MOST_BYTES, too_long: str = ": shorten it"
) -> bytes:
    """All of it; `missing` is what helps where it cannot be read."""
    if endless(path):
        raise problem("is no regular file: give one")
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise problem(f"cannot be read ({error.strerror})" + (f": {missing}" if missing else "")) from None
    if len(data) > most_bytes:
        most = f"{most_bytes >> 20} MiB" if most_bytes >= 1 << 20 else f"{most_bytes >> 10} KiB"
        raise problem(f"is over {most}{too_long}")
    return data


def toml_table(data: bytes, problem: Problem) -> dict[str, Any]:
    """Whatever stands in it: a number of thousands of digits is a ValueError of its own."""
    try:
        text = data.decode()
        _require_short_names(text, problem)
        return tomllib.loads(text)
    except RecursionError:
        raise problem("is nested too deep: flatten it") from None
    except MemoryError:
        raise problem("does not fit into this machine's memory: shorten it") from None
    except ValueError as error:
        raise problem(f"is not TOML, correct the syntax: {error}") from None


def _require_short_names(text: str, problem: Problem) -> None:
    """Before it is read: 40 KB of one dotted name were gigabytes. Dots in texts and comments are no names."""
    for name in BETWEEN_NAMES.split(QUOTED.sub("", text)):
        if name.count(".") > MOST_DOTS:
            raise problem(f"has a name with over {MOST_DOTS} dots ({name.strip()[:40]!r}): use tables")


def toml_file(path: Path, problem: Problem, missing: str = "", most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """A file's table."""
    return toml_table(file_bytes(path, problem, missing, most_bytes), problem)
