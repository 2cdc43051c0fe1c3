"""Logs: one line of JSON per event on standard error, holding what `facts` lists and nothing else.

    from parley.node import logs
    logs.configure(Role.party, "hospital-a", folder=node.state)     # once, when a process starts
    log = logs.logger()
    log.info("round answered", run="heart-1", round=3, bytes=1024, seconds=0.2)
    log.warning("upload refused", peer=peer, error=error)           # an exception: its type, and our own words only

A field that is not listed is dropped and counted (`redacted`); a listed one of another type becomes "<redacted>", and
so does an event with a number in it: events are literals, figures are fields. Of an exception the type is kept; its
text only where this project wrote it, never numpy's or a reader's, which quote data. Records of other libraries
(grpc, asyncio, warnings) and uncaught exceptions go the same way: where they came from, and no text. structlog's own
configuration is not used, so nothing can be configured around the redaction.
"""

import datetime as dt
import json
import logging
import re
import sys
import threading
import types
from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from parley.federation.names import Role
from parley.node import facts
from parley.node.log_rotation import RotatingFile


def _import_structlog() -> Any:
    """structlog draws in rich for coloured tracebacks: 6 MB and 30 ms in every process, for what is never used here."""
    absent: Any = None
    hidden = "rich" not in sys.modules
    if hidden:
        sys.modules["rich"] = absent
    try:
        import structlog
    finally:
        if hidden:
            del sys.modules["rich"]
    return structlog


if TYPE_CHECKING:
    import structlog
else:
    structlog = _import_structlog()
REDACTED = "<redacted>"
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
SHOWN_DIGITS = 16
"""Of a digest: enough to recognise it, too few to carry a seed."""
SPEAKING = frozenset(
    f"parley.{room}"
    for room in (
        *("federation", "node", "mpc", "privacy", "aggregator", "algorithms", "coordinator", "dashboard"),
        *("tracking", "study", "research", "cli", "demo", "bench", "attacks"),
    )
)
"""Rooms whose exceptions speak of protocol and configuration. `learning` and `party` read records and quote cells."""
LONGEST_MESSAGE = 300
FIGURES = re.compile(r"([-+]?\d+(\.\d*)?(e[-+]?\d+)?[\s,;\])]+){3}|\.\d{7}|b['\"]", re.IGNORECASE)
"""Three numbers in a row, a number of high precision, a bytes literal: no message of ours looks like that."""
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(\D|$))")
LONG_DIGITS = re.compile(r"[0-9a-fA-F]{17,}|\d{13,}")


class _Sink:
    """Where lines go; one per process."""

    def __init__(self) -> None:
        self.threshold = LEVELS["warning"]
        self.who: dict[str, str] = {}
        self.stream: TextIO | None = None
        self.file: RotatingFile | None = None

    def write(self, line: str) -> None:
        try:
            (self.stream or sys.stderr).write(line + "\n")
            (self.stream or sys.stderr).flush()
        except (OSError, ValueError, AttributeError):
            pass  # nobody reads standard error any more: that must not end a run
        if self.file is not None:
            self.file.write(line)


_sink = _Sink()


def configure(
    role: Role | str, name: str, folder: Path | None = None, level: str = "info", stream: TextIO | None = None
) -> None:
    """Say who speaks and where; `folder` is the node's state folder, for a rotated log.jsonl besides standard error.

    Also takes over the standard library's logging, warnings, and what is printed of uncaught exceptions.
    """
    if level not in LEVELS:
        raise ValueError(f"level is {level!r}: use {', '.join(LEVELS)}")
    _sink.threshold, _sink.stream = LEVELS[level], stream
    _sink.who = {"role": str(Role(role)), "name": facts.name(name) or REDACTED}
    if _sink.file is not None:
        _sink.file.close()
    _sink.file = RotatingFile(folder / "log.jsonl") if folder is not None else None
    root = logging.getLogger()
    root.handlers[:] = [_Bridge()]
    root.setLevel(max(LEVELS[level], LEVELS["warning"]))
    for other in list(logging.Logger.manager.loggerDict.values()):
        if isinstance(other, logging.Logger):  # a handler of its own would print what the root's must not
            other.handlers.clear()
            other.propagate = True
    logging.captureWarnings(True)
    sys.excepthook, threading.excepthook, sys.unraisablehook = _uncaught, _uncaught_in_thread, _unraisable


