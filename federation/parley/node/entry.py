"""How every process of ours ends: an expected error is one line and a documented exit code, a defect is a stack trace.

Exit codes: 0 done; 1 the command ran and its answer is bad news (a check failed, a verification found an edit);
2 the call or its input was wrong; 3 a peer or the network failed; 130 interrupted.
"""

import sys
from collections.abc import Callable

from parley.errors import ParleyError
from parley.federation.errors import PeerRefusedError
from parley.federation.extras import missing
from parley.mpc.errors import PeerError

EXIT_USAGE = 2
EXIT_PEER = 3


def enter(run: Callable[[], object]) -> None:
    """Run it, and turn an error that a user can mend into one line on standard error."""
    try:
        run()
    except (PeerError, PeerRefusedError) as error:
        _end(str(error), EXIT_PEER)
    except ParleyError as error:
        _end(str(error), EXIT_USAGE)
    except ImportError as error:
        wanted = missing(error)
        if wanted is None:
            raise
        _end(wanted, EXIT_USAGE)


def _end(what: str, code: int) -> None:
    print(f"error: {what}", file=sys.stderr)
    raise SystemExit(code) from None
