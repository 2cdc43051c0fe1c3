"""Rules of the tests themselves, as a reader of one file cannot see them: how they wait, and where they are found."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns"}
"""Of the wall. Processor time is the program's own, whatever else the machine does."""
LEAST_FOUND = 0.8
ROOTS = ("privacy", "mpc", "federation", "party", "coordinator", "study", "deploy", "benchmarks")


def reads_a_clock(node: ast.AST, known: set[str]) -> bool:
    """Whether a wall's clock is read in it, or something is named that came of one."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each.id in known:
            return True
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in CLOCKS:
            return isinstance(each.func.value, ast.Name) and each.func.value.id == "time"
    return False


def bounded_from_above(test: ast.Module) -> Iterator[int]:
    """Lines that assert that no more than so much time has passed."""
    for function in ast.walk(test):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        known: set[str] = set()
        for each in ast.walk(function):
            if isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name):
                if reads_a_clock(each.value, known):
                    known.add(each.targets[0].id)
            elif isinstance(each, ast.Assert):
                for compared in (one for one in ast.walk(each.test) if isinstance(one, ast.Compare)):
                    sides = [compared.left, *compared.comparators]
                    for operator, left, right in zip(compared.ops, sides, sides[1:], strict=False):
                        low, high = (left, right) if isinstance(operator, ast.Lt | ast.LtE) else (right, left)
                        if isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE) and reads_a_clock(low, known):
                            if reads_a_clock(high, known) and not reads_now(low):
                                continue
                            yield each.lineno


def reads_now(node: ast.AST) -> bool:
    """Whether it is the time now, rather than two moments of the past that are put in order."""
    return reads_a_clock(node, set())


def gives_a_port_back(test: ast.Module) -> Iterator[int]:
    """Lines that ask the kernel for a free port and do nothing while they hold it: another process may have it next."""
    for each in ast.walk(test):
        if isinstance(each, ast.With) and any("socket.socket(" in ast.unparse(item) for item in each.items):
            asks = [line for line in each.body if any(word in ast.unparse(line) for word in ("bind(", "setsockopt("))]
            says = [
                line
                for line in each.body
                if isinstance(line, ast.Return | ast.Assign) and "getsockname()" in ast.unparse(line)
            ]
            if says and len(asks) + len(says) == len(each.body):
                yield each.lineno


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def sources() -> list[Path]:
    return [path for path in sorted(TESTS.rglob("*.py")) if path.name != "until.py"]


def test_no_test_says_how_long_something_may_take_by_the_clock_on_the_wall() -> None:
    found = [f"{path.relative_to(ROOT)}:{line}" for path in sources() for line in bounded_from_above(parsed(path))]
    assert found == [], "wait with tests.support.until, order events, or count turns or processor time"


def test_no_test_asks_for_a_port_that_it_does_not_hold() -> None:
    found = [f"{path.relative_to(ROOT)}:{line}" for path in sources() for line in gives_a_port_back(parsed(path))]
    assert found == [], "hold it with parley.demo.local.ReservedPort, or let the server take port 0"


def test_both_rules_notice() -> None:
    late = "def test():\n began = time.monotonic()\n spent = time.monotonic() - began\n"
    for line, count in (
        ("assert spent < 5", 1),
        ("assert 5 > spent", 1),
        ("assert 0.1 < time.perf_counter() - began < 2", 1),
        ("assert time.monotonic() < began + 5", 1),
        ("assert spent >= 5", 0),
        ("assert 5 <= spent", 0),
        ("assert time.process_time() < 5", 0),
    ):
        assert len(list(bounded_from_above(ast.parse(f"{late} {line}\n")))) == count, line
    port = "def free():\n with socket.socket() as one:\n  one.bind(('', 0))\n  return one.getsockname()[1]\n"
    assert list(gives_a_port_back(ast.parse(port))) == [2]


def modules() -> list[tuple[str, str]]:
    """Room and name of every module that does something: neither __init__ nor errors, which only names things."""
    found = []
    for root in ROOTS:
        base = ROOT / root / "parley"
        for path in sorted(base.rglob("*.py")):
            if path.stem not in ("__init__", "errors"):
                found.append((path.relative_to(base).parts[0], path.stem))
    return found


def test_the_tests_of_a_module_are_found_by_its_name() -> None:
    """tests/ROOM/test_MODULE.py. Where a module has no tests of its own, it is tested with those that use it."""
    there = {(path.parent.name, path.stem.removeprefix("test_")) for path in TESTS.rglob("test_*.py")}
    missing = [f"{room}/{module}" for room, module in modules() if (room, module) not in there]
    share = 1 - len(missing) / len(modules())
    print(f"{share:.0%} of {len(modules())} modules; not: {', '.join(missing)}")
    assert share >= LEAST_FOUND, missing


REVIEWED = {"party/review.py", "party/process.py", "page/accounts.py", "page/folder.py"}
"""What compares [budget] of node.toml with the reviewed one, or shows it where nothing else can be read."""


def test_nothing_goes_by_a_budget_that_nobody_has_reviewed() -> None:
    found = {
        path.relative_to(ROOT / "party" / "parley").as_posix()
        for path in (ROOT / "party" / "parley").rglob("*.py")
        for each in ast.walk(parsed(path))
        if isinstance(each, ast.Attribute) and each.attr == "cap" and ast.unparse(each.value).endswith("settings")
    }
    assert found <= REVIEWED, "ask parley.party.review.cap_of"


def _needs(tree: ast.AST) -> bool:
    """PyTorch or Ray, which the default suite has not installed."""
    return any(
        isinstance(each, ast.Call) and ast.unparse(each.func).endswith("importorskip")
        and ast.unparse(each.args[0]).strip("'") in ("torch", "ray")
        for each in ast.walk(tree)
    )  # fmt: skip


def test_what_needs_torch_or_ray_is_run_by_the_slow_suite_at_least() -> None:
    """It skips in the default suite of CI: a test without the mark would run nowhere."""
    found = []
    for path in TESTS.rglob("test_*.py"):
        tree = parsed(path)
        marked = any("pytest.mark.slow" in ast.unparse(each) for each in tree.body if isinstance(each, ast.Assign))
        top = any(_needs(each) for each in tree.body if isinstance(each, ast.Expr | ast.Assign))
        if marked or "docker" in path.parts:
            continue
        for each in tree.body:
            if isinstance(each, ast.FunctionDef) and (top or _needs(each)) and each.name.startswith("test_"):
                slow = any("mark.slow" in ast.unparse(mark) for mark in each.decorator_list)
                found += [] if slow else [f"{path.name}: {each.name}"]
    assert found == []
