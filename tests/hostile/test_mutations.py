"""`benchmarks/mutations.py` takes minutes: that it still fits the tree is looked at every time."""

import ast
import subprocess
import sys
from pathlib import Path

from benchmarks.mutations import MUTATIONS, ROOT, environment_of


def test_every_guard_stands_in_the_tree_once_as_it_is_quoted() -> None:
    found = {each.name: (ROOT / each.file).read_text().count(each.guard) for each in MUTATIONS}
    assert {name: count for name, count in found.items() if count != 1} == {}


def test_every_test_that_has_to_notice_is_there() -> None:
    for each in MUTATIONS:
        file, _, name = each.test.partition("::")
        assert name.split("[")[0] in _functions(ROOT / file), each


def test_what_is_tried_is_the_copy_and_not_what_is_installed(tmp_path: Path) -> None:
    room = tmp_path / "privacy/parley/privacy"
    room.mkdir(parents=True)
    for name in ("__init__.py", "head.py"):
        (room / name).write_text("")
    program = "import parley.privacy.head as head; print(head.__file__)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], env=environment_of(tmp_path), capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(tmp_path))


def _functions(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}
