"""What all roles agree on: identities, the manifest, the policies that admit it, and how peers are recognised.

Beside the wire itself, because it needs both halves of the core, the lattice and the noise's law from `mpc` and the
mechanism and the accountants from `privacy`, which may not import each other, and because party, coordinator and
aggregators use it alike. Imports `mpc` and `privacy` only; `party`, `coordinator` and `deploy` may import it.

Importing it makes TLS 1.2 impossible in this process, see `tls`; import it before grpc.
"""

from parley.node import tls
