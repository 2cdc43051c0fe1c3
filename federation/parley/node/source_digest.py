"""One SHA-256 over the source of this package, the same for a clone and for what is installed from it.

python parley.node.source_digest          # what the images' label `parley.source-digest` says

Over name and content of every file of the package, sorted by name; compiled kernels and bytecode do not count.
Standard library only.
"""

import hashlib
from pathlib import Path

PACKAGES = ("coordinator", "deploy", "mpc", "parley", "party", "privacy")
NOT_SOURCE = (".pyc", ".so")
NODES = "deploy/federation/"
"""Where a demonstration keeps keys."""


def source_files() -> dict[str, Path]:
    """By name as installed, such as `parley/federation/names.py`."""
    root = Path(__file__).parent.parent
    found: dict[str, Path] = {}
    for package in PACKAGES:
        folder = root / package
        if not folder.is_dir():
            folder = root / "proto" / package
        for path in folder.rglob("*"):
            name = f"{package}/{path.relative_to(folder).as_posix()}"
            if path.is_file() and path.suffix not in NOT_SOURCE and not name.startswith(NODES):
                found[name] = path
    return found


def source_digest() -> str:
    """In hexadecimal."""
    digest = hashlib.sha256()
    for name, path in sorted(source_files().items()):
        data = path.read_bytes()
        digest.update(f"{len(name)} {name} {len(data)} ".encode() + data)
    return digest.hexdigest()


if __name__ == "__main__":
    print(source_digest())
