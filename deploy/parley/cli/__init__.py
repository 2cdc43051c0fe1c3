"""The command line, certificates, the federation on one machine, images: imports every other folder, imported by
none.
"""

from parley.node import tls  # first of all, so that grpc is loaded with TLS 1.3 alone
