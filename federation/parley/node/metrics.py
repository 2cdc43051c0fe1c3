"""Counters and gauges in Prometheus' text format, on a loopback listener of their own.

    registry = Registry("aggregator", "north")
    rounds = registry.counter("parley_rounds_total", "Rounds opened.", "run")
    rounds.add(1, run="heart-1")
    Trail.observer = counting(registry)                  # counts whatever the node writes into its audit trail
    serve(registry, "127.0.0.1", 9464)                   # GET /metrics, in a daemon thread

A label's value is a name, a word or a digest as `facts` knows them; a figure is a count or seconds. Whatever is neither
is left out: a metric shows nothing that a log would not.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from parley.node import facts

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_SERIES = 2000
"""Of one metric: a label with ever new values must not fill the memory."""
REQUEST_SECONDS = 5.0
Labels = tuple[tuple[str, str], ...]


class Metric:
    """One family: a counter, which only grows, or a gauge."""

    def __init__(self, name: str, kind: str, about: str, labels: tuple[str, ...]) -> None:
        self.name, self.kind, self.about, self._labels = name, kind, about, labels
        self._values: dict[Labels, float] = {}
        self._lock = threading.Lock()

    def add(self, amount: float = 1, **labels: object) -> None:
        """Nothing happens for an amount that is negative or no number."""
        key = self._key(labels)
        if key is not None and _right(amount):
            with self._lock:
                if key in self._values or len(self._values) < MOST_SERIES:
                    self._values[key] = self._values.get(key, 0.0) + amount

    def set(self, value: float, **labels: object) -> None:
        key = self._key(labels)
        if key is not None and _right(value):
            with self._lock:
                if key in self._values or len(self._values) < MOST_SERIES:
                    self._values[key] = float(value)

    def _key(self, labels: Mapping[str, object]) -> Labels | None:
        if tuple(sorted(labels)) != tuple(sorted(self._labels)):
            raise ValueError(f"{self.name} has the labels {self._labels}")
        found = [
            (name, facts.word(labels[name]) or facts.name(labels[name]) or facts.digest(labels[name]))
            for name in labels
        ]
        return None if any(value is None for _, value in found) else tuple((name, value or "") for name, value in found)

    def lines(self, common: Labels) -> list[str]:
        with self._lock:
            values = sorted(self._values.items())
        if not values:
            return []
        head = [f"# HELP {self.name} {self.about}", f"# TYPE {self.name} {self.kind}"]
        return head + [f"{self.name}{_spelled(common + labels)} {value:.10g}" for labels, value in values]


class Registry:
    """All metrics of one process."""

    def __init__(self, role: str, name: str) -> None:
        self._common: Labels = (("node", facts.name(name) or "unknown"), ("role", facts.word(role) or "unknown"))
        self._metrics: dict[str, Metric] = {}
        self._before: list[Callable[[], None]] = []
        start = self.gauge("parley_start_time_seconds", "When this process started, seconds since the epoch.")
        start.set(round(time.time(), 3))

    def counter(self, name: str, about: str, *labels: str) -> Metric:
        return self._metrics.setdefault(name, Metric(name, "counter", about, labels))

    def gauge(self, name: str, about: str, *labels: str) -> Metric:
        return self._metrics.setdefault(name, Metric(name, "gauge", about, labels))

    def before_reading(self, refresh: Callable[[], None]) -> None:
        """Called whenever somebody asks: for gauges that are read and not counted, such as a pool's level."""
        self._before.append(refresh)

    def text(self) -> str:
        for refresh in self._before:
            try:
                refresh()
            except Exception:  # a gauge that cannot be read must not take the others with it
                self.counter("parley_metrics_errors_total", "Gauges that could not be read.").add()
        return "\n".join(line for metric in list(self._metrics.values()) for line in metric.lines(self._common)) + "\n"


def counting(registry: Registry) -> Callable[[str, Mapping[str, Any]], None]:
    """For `Trail.observer`: counts events by name, and the rounds, seconds and bytes that they speak of."""
    events = registry.counter("parley_events_total", "Events in the audit trail, by name.", "event")
    refusals = registry.counter("parley_refusals_total", "Events that refuse something.", "event")
    rounds = registry.counter("parley_rounds_total", "Rounds opened or answered here.", "run")
    lasted = registry.counter("parley_round_seconds_total", "Seconds that those rounds took.", "run")
    passed = registry.counter("parley_bytes_total", "Bytes that those events speak of.", "direction")

    def count(event: str, fields: Mapping[str, Any]) -> None:
        events.add(1, event=event)
        if "refuse" in event or "reject" in event:
            refusals.add(1, event=event)
        if event in ("round.opened", "round.answered"):
            rounds.add(1, run=fields.get("run"))
            lasted.add(_float(fields.get("seconds")), run=fields.get("run"))
        for name, direction in (("bytes", "any"), ("bytes_up", "up"), ("bytes_down", "down")):
            if name in fields:
                passed.add(_float(fields[name]), direction=direction)

    return count


def serve(registry: Registry, host: str, port: int) -> ThreadingHTTPServer:
    """Answer GET /metrics in daemon threads; `server_address[1]` is the port. An OSError if it cannot listen."""
    server = ThreadingHTTPServer((host, port), _handler(registry.text))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server


def _handler(text: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_SECONDS
        server_version, sys_version = "parley", ""

        def do_GET(self) -> None:
            found = self.path.partition("?")[0] == "/metrics"
            body = text().encode() if found else b"see /metrics\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", CONTENT_TYPE if found else "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Whoever asks is not written down."""

    return Handler


def _right(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0  # type: ignore[arg-type, operator]


def _float(value: object) -> float:
    return float(value) if isinstance(value, int | float) and _right(value) else 0.0


def _spelled(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels) + "}" if labels else ""
