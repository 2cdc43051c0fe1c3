"""Logs: useful lines, and no way to get anything private into one."""

import ast
import asyncio
import io
import json
import logging
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from parley.federation.errors import FederationError, FieldError
from parley.federation.names import NodeName, Role
from parley.learning.errors import QueryError, SchemaError
from parley.mpc.errors import PeerError
from parley.node import facts, logs
from parley.node.facts import TRAIL_FACTS
from parley.node.log_rotation import RotatingFile
from parley.node.trail import EVENT

ROOT = Path(__file__).parents[2]
SHARE = np.arange(4, dtype=np.uint64) * np.uint64(0x1234567890ABCDE) + np.uint64(0xFEDCBA9876543210)
GRADIENT = np.array([0.271828, -0.314159, 0.141421])
SEED = bytes(range(0xA0, 0xC0))
LABEL = "malignant 63"
LOSS = 0.693147
TELLTALES = (
    [str(int(word)) for word in SHARE[:3]]
    + [f"{abs(value):.4f}"[1:] for value in GRADIENT]
    + [SEED.hex()[:20], SEED.hex(":")[:20], repr(SEED)[4:20], "malignant", ".6931"]
)


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is printed, with everything that `configure` takes over put back afterwards."""
    root, hooks = logging.getLogger(), (sys.excepthook, threading.excepthook, sys.unraisablehook)
    handlers, level = list(root.handlers), root.level
    stream = io.StringIO()
    logs.configure(Role.party, "hospital-a", level="debug", stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
    logging.captureWarnings(False)
    logs._sink.__init__()  # type: ignore[misc]


def parsed(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_says_who_what_when_and_the_public_facts(lines: io.StringIO) -> None:
    log = logs.logger(run="heart-1")
    peer = NodeName("cardio", Role.aggregator, "north")
    log.info("round answered", round=3, bytes=1024, seconds=0.12345678, peer=peer, manifest="ab" * 32, state="sent")
    (line,) = parsed(lines)
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info", "role": "party", "name": "hospital-a", "event": "round answered", "run": "heart-1", "round": 3,
        "bytes": 1024, "seconds": 0.123457, "peer": peer.uri, "manifest": "abababababababab", "state": "sent",
    }  # fmt: skip


def test_levels_are_kept_and_a_bound_logger_repeats_itself(lines: io.StringIO) -> None:
    logs._sink.threshold = 30
    bound = logs.logger().bind(run="heart-1").bind(round=2)
    bound.debug("nothing")
    bound.info("nothing")
    bound.warning("late")
    bound.error("gone")
    assert [(line["event"], line["run"], line["round"]) for line in parsed(lines)] == [
        ("late", "heart-1", 2), ("gone", "heart-1", 2),
    ]  # fmt: skip


class Sneaky(str):
    """Looks like a name until it is printed."""

    def __str__(self) -> str:
        return LABEL

    __repr__ = __format__ = __str__  # type: ignore[assignment]


class Kind(Enum):
    value_of_share = str(int(SHARE[1]))


class Hostile:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(LABEL)

    def __repr__(self) -> str:
        return str(GRADIENT)


PRIVATE = [
    SHARE,
    SHARE[1],
    int(SHARE[1]),
    SHARE.tolist(),
    SHARE.tobytes(),
    SEED,
    bytearray(SEED),
    memoryview(SEED),
    SEED.hex(":"),
    repr(SEED),
    str(SHARE),
    GRADIENT,
    GRADIENT.tolist(),
    tuple(GRADIENT.tolist()),
    GRADIENT[0],
    str(GRADIENT),
    {"g": GRADIENT},
    [GRADIENT],
    LABEL,
    [LABEL],
    {LABEL},
    {"label": LABEL},
    Sneaky("north"),
    Kind.value_of_share,
    Hostile(),
    np.float64(LOSS),
    str(LOSS),
    {"loss": LOSS},
    [LOSS],
    (LOSS,),
    ValueError(LABEL),
    ValueError(str(GRADIENT)),
    SchemaError(f"row 3: {LABEL}"),
    FederationError(str(GRADIENT)),
    FederationError(f"share {SEED.hex()}"),
    PeerError(f"sum {int(SHARE[1])}"),
    FederationError(f"got {SEED!r}"),
    FederationError(str(GRADIENT.tolist())),
    FederationError(str(SHARE.tolist())),
    FederationError(f"the loss is {np.log(2.0)!r}"),
]


@pytest.mark.parametrize("index", range(len(PRIVATE)))
def test_no_field_lets_anything_private_through(lines: io.StringIO, index: int) -> None:
    value, log = PRIVATE[index], logs.logger()
    for field in facts.FACTS:
        if field not in ("digest", "seconds") or not isinstance(value, str | float):
            log.info("a test", **{field: value})
    for field in ("share", "gradient", "label", "loss", "data", "exc_info", "stack_info", "fields", "message", "at"):
        log.info("a test", **{field: value})
        log.bind(**{field: value}).warning("a test")
    log.info("a test", value)
    log.info(f"a test of {value!r}" if not isinstance(value, str) else value)
    log.info(value)
    log.info("a test %s", value)
    assert parsed(lines)
    for telltale in TELLTALES:
        assert telltale not in lines.getvalue(), telltale


def test_a_float_is_not_a_figure_unless_the_field_is_one(lines: io.StringIO) -> None:
    allowed = {name for name, check in facts.FACTS.items() if check in (facts.seconds, facts.figure)}
    for field in set(facts.FACTS) - allowed:
        logs.logger().info("a test", **{field: LOSS})
    assert ".693" not in lines.getvalue()


def test_a_seed_under_the_name_of_a_digest_is_cut_to_half_a_word(lines: io.StringIO) -> None:
    logs.logger().info("a test", digest=SEED.hex())
    assert SEED.hex()[:16] in lines.getvalue()
    assert SEED.hex()[:17] not in lines.getvalue()


def test_field_names_are_not_printed_unless_they_are_known(lines: io.StringIO) -> None:
    logs.logger().info("a test", **{LABEL: 1, "malignant": 2})
    assert parsed(lines)[0]["redacted"] == 2
    assert "malignant" not in lines.getvalue()


def test_our_own_exceptions_explain_themselves_and_foreign_ones_do_not(lines: io.StringIO) -> None:
    log = logs.logger()
    log.warning("refused", error=FieldError("privacy.epsilon", "is 3 and the policy admits 1: more noise"))
    log.warning("refused", error=QueryError("round 3 was answered already"))
    log.warning("refused", error=SchemaError(f"row 4, column sick has {LABEL!r}"))
    try:
        float("63.25 years")
    except ValueError:
        log.exception("refused")
    ours, query, schema, foreign = parsed(lines)
    assert (ours["error"], ours["message"][:18]) == ("FieldError", "privacy.epsilon: i")
    assert query["message"] == "round 3 was answered already"
    assert (schema["error"], "message" in schema) == ("SchemaError", False)
    assert (foreign["error"], foreign["at"][:12]) == ("ValueError", "test_logs.py")
    assert "63" not in lines.getvalue()


def test_a_long_number_or_digest_in_our_own_words_is_cut(lines: io.StringIO) -> None:
    logs.logger().warning("refused", error=FederationError(f"manifest {'ab' * 32} of 1,234,567 parameters, 20 of 30"))
    assert parsed(lines)[0]["message"] == "manifest abababab… of 1,234,567 parameters, 20 of 30"


def test_the_standard_librarys_logging_loses_its_text(lines: io.StringIO) -> None:
    other = logging.getLogger("grpc._cython.cygrpc")
    other.error("Exception calling application: %s", GRADIENT)
    logging.getLogger("numbers").warning(f"label {LABEL} share {SHARE}")
    try:
        raise ValueError(f"{LABEL} {SEED!r}")
    except ValueError:
        logging.getLogger("asyncio").exception("Task failed with %r", LABEL)
    warnings.warn(f"overflow in {GRADIENT}", stacklevel=1)
    first, _, third, fourth = parsed(lines)
    assert (first["logger"], first["event"], first["level"]) == ("grpc._cython.cygrpc", "library message", "error")
    assert first["at"].startswith("test_logs.py:")
    assert third["error"] == "ValueError"
    assert fourth["logger"] == "py.warnings"
    for telltale in TELLTALES:
        assert telltale not in lines.getvalue(), telltale


def test_tasks_and_threads_that_fail_lose_their_text(lines: io.StringIO) -> None:
    async def forgotten() -> None:
        async def fail() -> None:
            raise ValueError(str(GRADIENT))

        task = asyncio.ensure_future(fail())
        await asyncio.sleep(0)
        del task
        asyncio.get_running_loop().call_exception_handler({"message": LABEL, "exception": ValueError(LABEL)})

    def fail() -> None:
        raise RuntimeError(f"{LABEL} {SHARE}")

    asyncio.run(forgotten())
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    sys.excepthook(ValueError, ValueError(LABEL), None)
    assert {line["event"] for line in parsed(lines)} >= {"library message", "uncaught exception in a thread"}
    for telltale in TELLTALES:
        assert telltale not in lines.getvalue(), telltale


def test_a_grpc_error_keeps_its_code_and_loses_its_details(lines: io.StringIO) -> None:
    nothing = grpc.aio.Metadata()
    error = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, details=LABEL)
    logs.logger().warning("call failed", error=error)
    assert parsed(lines)[0]["code"] == "UNAVAILABLE"
    assert "malignant" not in lines.getvalue()


def test_an_uncaught_exception_of_a_process_is_reported_without_its_text() -> None:
    program = (
        "from parley.node import logs\nlogs.configure('party', 'hospital-a')\n"
        "records = ['malignant 63']\nraise ValueError(records)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "malignant" not in done.stderr
    assert json.loads(done.stderr)["error"] == "ValueError"


def test_before_configuration_warnings_are_printed_and_redacted_all_the_same() -> None:
    program = (
        "from parley.node import logs\nlog = logs.logger()\n"
        "log.info('quiet')\nlog.warning('loud', data='malignant')\nlog.warning('malignant 63')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == ["loud", logs.REDACTED]
    assert "malignant" not in done.stderr


def test_importing_is_light_and_leaves_rich_alone() -> None:
    """Processor time beside asyncio's, which every node has loaded anyway: a busy machine does not count."""
    program = (
        "import time, sys, parley.federation.names, asyncio\nstart = time.process_time()\n"
        "import parley.node.logs\nspent = time.process_time() - start\n"
        "assert 'rich' not in sys.modules and 'numpy' not in sys.modules and 'grpc' not in sys.modules\n"
        "import rich.console\nprint(spent)"
    )
    times = [
        float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]
    assert min(times) < 0.03


