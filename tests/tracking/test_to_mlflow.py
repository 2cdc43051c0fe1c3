"""MLflow's own client finds what was sent, and nothing besides; nothing leaves the machine that was not told to."""

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from parley.coordinator.result import model_path
from parley.study.model_file import load
from parley.tracking.released import EPSILON, PARAMETERS
from tests.support.tracked import Ended, offline, sent, tracking

pytestmark = pytest.mark.slow
READ = """
import json, sys
from mlflow.tracking import MlflowClient
client = MlflowClient(sys.argv[1])
runs = [run for each in client.search_experiments() for run in client.search_runs([each.experiment_id])]
print(json.dumps([{
    "experiment": client.get_experiment(run.info.experiment_id).name,
    "name": run.info.run_name, "status": run.info.status, "user": run.info.user_id,
    "params": run.data.params, "tags": run.data.tags,
    "metrics": {
        name: [(each.step, each.value) for each in client.get_metric_history(run.info.run_id, name)]
        for name in run.data.metrics
    },
    "files": sorted(each.path for each in client.list_artifacts(run.info.run_id)),
    "where": run.info.artifact_uri,
} for run in runs]))
"""
"""In a process of its own: the library sets itself up for the whole of one."""


def read_back(folder: Path) -> Any:
    quiet = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", READ, folder.as_uri()],
        capture_output=True, text=True, check=True, env={**os.environ, **quiet},
    )  # fmt: skip
    return json.loads(done.stdout)


WATCHED = """
import runpy, sys
sys.argv = ["to_mlflow", sys.argv[1]]
def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.gethostbyname"):
        print(event, arguments, file=sys.stderr, flush=True)
sys.addaudithook(watch)
runpy.run_module("parley.tracking.to_mlflow", run_name="__main__")
"""


def test_its_client_finds_every_released_figure_and_nothing_dials_though_there_is_a_network(
    ended: Ended, tmp_path: Path
) -> None:
    """Not even tried: the guard that would refuse it is not asked. And the environment may say otherwise."""
    tracking(ended.folder, mlflow=tmp_path / "mlruns")
    with listener() as (port, heard):
        loud = {
            "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{port}",
            "MLFLOW_DISABLE_TELEMETRY": "false",
            "_MLFLOW_TESTING_TELEMETRY": "true",
        }
        done = subprocess.run(
            [sys.executable, "-P", "-c", WATCHED, str(ended.folder)],
            capture_output=True, text=True, timeout=900, check=False, env={**os.environ, **loud},
        )  # fmt: skip
        assert (done.returncode, done.stderr, heard) == (0, "", [])
    (run,) = read_back(tmp_path / "mlruns")
    check(ended, run)
    # A process whose notes were lost sends all again: to the same run, and without any network.
    for path in (ended.folder / "state" / "tracked").iterdir():
        path.write_text("{")
    done = sent("mlflow", ended.folder, offline())
    assert (done.returncode, done.stderr) == (0, "")
    assert [each["name"] for each in read_back(tmp_path / "mlruns")] == ["warm"]


def check(ended: Ended, run: Any) -> None:
    card = load(model_path(ended.folder, "warm")).card
    assert (run["experiment"], run["name"], run["status"]) == ("cardio", "warm", "FINISHED")
    assert run["metrics"].keys() == {
        "public/loss", "public/error", "public/accuracy", "public/auc", "released/estimator_norm",
        "released/noise_norm", EPSILON,
    }  # fmt: skip
    expected = [[each.round + 1, each.evaluation["loss"]] for each in ended.records]
    assert run["metrics"]["public/loss"] == expected
    assert run["params"].keys() <= set(PARAMETERS)
    assert run["params"]["epsilon"] == str(card["epsilon"])
    assert run["params"]["start"] == card["start"]["digest"]
    assert run["files"] == ["warm.card.json", "warm.npz"]
    assert load(Path(run["where"].removeprefix("file://")) / "warm.npz").card == card
    # Nothing of the process: no person, no path of this machine, no code.
    assert run["tags"].keys() == {"mlflow.runName", "parley.manifest"}
    assert run["user"] == "unknown"


@contextmanager
def listener() -> Iterator[tuple[int, list[str]]]:
    """A server that is no MLflow: refuses everything, and writes down what it was asked."""
    heard: list[str] = []

    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.path)
            self.send_response(302)
            self.send_header("Location", "http://elsewhere.example.org/api")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            """Not on standard error."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, heard
        finally:
            server.shutdown()
            thread.join()


def test_a_server_is_asked_where_the_operator_has_named_it_and_sends_nobody_elsewhere(ended: Ended) -> None:
    with listener() as (port, heard):
        tracking(ended.folder, mlflow=f"http://127.0.0.1:{port}")
        done = sent("mlflow", ended.folder)
    assert heard
    assert done.returncode == 1
    said = json.loads(done.stderr.strip().splitlines()[-1])
    assert said["event"] == "the tracker failed"
    assert "check that the address in node.toml is right" in said["message"]
    assert "elsewhere" not in done.stderr


def test_without_its_package_the_log_says_what_to_install(ended: Ended, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['mlflow'] = None\n")
    tracking(ended.folder, mlflow=tmp_path / "mlruns")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "parley.tracking.to_mlflow", str(ended.folder)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    said = json.loads(done.stderr.strip().splitlines()[-1])
    assert (done.returncode, "pip install 'parley-federation[mlflow]'" in said["message"]) == (1, True)
