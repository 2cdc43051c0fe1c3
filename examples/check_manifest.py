"""Compute a run's ε yourself before anybody admits it, from its manifest alone.

    parley manifest draft examples/own-data/study.toml -o manifest.toml
    python examples/check_manifest.py manifest.toml

Every node of a federation does this on its own; none believes the figure that the manifest claims.
"""

import sys
from pathlib import Path

from parley.federation.manifest import read_manifest
from parley.federation.meaning import verify

manifest = read_manifest(Path(sys.argv[1]))
meaning = verify(manifest)
print(f"manifest {manifest.digest.hex()}")
print(f"claimed:  epsilon {manifest.guarantee.epsilon:g} at delta {manifest.guarantee.delta:g}")
print(f"computed: epsilon {meaning.epsilon:.6g} at delta {meaning.delta:g}")
lying = meaning.epsilon_if_a_server_lies
print("if one server lies:", "no guarantee" if lying is None else f"epsilon {lying:.4g}")