def test_the_file_is_private_and_rotates(tmp_path: Path) -> None:
    file = RotatingFile(tmp_path / "state" / "log.jsonl", largest_bytes=100)
    for number in range(60):
        file.write(json.dumps({"round": number}))
    file.close()
    file.write("nothing")
    found = sorted(path.name for path in (tmp_path / "state").iterdir())
    assert found == ["log.jsonl", *(f"log.jsonl.{number}" for number in range(1, 5))]
    for path in (tmp_path / "state").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.stat().st_size <= 100
    assert json.loads((tmp_path / "state" / "log.jsonl").read_text().splitlines()[-1]) == {"round": 59}


def test_a_file_beside_standard_error_holds_the_same_lines(lines: io.StringIO, tmp_path: Path) -> None:
    logs.configure("aggregator", "north", folder=tmp_path, stream=lines)
    logs.logger().info("ready", port=7401, label=LABEL)
    assert (tmp_path / "log.jsonl").read_text() == lines.getvalue()


def test_a_closed_standard_error_ends_nothing(lines: io.StringIO) -> None:
    lines_copy = io.StringIO()
    logs._sink.stream = lines_copy
    lines_copy.close()
    logs.logger().info("ready")


def calls() -> Iterator[tuple[Path, ast.Call]]:
    """Every call of a logger in the product's code."""
    for place in ROOT.glob("*/parley"):
        for path in place.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr in (*logs.LEVELS, "exception", "bind")
                    and ast.unparse(node.func.value).rpartition(".")[2].strip("_") in ("log", "logger", "logger()")
                ):
                    yield path, node


