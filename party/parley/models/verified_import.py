"""Imports a package from the very bytes that its digest is of, and from nothing else.

Between a look at a file and Python's own reading of it somebody may write it, and what Python imports by itself may
come from `__pycache__`, which no digest covers. So the sources that were hashed are compiled here, from memory; a
module of the package that is not among them is not found, whatever lies in its folder.
"""

import importlib
import importlib.abc
import importlib.util
import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec as Found
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from parley.learning.errors import ModelError
from parley.models.package_files import PackageFiles

LONGEST_SAID = 300
_LOCK = threading.RLock()
_OPEN: dict[str, "_Finder"] = {}


class _Loader(SourceFileLoader):
    """One module of the package; its other files are read where they lie, and hashed once more afterwards."""

    def __init__(self, name: str, path: str, source: bytes, files: PackageFiles) -> None:
        super().__init__(name, path)
        self._source, self._files = source, files

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self._source, self.path, "exec", dont_inherit=True)
        return code

    def get_data(self, path: str) -> bytes:
        place = Path(path)
        if place.is_relative_to(self._files.folder):
            kept = self._files.sources.get(place.relative_to(self._files.folder).as_posix())
            if kept is not None:
                return kept
        return super().get_data(path)

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        """Writes no compiled file."""


class _Finder(importlib.abc.MetaPathFinder):
    """The only one that finds modules of the package."""

    of_verified_bytes = True

    def __init__(self, files: PackageFiles) -> None:
        self.files = files

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Found | None:
        name = self.files.name
        if fullname != name and not fullname.startswith(f"{name}."):
            return None
        found = self.files.source_of(fullname)
        if found is None:
            raise ModuleNotFoundError(f"{name} has no Python source of a module {fullname}", name=fullname)
        short, package = found
        place = str(self.files.folder / short)
        loader = _Loader(fullname, place, self.files.sources[short], self.files)
        within = [str(Path(place).parent)] if package else None
        return importlib.util.spec_from_file_location(fullname, place, loader=loader, submodule_search_locations=within)


def imported(files: PackageFiles, kind: str) -> Any:
    """What `torch:module:function` names, of a package's verified bytes; a ModelError says what went wrong in it."""
    module, function = kind.split(":")[1:]
    files.require_within(module)
    with _LOCK:
        _open(files)
        try:
            found = getattr(importlib.import_module(module), function, None)
        except (Exception, SystemExit) as error:
            _close(files.name)
            raise ModelError(f"{module} cannot be imported: {said(error)}") from error
    if not callable(found):
        raise ModelError(f"{module} has no function {function}: name one that it has")
    return found


def said(error: BaseException) -> str:
    """An error of somebody's code in one line."""
    text = " ".join(str(error).split())
    text = text if len(text) <= LONGEST_SAID else text[: LONGEST_SAID - 3] + "..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _open(files: PackageFiles) -> None:
    """From now on these bytes are the package. What was imported of other bytes is forgotten."""
    now = _OPEN.get(files.name)
    if now is not None and now.files == files and now in sys.meta_path:
        return
    _close(files.name)
    _OPEN[files.name] = finder = _Finder(files)
    sys.meta_path.insert(0, finder)


def _close(name: str) -> None:
    finder = _OPEN.pop(name, None)
    if finder in sys.meta_path:
        sys.meta_path.remove(finder)
    for each in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        del sys.modules[each]
