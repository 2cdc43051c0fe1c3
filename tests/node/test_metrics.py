"""Prometheus' text: what is counted, and what never gets into it."""

import urllib.error
import urllib.request
from pathlib import Path

import pytest

from parley.federation.errors import TrailRefusedError
from parley.federation.names import NodeName, Role
from parley.node.metrics import MOST_SERIES, Registry, counting, serve
from parley.node.trail import Trail


def test_what_stands_in_the_trail_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry("coordinator", "lead")
    monkeypatch.setattr(Trail, "observer", counting(registry))
    with Trail.open(tmp_path / "trail.jsonl", NodeName("cardio", Role.coordinator, "lead")) as trail:
        trail.append("round.opened", run="heart-1", seconds=1.5, bytes_up=100)
        trail.append("round.opened", run="heart-1", seconds=0.5)
        trail.append("run.refused", run="heart-1")
        with pytest.raises(TrailRefusedError):
            trail.append("round.opened", run="heart-1", norm=0.7)
    text = registry.text()
    assert 'parley_rounds_total{node="lead",role="coordinator",run="heart-1"} 2' in text
    assert 'parley_round_seconds_total{node="lead",role="coordinator",run="heart-1"} 2' in text
    assert 'parley_bytes_total{node="lead",role="coordinator",direction="up"} 100' in text
    assert 'parley_refusals_total{node="lead",role="coordinator",event="run.refused"} 1' in text
    assert "norm" not in text


def test_labels_are_names_and_words_and_figures_are_finite() -> None:
    registry = Registry("party", "hospital-a")
    gauge = registry.gauge("parley_test", "For a test.", "party")
    for value in (0.73412, "0.73412", "a b", "x" * 200, None, b"share", 'x"} 1'):
        gauge.set(1, party=value)
    for value in (float("nan"), float("inf"), -1.0, True, "3"):
        gauge.set(value, party="hospital-a")  # type: ignore[arg-type]
    assert "parley_test" not in registry.text()
    with pytest.raises(ValueError, match="labels"):
        gauge.set(1, run="heart-1")


def test_ever_new_labels_do_not_fill_the_memory() -> None:
    counter = Registry("party", "hospital-a").counter("parley_test", "For a test.", "run")
    for place in range(MOST_SERIES + 100):
        counter.add(1, run=f"run-{place}")
    assert len(counter._values) == MOST_SERIES


def test_metrics_are_served_and_nothing_else_is() -> None:
    registry = Registry("aggregator", "north")
    level = registry.gauge("parley_pool_samples", "Noise samples ready.")
    registry.before_reading(lambda: level.set(5))
    registry.before_reading(lambda: 1 / 0)  # type: ignore[arg-type]
    server = serve(registry, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.server_address[1]}"
    with urllib.request.urlopen(f"{address}/metrics") as answer:
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert 'parley_pool_samples{node="north",role="aggregator"} 5' in answer.read().decode()
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"{address}/other")
    server.shutdown()
    server.server_close()
