"""Every line of the doctor that can fail has a fix with a command in it that can be pasted: read from the source.

Tests of the doctor hold the same of every line that they bring about (`tests.support.examined.by_check`).
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.examined import PASTED

ROOT = Path(__file__).parents[2]
FILES = [
    "federation/parley/node/doctor.py",
    "federation/parley/node/run_checks.py",
    "party/parley/party/doctor.py",
    "mpc/parley/aggregator/doctor.py",
    "deploy/parley/cli/commands/doctor.py",
]
REACH = "federation/parley/node/reachability.py"
ELSEWHERE = {"error.fix", "memory_fix(node)"}
"""Fixes that are made, and looked at, in another module."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Module:
    """What names stand for in one file: functions, constants, and the assignments of a function."""

    tree: ast.Module

    def functions(self) -> dict[str, Function]:
        return {node.name: node for node in ast.walk(self.tree) if isinstance(node, Function)}

    def texts(self, node: ast.expr, at: list[Function]) -> list[str]:
        """All that it may be, with an x for whatever is not written down."""
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.JoinedStr(values=parts):
                return self._joined([self.texts(part, at) for part in parts])
            case ast.FormattedValue(value=inner):
                return self.texts(inner, at)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._joined([self.texts(left, at), self.texts(right, at)])
            case ast.IfExp(body=body, orelse=other):
                return [*self.texts(body, at), *self.texts(other, at)]
            case ast.Call(func=ast.Name(id="pip")):
                return ["pip install x"]
            case ast.Call(func=ast.Name(id="edited")):
                return ["`${EDITOR:-vi} x`"]
            case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="join"), args=[ast.GeneratorExp(elt=each)]):
                return self.texts(each, at)
            case ast.Call(func=ast.Name(id=name)) if name in self.functions():
                function = self.functions()[name]
                given = [each.value for each in ast.walk(function) if isinstance(each, ast.Return) and each.value]
                return [text for each in given for text in self.texts(each, [function])]
            case ast.Name(id=name):
                assigned = self._assigned(name, at)
                return [text for each in assigned for text in self.texts(each, at)] or ["x"]
            case _:
                return ["x"]

    def _joined(self, parts: list[list[str]]) -> list[str]:
        found = [""]
        for part in parts:
            found = [before + text for before in found for text in part][:64]
        return found

    def _assigned(self, name: str, at: list[Function]) -> list[ast.expr]:
        for scope in [*reversed(at), self.tree]:
            found = [
                each.value
                for each in ast.walk(scope)
                if isinstance(each, ast.Assign)
                and any(isinstance(target, ast.Name) and target.id == name for target in each.targets)
            ]
            if found:
                return found
        return []

    def calls(self, name: str) -> Iterator[tuple[ast.Call, list[Function]]]:
        """With the functions around each, the innermost last."""

        def walk(node: ast.AST, at: list[Function]) -> Iterator[tuple[ast.Call, list[Function]]]:
            within = [*at, node] if isinstance(node, Function) else at
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                yield node, within
            for child in ast.iter_child_nodes(node):
                yield from walk(child, within)

        yield from walk(self.tree, [])


def fixes(path: str) -> list[tuple[int, ast.expr | None, list[Function], Module]]:
    """Line and fix of every finding that fails, of every guard, and of every peer that is not reached."""
    module = Module(ast.parse((ROOT / path).read_text()))
    found = []
    for name, place in (("Finding", 3), ("guarded", 2), ("UnreachableError", 1)):
        for call, at in module.calls(name):
            said = {each.arg: each.value for each in call.keywords}
            fix = call.args[place] if len(call.args) > place else said.get("fix")
            states = ast.unparse(call.args[1]) if name == "Finding" and len(call.args) > 1 else "FAILED"
            if "FAILED" in states:
                found.append((call.lineno, fix, at, module))
    return found


def wanting(path: str) -> list[str]:
    found = []
    for line, fix, at, module in fixes(path):
        if fix is None:
            found.append(f"{path}:{line}: no fix")
            continue
        parameters = {each.arg for function in at for each in function.args.args}
        if ast.unparse(fix) in ELSEWHERE or (isinstance(fix, ast.Name) and fix.id in parameters):
            continue  # whoever gives it is looked at
        found += [f"{path}:{line}: {text}" for text in module.texts(fix, at) if not PASTED.search(text)]
    return found


@pytest.mark.parametrize("path", [*FILES, REACH])
def test_whatever_fails_has_a_command_that_can_be_pasted(path: str) -> None:
    assert fixes(path)
    # what a pin lacks is said where pins are, and the doctor's tests bring it about
    assert [each for each in wanting(path) if path != REACH or not each.endswith(": x")] == []


def test_a_fix_without_a_command_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
def look(fix):
    where = "`parley node show`" if good else "somewhere"
    yield Finding("a", FAILED, "wrong", f"correct it, {where}")
    yield Finding("b", FAILED, "wrong")
    yield Finding("c", WARNING if good else FAILED, "wrong", fix="think")
    yield Finding("d", FAILED, "wrong", fix)
    yield guarded("e", look, "`parley doctor x`")
"""
    (tmp_path / "made.py").write_text(source)
    monkeypatch.setattr("tests.node.test_fixes.ROOT", tmp_path)
    assert wanting("made.py") == [
        "made.py:4: correct it, somewhere", "made.py:5: no fix", "made.py:6: think",
    ]  # fmt: skip
