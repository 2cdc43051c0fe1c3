"""Logs: useful lines, and no way to get anything private into one."""

import asyncio
import io
import json
import logging
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import grpc

from parley.federation.errors import FederationError, FieldError
from parley.federation.names import NodeName, Role
from parley.learning.errors import QueryError, SchemaError
from parley.node import logs
from tests.support.loglines import GRADIENT, LABEL, SEED, SHARE, TELLTALES, parsed
from tests.support.sources import modules


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


def test_our_own_exceptions_explain_themselves_and_foreign_ones_do_not(lines: io.StringIO) -> None:
    log = logs.logger()
    log.warning("refused", error=FieldError("privacy.epsilon", "is 3 and the policy admits 1: more noise"))
    log.warning("refused", error=QueryError("round 3 was answered already"))
    log.warning("refused", error=SchemaError(f"row 4, column sick has {LABEL!r}"))
    try:
        float("63.2571 years")
    except ValueError:
        log.exception("refused")
    ours, query, schema, foreign = parsed(lines)
    assert (ours["error"], ours["message"][:18]) == ("FieldError", "privacy.epsilon: i")
    assert query["message"] == "round 3 was answered already"
    assert (schema["error"], "message" in schema) == ("SchemaError", False)
    assert (foreign["error"], foreign["at"][:12]) == ("ValueError", "test_logs.py")
    assert "63.25" not in lines.getvalue()


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


def test_a_file_beside_standard_error_holds_the_same_lines(lines: io.StringIO, tmp_path: Path) -> None:
    logs.configure("aggregator", "north", folder=tmp_path, stream=lines)
    logs.logger().info("ready", port=7401, label=LABEL)
    assert (tmp_path / "log.jsonl").read_text() == lines.getvalue()


def test_a_closed_standard_error_ends_nothing(lines: io.StringIO) -> None:
    lines_copy = io.StringIO()
    logs._sink.stream = lines_copy
    lines_copy.close()
    logs.logger().info("ready")


def test_no_other_module_talks_to_the_standard_librarys_logging() -> None:
    for path in modules():
        if path.name != "logs.py":
            assert "import logging" not in path.read_text(), path
