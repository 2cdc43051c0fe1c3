"""How every command speaks: progress on standard error, with `--json` one line of JSON last on standard output.

Exit codes: 0 done; 1 the command ran and its answer is bad news (a check failed, a verification found an edit);
2 the call or its input was wrong; 3 a peer or the network failed; 130 interrupted.
"""

import json
import os
import sys
from importlib import import_module
from typing import Any, NoReturn

from parley.errors import ParleyError
from parley.node.entry import EXIT_USAGE

EXIT_BAD_NEWS = 1


class CommandError(ParleyError):
    """A command cannot do what was asked."""


def become(module: str, *arguments: str) -> NoReturn:
    """Go on as a role's process, which holds nothing of the command line; its process id stays."""
    import_module(".".join(module.split(".")[:2]))  # its room, which an image may lack: said here, in one sentence
    sys.stdout.flush()
    sys.stderr.flush()
    isolated = ["-I"] if sys.flags.isolated else []
    os.execv(sys.executable, [sys.executable, "-P", *isolated, "-m", module, *arguments])


def progress(message: str) -> None:
    """Say what is going on, where it cannot be mistaken for the result."""
    print(message, file=sys.stderr, flush=True)


def emit_json(result: dict[str, Any]) -> None:
    """End standard output with one line of JSON."""
    print(json.dumps(result, allow_nan=False), flush=True)


def ask(question: str, otherwise: str) -> str:
    """One line from whoever sits there, or from what is piped in; `otherwise` is the option that says it."""
    print(f"{question}: ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        print(file=sys.stderr)
        raise CommandError(f"nobody answered: give {otherwise}")
    return line.strip()


def withdrawn(run: str, digest: bytes, consequence: str, json_output: bool, state: str | None = None) -> None:
    """Of either kind of node: what was taken back, and what follows from it. `state` is the run's, before."""
    if json_output:
        more = {} if state is None else {"state": state, "consequence": consequence}
        emit_json({"run": run, "digest": digest.hex(), "withdrawn": True, **more})
    else:
        print(f"withdrawn  {run}\n  {consequence}")


def fail(message: str, code: int = EXIT_USAGE) -> NoReturn:
    """One line that says what is wrong and what to change; no stack trace."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(code)