FUNNEL = "notes.py"
"""Hands on what it is given, so that what it is given is looked at instead."""


def test_all_code_logs_literal_events_and_listed_fields() -> None:
    """So that what the redaction would drop is found here and not in the middle of a run."""
    found = [(path, call) for path, call in calls() if path.name != FUNNEL]
    assert found
    for path, call in found:
        where = f"{path}:{call.lineno}"
        if isinstance(call.func, ast.Attribute) and call.func.attr != "bind":
            assert len(call.args) == 1, where
            assert isinstance(call.args[0], ast.Constant), where
            assert facts.words(call.args[0].value), where
        for keyword in call.keywords:
            assert keyword.arg in facts.FACTS, f"{where}: {keyword.arg}"


def test_all_code_notes_events_by_name_with_listed_fields() -> None:
    """What goes to log and trail alike: the trail would refuse anything else, and stop the node."""
    found = 0
    for place in ROOT.glob("*/parley"):
        for path in place.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if not (isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith("note")):
                    continue
                first = node.args[0].left if isinstance(node.args[0], ast.BinOp) else node.args[0]
                if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
                    continue  # notes of a run's state in a database
                found += 1
                assert EVENT.fullmatch(first.value.removesuffix(".")), f"{path}:{node.lineno}"
                assert {keyword.arg for keyword in node.keywords} <= set(TRAIL_FACTS) - {"approved_by"} | {
                    None,
                    "error",
                }
    assert found


def test_no_other_module_talks_to_the_standard_librarys_logging() -> None:
    for place in ROOT.glob("*/parley"):
        for path in place.rglob("*.py"):
            if path.name != "logs.py":
                assert "import logging" not in path.read_text(), path
