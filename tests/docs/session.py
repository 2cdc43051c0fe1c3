"""Runs a page's blocks, which it reads as JSON: see tests/docs/blocks.py. Stops at the first that goes wrong."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import tomllib
import traceback
from pathlib import Path
from typing import Any


class Session:
    """One reader: a Python session, a shell's folder and path, and what was printed last."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__page__"}
        self.printed = ""

    def python(self, block: dict[str, Any]) -> bool:
        said = io.StringIO()
        code = "\n" * block["line"] + block["source"]  # so that a traceback has the page's lines
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                exec(compile(code, block["page"], "exec"), self.names)
                well = True
            except (Exception, SystemExit):
                traceback.print_exc()
                well = False
        self.printed = said.getvalue()
        return well

    def sh(self, block: dict[str, Any]) -> bool:
        with tempfile.NamedTemporaryFile("r") as after:
            script = f'{block["source"]}\nprintf "%s\\n%s" "$PWD" "$PATH" > {after.name}\n'
            done = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            self.printed = done.stdout
            if done.returncode == 0:
                folder, os.environ["PATH"] = after.read().split("\n", 1)
                os.chdir(folder)
        return done.returncode == 0

    def missing_line(self, wanted: str) -> str | None:
        """The first of the wanted lines that was not printed, after those before it."""
        at = 0
        for line in filter(None, (line.strip() for line in wanted.splitlines())):
            for part in filter(None, (part.strip() for part in line.split("…"))):
                if (found := self.printed.find(part, at)) < 0:
                    return line
                at = found + len(part)
        return None

    def problem(self, block: dict[str, Any]) -> str | None:
        language, word, about = block["language"], block["word"], block["about"]
        if word == "saved as":
            Path(about).write_text(block["source"])
        if language == "toml":
            tomllib.loads(block["source"])
        elif language == "json":
            json.loads(block["source"])
        if word == "prints" and (line := self.missing_line(block["source"])):
            return f"was not printed: {line!r}; but:\n{self.printed[-4000:]}"
        if language not in ("python", "sh"):
            return None
        well = self.python(block) if language == "python" else self.sh(block)
        if word == "fails":
            return None if not well and about in self.printed else f"did not fail as it should: {self.printed[-4000:]}"
        return None if well else self.printed[-4000:]


def main() -> int:
    session = Session()
    for block in json.load(sys.stdin):
        try:
            problem = session.problem(block)
        except ValueError as error:
            problem = str(error)
        if problem is not None:
            print(f"{block['page']}:{block['line']}: {problem}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
