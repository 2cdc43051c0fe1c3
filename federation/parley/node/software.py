"""Which parley this is: its version, and one SHA-256 over its source, the same for a clone and for what it installs.

    python -m parley.node.software                     # of what is installed here
    python3 federation/parley/node/software.py party   # in a clone: what the label of that image says

Over name, length and content of every file of every room, in order of names; compiled kernels and bytecode do not
count. An image holds the rooms of `IMAGES` and no other, so its label is the digest over those.
"""

import hashlib
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

DISTRIBUTION = "parley-federation"
PARTY = (
    "errors",
    "v1",
    "privacy",
    "mpc",
    "federation",
    "node",
    "report",
    "learning",
    "models",
    "networks",
    "compute",
    "party",
    "cli",
)
SERVER = (*PARTY, "web", "algorithms", "aggregator", "coordinator", "dashboard", "tracking", "study")
IMAGES = {"party": PARTY, "server": SERVER, "demo": (*SERVER, "demo")}
"""The rooms of each image. Read by deploy/tools/image.py too, which takes all others out."""
ROOMS = (*SERVER, "page", "research", "demo", "attacks", "bench")
"""`parley` is a namespace, to which other distributions may add rooms of theirs: those are not this software."""
NOT_SOURCE = (".pyc", ".so")
HERE = Path(__file__).resolve()


def software_version() -> str:
    """Of the installed distribution."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"


def _houses() -> list[Path]:
    """The folders `parley` that hold the rooms: many in a clone, where this very file is used; one when installed."""
    clone = HERE.parents[3]
    if (clone / "pyproject.toml").is_file():
        return sorted(clone.glob("*/parley"))
    return [HERE.parents[1]]


def source_files(rooms: Iterable[str] = ROOMS) -> dict[str, Path]:
    """By name as installed, such as `parley/federation/names.py`; a room that is not here has none."""
    houses = _houses()
    # A file beside the rooms belongs to none of them, and Python runs a parley/__init__.py before all of them.
    found = {f"parley/{path.name}": path for house in houses for path in house.glob("*") if path.is_file()}
    for place in (house / room for house in houses for room in rooms):
        for path in place.rglob("*"):
            if path.is_file() and path.suffix not in NOT_SOURCE:
                found[f"parley/{path.relative_to(place.parent).as_posix()}"] = path
    return found


@cache
def source_digest(rooms: tuple[str, ...] = ROOMS) -> str:
    """In hexadecimal."""
    digest = hashlib.sha256(b"parley source 2\n")
    for name, path in sorted(source_files(rooms).items()):
        data = path.read_bytes()
        digest.update(f"{name}\n{len(data)}\n".encode() + data)
    return digest.hexdigest()


if __name__ == "__main__":
    print(source_digest(IMAGES[sys.argv[1]] if sys.argv[1:] else ROOMS))
