"""How every command speaks: progress on standard error, with `--json` one line of JSON last on standard output.

Exit codes: 0 done; 1 the command ran and its answer is bad news (a check failed, a verification found an edit);
2 the call or its input was wrong; 3 a peer or the network failed; 130 interrupted.
"""

import json
import sys
from typing import Any, NoReturn

from parley.errors import ParleyError

EXIT_BAD_NEWS = 1
EXIT_USAGE = 2
EXIT_PEER = 3


class CommandError(ParleyError):
    """A command cannot do what was asked."""


def progress(message: str) -> None:
    """Say what is going on, where it cannot be mistaken for the result."""
    print(message, file=sys.stderr, flush=True)


def emit_json(result: dict[str, Any]) -> None:
    """End standard output with one line of JSON."""
    print(json.dumps(result, allow_nan=False), flush=True)


def fail(message: str, code: int = EXIT_USAGE) -> NoReturn:
    """One line that says what is wrong and what to change; no stack trace."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(code)