class Logger(structlog.BoundLoggerBase):
    """`bind(run=…)` gives a logger that says so in every line. Nothing here raises, whatever it is given."""

    def debug(self, event: str, /, *unsafe: object, **fields: object) -> None:
        self._say("debug", event, unsafe, fields)

    def info(self, event: str, /, *unsafe: object, **fields: object) -> None:
        self._say("info", event, unsafe, fields)

    def warning(self, event: str, /, *unsafe: object, **fields: object) -> None:
        self._say("warning", event, unsafe, fields)

    def error(self, event: str, /, *unsafe: object, **fields: object) -> None:
        self._say("error", event, unsafe, fields)

    def exception(self, event: str, /, *unsafe: object, **fields: object) -> None:
        """An error, with the exception that is being handled."""
        self._say("error", event, unsafe, {"error": sys.exc_info()[1], **fields})

    def _say(self, level: str, event: str, unsafe: tuple[object, ...], fields: dict[str, object]) -> None:
        if LEVELS[level] >= _sink.threshold:
            # Arguments would be formatted into the text, so the text goes with them.
            self._proxy_to_logger(level, REDACTED if unsafe else event, fields=fields)


class _Lines:
    """What structlog hands finished lines to."""

    def __getattr__(self, level: str) -> Any:
        return _sink.write


def logger(**bound: object) -> Logger:
    """A logger; before `configure` it prints warnings and errors, as redacted as ever."""
    made: Logger = structlog.wrap_logger(
        _Lines(),
        processors=[_redact, structlog.processors.JSONRenderer(serializer=_serialise)],
        wrapper_class=Logger,
        context_class=dict,
        cache_logger_on_first_use=True,
    ).bind(**bound)
    return made


def _serialise(line: dict[str, Any], **_: object) -> str:
    return json.dumps(line, separators=(",", ":"))


def _redact(_: object, level: str, given: MutableMapping[str, Any]) -> dict[str, Any]:
    """The only way into a line."""
    event, said = given.pop("event", None), given.pop("fields", {})
    now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    line: dict[str, Any] = {
        "time": now,
        "level": level,
        **_sink.who,
        "event": event if facts.words(event) else REDACTED,
    }
    dropped = 0
    for field, value in {**given, **said}.items():
        if field == "error" and isinstance(value, BaseException):
            line.update(_described(value))
        elif (check := facts.FACTS.get(field)) is None:
            dropped += 1
        else:
            line[field] = _shown(check, value)
    if dropped:
        line["redacted"] = dropped
    return line


def _shown(check: Any, value: object) -> object:
    fact = check(value)
    if fact is None:
        return REDACTED
    return fact[:SHOWN_DIGITS] if check is facts.digest else fact


def _described(error: BaseException) -> dict[str, Any]:
    """An exception's type, and its text where this project wrote it."""
    kind = type(error)
    package = ".".join(str(kind.__module__).split(".")[:2])
    found: dict[str, Any] = {"error": kind.__name__ if re.fullmatch("[A-Za-z_]{1,64}", kind.__name__) else REDACTED}
    if package in SPEAKING or getattr(kind, "public", False) is True:
        found["message"] = _own_words(str(error))
    elif package.split(".")[0] == "grpc":
        code = getattr(getattr(error, "code", lambda: None)(), "name", None)
        found["code"] = code if facts.word(code) else REDACTED
    else:
        found["at"] = _place(error.__traceback__)
    return found


def _own_words(message: str) -> str:
    if FIGURES.search(THOUSANDS.sub("", message)):
        return REDACTED
    return LONG_DIGITS.sub(lambda found: found[0][:8] + "…", message)[:LONGEST_MESSAGE]


def _place(traceback: types.TracebackType | None) -> str:
    """File and line where it was raised: says which message it was, without saying the message."""
    if traceback is None:
        return "unknown"
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return f"{Path(traceback.tb_frame.f_code.co_filename).name}:{traceback.tb_lineno}"


class _Bridge(logging.Handler):
    """Records of the standard library's logging: who and where, never their text."""

    def emit(self, record: logging.LogRecord) -> None:
        levels = [name for name, number in LEVELS.items() if number <= record.levelno] or ["debug"]
        if record.levelno < _sink.threshold:
            return
        line = _redact(None, levels[-1], {"event": "library message", "logger": record.name})
        line["at"] = f"{Path(record.pathname).name}:{record.lineno}"
        if record.exc_info and record.exc_info[1] is not None:
            line.update(_described(record.exc_info[1]))
        _sink.write(_serialise(line))


def _uncaught(kind: type[BaseException], error: BaseException, traceback: types.TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        _report("uncaught exception", error)


def _uncaught_in_thread(caught: threading.ExceptHookArgs) -> None:
    if caught.exc_value is not None:
        _report("uncaught exception in a thread", caught.exc_value)


def _unraisable(caught: "sys.UnraisableHookArgs") -> None:
    if caught.exc_value is not None:
        _report("exception in a destructor", caught.exc_value)


def _report(event: str, error: BaseException) -> None:
    line = _redact(None, "error", {"event": event, "error": error})
    line["at"] = _place(error.__traceback__)
    _sink.write(_serialise(line))
