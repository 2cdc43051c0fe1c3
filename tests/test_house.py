"""The rooms: who may import whom, in one table, and the few rules of a room that a reader cannot see at a glance.

Every import counts, wherever it stands: in a function, under TYPE_CHECKING, by a name that is given as a string.
A process is no import: who starts another room's process by the name of its module holds nothing of it.
"""

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.node.software import ROOMS

ROOT = Path(__file__).parents[1]
TABLE = {
    "errors": "",
    "v1": "",
    "privacy": "errors",
    "mpc": "errors",
    "federation": "errors v1 mpc privacy",
    "node": "errors v1 mpc privacy federation",
    "web": "errors v1 mpc privacy federation node",
    "report": "errors v1 mpc privacy federation node",
    "learning": "errors mpc privacy federation",
    "models": "errors mpc privacy federation learning",
    "networks": "",
    "compute": "errors mpc privacy federation learning models",
    "party": "errors v1 mpc privacy federation node report learning models compute",
    "page": "errors v1 mpc privacy federation node web report learning models compute party",
    "algorithms": "errors privacy federation",
    "coordinator": "errors v1 mpc privacy federation node report learning models algorithms",
    "dashboard": "errors v1 mpc privacy federation node learning models algorithms coordinator web",
    "tracking": "errors v1 mpc privacy federation node learning models algorithms coordinator",
    "aggregator": "errors v1 mpc privacy federation node report",
    "study": "errors mpc privacy federation learning models compute algorithms",
    "research": "errors mpc privacy federation learning models compute algorithms study",
}
"""Each room and those below it that it may import."""
TOP = ("cli", "demo", "bench", "attacks")
"""These may import everything; nothing below them imports any of them."""
MORE = {"algorithms/registry.py": "learning models"}
"""Algorithms know public facts, never data; only the check of what a manifest names needs models beside them."""
DRAWING = {"mpc": {"randomness.py"}, "privacy": {"randomness.py", "ledger.py"}}
"""The modules that draw: all else of these rooms draws through them. The ledger draws its salt."""
LONGER = {
    *("aggregator/run.py", "attacks/floods.py", "attacks/records.py", "coordinator/driver.py"),
    *("federation/meaning.py", "node/node_file.py", "party/run.py"),
}
"""Over 400 lines. No other may be."""


def modules(root: Path) -> Iterator[tuple[str, Path]]:
    """Every module as room/path, generated code left out."""
    for path in sorted(root.glob("*/parley/*/**/*.py")):
        name = str(path.relative_to(root)).split("/", 2)[2]
        if not name.startswith("v1/"):
            yield name, path


