"""Which fields a log line or the trail may carry: public facts, whatever code hands over."""

import ast
import io
import json
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.federation.errors import FederationError
from parley.learning.errors import SchemaError
from parley.mpc.errors import PeerError
from parley.node import facts, logs
from parley.node.facts import TRAIL_FACTS
from parley.node.trail import EVENT
from tests.support.loglines import GRADIENT, LABEL, SEED, SHARE, TELLTALES, parsed
from tests.support.sources import modules

LOSS = 0.693147


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
    told = [{name: value for name, value in line.items() if name != "time"} for line in parsed(lines)]
    assert ".693" not in json.dumps(told)  # a millisecond may be of these digits


def test_a_seed_under_the_name_of_a_digest_is_cut_to_half_a_word(lines: io.StringIO) -> None:
    logs.logger().info("a test", digest=SEED.hex())
    assert SEED.hex()[:16] in lines.getvalue()
    assert SEED.hex()[:17] not in lines.getvalue()


def test_field_names_are_not_printed_unless_they_are_known(lines: io.StringIO) -> None:
    logs.logger().info("a test", **{LABEL: 1, "malignant": 2})
    assert parsed(lines)[0]["redacted"] == 2
    assert "malignant" not in lines.getvalue()


def calls() -> Iterator[tuple[Path, ast.Call]]:
    """Every call of a logger in the product's code."""
    for path in modules():
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
    for path in modules():
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


def test_a_moment_is_a_time_that_there_is_and_nothing_else() -> None:
    assert facts.moment("2026-11-20T14:20:05Z") == "2026-11-20T14:20:05Z"
    for other in ("2026-13-20T14:20:05Z", "2026-11-20T14:20:05.123Z", "2026-11-20 14:20:05", "1999-11-20T14:20:05Z",
                  20261120142005, Sneaky("2026-11-20T14:20:05Z"), "2026-99-99T99:99:99Z"):  # fmt: skip
        assert facts.moment(other) is None, other
