"""Being a node: identity and pins, TLS, who may call what, logs, trail, health, the node's file.

Importing it makes TLS 1.2 impossible in this process, see `tls`; import it before grpc.
"""

from parley.node import tls  # noqa: F401