def imported(tree: ast.AST, name: str) -> Iterator[str]:
    """The full name of all that a module imports, wherever it does."""
    package = ["parley", *name.split("/")[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *((node.module,) if node.module else ())])
            yield from (f"{base}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).rsplit(".", 1)[-1]
            if called in ("import_module", "__import__", "run_module"):
                yield from (text for each in node.args for text in _texts(each))


def _texts(node: ast.AST) -> Iterator[str]:
    """Of a name that is written out, or begun: f"parley.research.{name}"."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def wrong(root: Path) -> list[str]:
    """Every import that the table does not have."""
    found = []
    for name, path in modules(root):
        room = name.split("/")[0]
        if room in TOP:
            continue
        may = {room, *TABLE[room].split(), *MORE.get(name, "").split()}
        for other in imported(ast.parse(path.read_text()), name):
            parts = other.split(".")
            if parts[0] in ("tests", "tools") or (parts[0] == "parley" and len(parts) > 1 and parts[1] not in may):
                found.append(f"{name} imports {other}")
    return found


def test_no_room_imports_one_above_it() -> None:
    assert wrong(ROOT) == []


def test_the_table_has_every_room_that_there_is_and_no_other() -> None:
    rooms = {path.name for path in ROOT.glob("*/parley/*") if path.is_dir() and path.name != "__pycache__"}
    assert rooms == {*TABLE, *TOP} == set(ROOMS)
    assert all(set(below.split()) <= set(TABLE) for below in TABLE.values())
    assert not list(ROOT.glob("*/parley/*.py")), "parley is a namespace: it has rooms, and no module of its own"


def test_the_table_has_no_circle() -> None:
    order = list(TABLE)
    for room, below in TABLE.items():
        assert all(order.index(each) < order.index(room) for each in below.split()), room


PLANTED = {
    "a module": "from parley.algorithms.algorithm import Algorithm\n",
    "a room": "import parley.algorithms\n",
    "by its room": "from parley import algorithms\n",
    "a function": "def f():\n    from parley.algorithms.algorithm import Algorithm\n",
    "TYPE_CHECKING": "if TYPE_CHECKING:\n    import parley.algorithms.algorithm as algorithm\n",
    "a method, guarded": "class A:\n    def f(self):\n        with x:\n            import parley.algorithms.auto\n",
    "relatively": "from ..algorithms import auto\n",
    "relatively, by its room": "from .. import algorithms\n",
    "as a string": "import importlib\nimportlib.import_module('parley.algorithms.auto')\n",
    "as a string in pieces": "def f(name):\n    return import_module(f'parley.algorithms.{name}')\n",
    "a test": "from tests.conftest import anything\n",
}  # fmt: skip


@pytest.mark.parametrize("how", PLANTED)
@pytest.mark.parametrize("room", ["party/parley/party", "mpc/parley/mpc", "federation/parley/node"])
def test_a_planted_import_is_found(how: str, room: str, tmp_path: Path) -> None:
    place = tmp_path / room / "planted.py"
    shutil.copytree(ROOT / room, place.parent, ignore=shutil.ignore_patterns("*.so", "data", "__pycache__"))
    assert wrong(tmp_path) == []
    place.write_text(PLANTED[how])
    assert len(wrong(tmp_path)) == 1, wrong(tmp_path)


def test_what_may_be_imported_is_not_found(tmp_path: Path) -> None:
    place = tmp_path / "study" / "parley" / "study" / "planted.py"
    place.parent.mkdir(parents=True)
    place.write_text("import numpy\nfrom parley.algorithms import auto\nfrom .errors import StudyError\n")
    assert wrong(tmp_path) == []


@pytest.mark.parametrize("room", ["mpc", "privacy", "learning", "party", "aggregator", "federation"])
def test_random_numbers_come_from_one_place_and_never_from_numpy(room: str) -> None:
    for name, path in modules(ROOT):
        if name.split("/")[0] != room:
            continue
        text = path.read_text()
        found = {each.split(".")[0] for each in imported(ast.parse(text), name)}
        assert "np.random" not in text, name
        assert not {each for each in imported(ast.parse(text), name) if each.startswith("numpy.random")}, name
        assert not found & {"random", "uuid"}, name
        if room in DRAWING and path.name not in DRAWING[room]:
            assert "urandom" not in text, name
            assert "secrets" not in found, name


def test_modules_say_what_they_are_and_stay_short() -> None:
    for name, path in modules(ROOT):
        text = path.read_text()
        assert ast.get_docstring(ast.parse(text)), name
        assert len(text.splitlines()) <= 400 or name in LONGER, name


def test_the_door_of_a_study_loads_no_transport_and_touches_no_environment() -> None:
    """All its modules: importing them says nothing of TLS to whoever has a notebook open."""
    names = [name.removesuffix(".py").replace("/", ".") for name, _ in modules(ROOT) if name.startswith("study/")]
    program = (
        "import importlib, os, sys\n"
        # scikit-learn, which the estimators derive from, sets two variables of its OpenMP's.
        "said = lambda: {name: value for name, value in os.environ.items() if not name.startswith('KMP_')}\n"
        "before = said()\n"
        f"for name in {names!r}: importlib.import_module('parley.' + name.removesuffix('.__init__'))\n"
        "assert said() == before, set(said().items()) ^ set(before.items())\n"
        "rooms = {name.split('.')[1] for name in sys.modules if name.startswith('parley.')}\n"
        "loaded = {'grpc', 'google', 'starlette', 'uvicorn', 'structlog'} & set(sys.modules)\n"
        "print(sorted(rooms), sorted(loaded))\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rooms = sorted({"study", *TABLE["study"].split()} - {"compute"})  # which Ray alone needs
    assert done.stdout == f"{rooms} []\n"
