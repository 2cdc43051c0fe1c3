"""Which parley this is: its version, and one SHA-256 over its source, the same for a clone and for what it installs.

    python -m parley.node.software          # what the images' label `parley.source-digest` says

Over name, length and content of every file of every room, in order of names; compiled kernels and bytecode do not
count.
"""

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

DISTRIBUTION = "parley-federation"
ROOMS = (
    *("errors", "v1", "privacy", "mpc", "federation", "node", "web", "learning", "party", "algorithms", "coordinator"),
    *("dashboard", "aggregator", "study", "research", "cli", "demo", "attacks", "bench"),
)
"""`parley` is a namespace, to which other distributions may add rooms of theirs: those are not this software."""
NOT_SOURCE = (".pyc", ".so")


def software_version() -> str:
    """Of the installed distribution."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"


def source_files() -> dict[str, Path]:
    """By name as installed, such as `parley/federation/names.py`."""
    found: dict[str, Path] = {}
    for room in ROOMS:
        spec = find_spec(f"parley.{room}")
        for place in (spec.submodule_search_locations or ()) if spec else ():
            for path in Path(place).rglob("*"):
                if path.is_file() and path.suffix not in NOT_SOURCE:
                    found[f"parley/{room}/{path.relative_to(place).as_posix()}"] = path
    return found


@cache
def source_digest() -> str:
    """In hexadecimal."""
    digest = hashlib.sha256(b"parley source 2\n")
    for name, path in sorted(source_files().items()):
        data = path.read_bytes()
        digest.update(f"{name}\n{len(data)}\n".encode() + data)
    return digest.hexdigest()


if __name__ == "__main__":
    print(source_digest())
