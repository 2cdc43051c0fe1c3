"""The command line: one file each command, and the console that they share."""

from parley.node import tls  # noqa: F401  first of all, so that grpc is loaded with TLS 1.3 alone
