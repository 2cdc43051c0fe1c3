"""The files of an installed package, read and hashed without importing it.

A name is looked up as Python would, except that nothing of it is run: `a.b.c` is of the first regular package (a folder
with `__init__.py`) on its way, or of the module file where there is none. All of that package's files count, whatever
they are called, but `__pycache__`: Python writes those, and nothing here reads one.
"""

import hashlib
import os
import stat
import sys
from dataclasses import dataclass, field
from functools import cached_property
from importlib.machinery import ModuleSpec as Found
from pathlib import Path

from parley.learning.errors import ModelError

CACHE = "__pycache__"
MOST_FILES = 20_000
MOST_BYTES = 8 << 30
"""Of a package, frozen weights among them."""
LONGEST_SOURCE = 64 << 20
PIECE = 1 << 20


@dataclass(frozen=True)
class PackageFiles:
    """One package's files as they were when they were read; its sources are kept, of others the hash."""

    name: str
    """Dotted, of the first regular package or module on the way."""
    folder: Path
    """What the files' names are relative to."""
    is_package: bool
    files: tuple[tuple[str, int, str], ...]
    """Name with slashes, length, SHA-256 in hex; sorted by name."""
    sources: dict[str, bytes] = field(repr=False, compare=False)
    """The exact bytes of each .py file."""

    @classmethod
    def find(cls, dotted: str) -> "PackageFiles":
        """Of the package that this module is of; a ModelError says what to install."""
        name, origin, is_package = _root(dotted)
        folder = origin.parent
        try:
            return _read(name, folder, is_package, _files_below(folder) if is_package else [origin])
        except OSError as error:
            raise ModelError(
                f"the package {name} cannot be read: {error.strerror}: install it so that this process may read it"
            ) from None

    @cached_property
    def canonical(self) -> bytes:
        """Every file's name, length and hash, in one spelling."""
        lines = [f"{self.name} {'package' if self.is_package else 'module'} {len(self.files)}"]
        lines += [f"{digest} {length} {len(name.encode())} {name}" for name, length, digest in self.files]
        return "\n".join(lines).encode() + b"\n"

    def require_within(self, dotted: str) -> None:
        """Refuses a module that these files are not of."""
        if not f"{dotted}.".startswith(f"{self.name}."):
            raise ModelError(f"{dotted} is not of the package {self.name}: keep module and loss in one package")

    def require_same(self) -> None:
        """Refuses if the files are no longer what was read."""
        if PackageFiles.find(self.name).files != self.files:
            raise ModelError(
                f"the files of {self.name} changed while they were in use: install it once more, and retry"
            )

    def source_of(self, dotted: str) -> tuple[str, bool] | None:
        """The file of a module of this package and whether it is a package; None where there is none."""
        if dotted == self.name:
            return self.files[0][0] if not self.is_package else "__init__.py", self.is_package
        if not self.is_package or not dotted.startswith(f"{self.name}."):
            return None
        way = dotted[len(self.name) + 1 :].replace(".", "/")
        for found, package in ((f"{way}/__init__.py", True), (f"{way}.py", False)):
            if found in self.sources:
                return found, package
        return None


def _root(dotted: str) -> tuple[str, Path, bool]:
    """The first regular package or module on the way: its dotted name, its file, and whether it is a package."""
    path, parts = None, dotted.split(".")
    for count in range(1, len(parts) + 1):
        name = ".".join(parts[:count])
        found = _found(name, path)
        if found is None:
            raise ModelError(f"there is no module {name} here: install the package that has it, in this environment")
        if found.loader is None or found.origin is None:  # a namespace, which runs nothing
            path = list(found.submodule_search_locations or ())
            continue
        origin = Path(found.origin)
        if origin.suffix != ".py" or not origin.is_file():
            raise ModelError(
                f"{name} is not a package of Python files: install it as one, not compiled and not in a zip"
            )
        is_package = found.submodule_search_locations is not None
        if is_package != (origin.name == "__init__.py"):
            raise ModelError(f"{name} is not laid out as a package with an __init__.py: install it as one")
        if not is_package and count < len(parts):
            raise ModelError(f"{name} is a module and no package: write torch:{name}:function")
        return name, origin, is_package
    raise ModelError(f"{dotted} is a folder without __init__.py: add one to it, or name a module in it")


def _found(name: str, path: list[str] | None) -> Found | None:
    """As `import` would look for it; what parley itself put there to import verified bytes is not asked."""
    for finder in sys.meta_path:
        if getattr(finder, "of_verified_bytes", False):
            continue
        find_spec = getattr(finder, "find_spec", None)
        found = find_spec(name, path) if find_spec is not None else None
        if found is not None:
            return found  # type: ignore[no-any-return]
    return None


def _files_below(folder: Path) -> list[Path]:
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if each != CACHE)
        for each in folders:
            if (Path(place) / each).is_symlink():
                raise ModelError(f"{Path(place) / each} is a link to a folder: put a copy of the folder there")
        found += [Path(place) / each for each in names]
        if len(found) > MOST_FILES:
            raise ModelError(f"the package in {folder} has over {MOST_FILES:,} files: keep the model in a smaller one")
    return found


def _read(name: str, folder: Path, is_package: bool, paths: list[Path]) -> PackageFiles:
    files, sources, total = [], {}, 0
    for path in paths:
        short = path.relative_to(folder).as_posix()
        if not short.isprintable():
            raise ModelError(f"the package {name} has a file with an odd name: {short!r}: rename it")
        length, digest, content = _hashed(path)
        total += length
        if total > MOST_BYTES:
            raise ModelError(f"the package {name} has more than 8 GiB: keep the model in a smaller one")
        files.append((short, length, digest))
        if content is not None:
            sources[short] = content
    return PackageFiles(name, folder, is_package, tuple(sorted(files)), sources)


def _hashed(path: Path) -> tuple[int, str, bytes | None]:
    """Length, hash and, of a source, content: all of one reading."""
    # Without O_NONBLOCK a pipe that somebody put there would be waited for.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ModelError(f"{path} is no file: take it out of the package")
        kept = path.suffix == ".py"
        length, digest, pieces = 0, hashlib.sha256(), []
        while piece := file.read(PIECE):
            length += len(piece)
            digest.update(piece)
            if kept:
                if length > LONGEST_SOURCE:
                    raise ModelError(f"{path} is too long for a source: shorten it")
                pieces.append(piece)
    return length, digest.hexdigest(), b"".join(pieces) if kept else None
