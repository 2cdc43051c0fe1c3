"""Alerts and the dashboard for Grafana: every metric, label and event that they name is one of parley's own."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.programs import program, said

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
DECLARED = re.compile(r'\.(?:gauge|counter)\(\s*"(parley_\w+)",\s*"[^"]*"((?:,\s*"\w+")*)')
COMMON = {"node", "role", "job", "instance"}
"""Labels that every metric has, of the node and of Prometheus."""
FILES = ["federation/parley/node/*.py", "coordinator/parley/dashboard/exposition.py"]


def declared() -> dict[str, set[str]]:
    """Labels of each metric, by its name, as the code has them."""
    found: dict[str, set[str]] = {}
    for pattern in FILES:
        for path in ROOT.glob(pattern):
            for name, labels in DECLARED.findall(path.read_text()):
                found.setdefault(name, set()).update(re.findall(r'"(\w+)"', labels))
    return found


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((MONITORING / "rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def board() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((MONITORING / "grafana.json").read_text())
    return found


def expressions() -> dict[str, str]:
    found = {rule["alert"]: rule["expr"] for rule in rules()}
    for panel in board()["panels"]:
        found |= {f"{panel['title']} {each['refId']}": each["expr"] for each in panel["targets"]}
    return found


def test_every_metric_that_is_counted_is_found() -> None:
    assert {"parley_rounds_total", "parley_run_state", "parley_certificate_expires_seconds"} <= set(declared())
    assert declared()["parley_run_state"] == {"run", "state"}


@pytest.mark.parametrize("name", expressions())
def test_an_expression_names_metrics_and_labels_that_there_are(name: str) -> None:
    expression, known = expressions()[name], declared()
    used = set(re.findall(r"\bparley_\w+", re.sub(r'"[^"]*"', "", expression)))
    assert used <= set(known)
    labels = set(re.findall(r'(\w+)\s*(?:=~|=|!=|!~)"', expression))
    for grouped in re.findall(r"(?:by|on) \(([^)]*)\)", expression):
        labels |= {each.strip() for each in grouped.split(",")}
    assert labels <= COMMON.union(*(known[each] for each in used))


def test_every_event_and_state_that_is_asked_for_is_written_by_some_code() -> None:
    source = "".join(
        path.read_text()
        for room in ("coordinator", "mpc", "federation", "party")
        for path in (ROOT / room).rglob("*.py")
    )
    asked = [word for each in expressions().values() for word in re.findall(r'(?:event|state)=~?"([^"]+)"', each)]
    words = {word for alternatives in asked for word in alternatives.split("|")}
    assert {"noise.refused", "stalled"} <= words
    assert [word for word in sorted(words) if f'"{word}"' not in source] == []


def test_every_alert_has_a_test_and_something_to_do() -> None:
    tests = yaml.safe_load((MONITORING / "rules.test.yml").read_text())["tests"]
    raised = {each["alertname"] for test in tests for each in test["alert_rule_test"] if each["exp_alerts"]}
    assert raised == {rule["alert"] for rule in rules()}
    for rule in rules():
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert re.search(r"`parley [^`]+`", rule["annotations"]["fix"]), rule["alert"]


def test_prometheus_finds_nothing_wrong_with_the_rules_and_they_do_what_their_tests_say() -> None:
    promtool = program("promtool", "prometheus")
    for words in (["check", "config", "prometheus.yml"], ["test", "rules", "rules.test.yml"]):
        code, text = said([promtool, *words], MONITORING)
        assert code == 0, text


def test_a_rule_that_does_not_do_it_is_found(tmp_path: Path) -> None:
    text = (MONITORING / "rules.yml").read_text()
    assert "< 14 * 86400" in text
    (tmp_path / "rules.yml").write_text(text.replace("< 14 * 86400", "< 1 * 86400"))
    (tmp_path / "rules.test.yml").write_text((MONITORING / "rules.test.yml").read_text())
    code, text = said([program("promtool", "prometheus"), "test", "rules", "rules.test.yml"], tmp_path)
    assert code == 1
    assert "ParleyCertificateEndsSoon" in text


def test_every_expression_of_the_dashboard_is_understood_by_prometheus(tmp_path: Path) -> None:
    made = [{"record": f"panel:{place}", "expr": each} for place, each in enumerate(expressions().values())]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": made}]}))
    code, text = said([program("promtool", "prometheus"), "check", "rules", "rules.yml"], tmp_path)
    assert code == 0, text


def test_the_dashboard_has_what_grafana_asks_for() -> None:
    """By hand from Grafana's description of the JSON: its schema is in no package of the registries."""
    found = board()
    assert {"uid", "title", "schemaVersion", "panels", "time", "templating", "timezone"} <= set(found)
    assert "id" not in found, "Grafana gives it"
    assert [each["id"] for each in found["panels"]] == list(range(1, len(found["panels"]) + 1))
    (source,) = found["templating"]["list"]
    assert (source["type"], source["query"]) == ("datasource", "prometheus")
    taken: set[tuple[int, int]] = set()
    for panel in found["panels"]:
        assert {
            "id",
            "type",
            "title",
            "description",
            "datasource",
            "gridPos",
            "fieldConfig",
            "options",
            "targets",
        } == set(panel)
        assert panel["type"] in ("stat", "table", "timeseries")
        assert panel["datasource"] == {"type": "prometheus", "uid": f"${{{source['name']}}}"}
        assert set(panel["fieldConfig"]) == {"defaults", "overrides"}
        grid = panel["gridPos"]
        assert 0 <= grid["x"] < grid["x"] + grid["w"] <= 24
        cells = {(grid["x"] + x, grid["y"] + y) for x in range(grid["w"]) for y in range(grid["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
        for target in panel["targets"]:
            assert {"refId", "datasource", "expr", "legendFormat"} <= set(target)
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            known = COMMON.union(*(declared()[each] for each in re.findall(r"parley_\w+", target["expr"])))
            assert shown <= known
        steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", [])
        values = [step["value"] for step in steps]
        assert not steps or (values[0] is None and all(low < high for low, high in pairwise(values[1:])))


def test_nothing_but_a_node_of_ones_own_is_scraped() -> None:
    config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    targets = [
        target
        for job in config["scrape_configs"]
        for group in job.get("static_configs", [])
        for target in group["targets"]
    ]
    assert targets == ["127.0.0.1:9464"]
    assert "remote_write" not in config
