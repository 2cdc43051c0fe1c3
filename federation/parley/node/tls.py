"""TLS 1.3 and nothing older. Standard library only, for it has to run before grpc is loaded.

gRPC for Python offers no option for the version. It does let TLS 1.2's cipher suites be named, by an environment
variable that it reads once, when it is loaded; a suite for RSA keys can never be agreed on, because every certificate
of a federation has an elliptic-curve key. TLS 1.3's suites are not affected.

Its C core also writes lines of its own to standard error, past the redaction of `logs` and not as JSON; they are off
unless the operator sets GRPC_VERBOSITY.
"""

import os
import sys

from parley.federation.errors import FederationError

VARIABLE = "GRPC_SSL_CIPHER_SUITES"
UNUSABLE_SUITE = "ECDHE-RSA-AES128-GCM-SHA256"

_in_time = "grpc" not in sys.modules or os.environ.get(VARIABLE) == UNUSABLE_SUITE
os.environ[VARIABLE] = UNUSABLE_SUITE
os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def require() -> None:
    """Raise if grpc was loaded before this module, and so may speak TLS 1.2."""
    if not _in_time:
        raise FederationError("grpc was loaded before parley.node, so TLS 1.2 is not ruled out: import that first")
