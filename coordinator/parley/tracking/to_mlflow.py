"""MLflow: a folder of this machine, or a server that the operator has named. `parley.tracking.process` runs it.

Through the client alone, which knows nothing of the process around it: no user, no path, no code is told.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parley.coordinator.store import RunRow, State
from parley.tracking.errors import TrackingError
from parley.tracking.process import main
from parley.tracking.released import Point

MANIFEST_TAG = "parley.manifest"
MOST_AT_ONCE = 500
"""Of metrics in one call: MLflow takes 1,000."""
HERE = "mlflow-artifacts:/"
"""Files go through the server itself. Another place that it names is one that nobody has written into node.toml."""


class MlflowSink:
    """One experiment, called as the federation."""

    def __init__(self, place: Path | str) -> None:
        from mlflow.entities import Metric, Param, RunTag
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient

        self._metric, self._param, self._tag = Metric, Param, RunTag
        self._refused = (MlflowException, OSError)
        self._server = isinstance(place, str)
        self._uri = place if isinstance(place, str) else place.absolute().as_uri()
        self._client: Any = self._asked(lambda: MlflowClient(self._uri, self._uri))

    def begin(self, row: RunRow, told: dict[str, str]) -> str:
        def begun() -> str:
            experiment = self._experiment(told["federation"])
            wanted = f"tags.`{MANIFEST_TAG}` = '{told['manifest']}'"
            for held in self._client.search_runs([experiment], wanted, max_results=1):
                return str(held.info.run_id)  # begun by a process that ended before it could write that down
            at = round(1000 * (row.started or row.submitted))
            tags = {MANIFEST_TAG: told["manifest"]}
            run = str(self._client.create_run(experiment, at, tags, told["run"]).info.run_id)
            self._client.log_batch(run, params=[self._param(name, value) for name, value in told.items()])
            return run

        return str(self._asked(begun))

    def _experiment(self, name: str) -> str:
        held = self._client.get_experiment_by_name(name)
        return str(held.experiment_id if held is not None else self._client.create_experiment(name))

    def log(self, run: str, found: Sequence[Point]) -> None:
        numbers = [self._metric(each.name, each.value, round(1000 * each.at), each.step) for each in found]
        for first in range(0, len(numbers), MOST_AT_ONCE):
            chunk = numbers[first : first + MOST_AT_ONCE]
            self._asked(lambda chunk=chunk: self._client.log_batch(run, metrics=chunk))

    def end(self, run: str, row: RunRow, files: Sequence[Path]) -> None:
        self._asked(lambda: self._end(run, row, files))

    def _end(self, run: str, row: RunRow, files: Sequence[Path]) -> None:
        if files and self._server:
            where = str(self._client.get_run(run).info.artifact_uri)
            if not where.startswith(HERE) or where.startswith(f"{HERE}/"):
                raise TrackingError(
                    "the MLflow server keeps files at another place than itself: the model is not sent there; start "
                    "it with --serve-artifacts"
                )
        for path in files:
            self._client.log_artifact(run, str(path))
        status = "FINISHED" if row.state is State.finished else "FAILED"
        self._client.set_terminated(run, status, round(1000 * (row.ended or row.submitted)))

    def _asked(self, call: Any) -> Any:
        try:
            return call()
        except self._refused as error:
            raise TrackingError(
                f"MLflow at {self._uri} has not taken it ({type(error).__name__}): check that the address in node.toml "
                "is right, that it can be reached or written to, and the login"
            ) from None


if __name__ == "__main__":
    main("mlflow", lambda track: track.mlflow, MlflowSink)
