"""Which parley this is: its version, and a digest of the code that runs. Standard library only."""

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

DISTRIBUTION = "parley-federation"
PACKAGES = ("coordinator", "deploy", "mpc", "parley", "party", "privacy")


def software_version() -> str:
    """Of the installed distribution."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"


@cache
def source_digest() -> str:
    """SHA-256, in hex, over name, length and content of every .py file of the installed packages, in order of names."""
    files: dict[str, Path] = {}
    for package in PACKAGES:
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            for path in Path(place).rglob("*.py"):
                files[f"{package}/{path.relative_to(place).as_posix()}"] = path
    digest = hashlib.sha256(b"parley source 1\n")
    for name in sorted(files):
        content = files[name].read_bytes()
        digest.update(f"{name}\n{len(content)}\n".encode() + content)
    return digest.hexdigest()
