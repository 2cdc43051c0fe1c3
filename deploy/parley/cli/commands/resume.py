"""`parley resume`: continue a run that stalled or was stopped.

parley resume heart-1 --node lead
"""

from parley.cli.console import emit_json
from parley.cli.options import CoordinatorOption, Json, RunName


def resume(run: RunName, node: CoordinatorOption, json_output: Json = False) -> None:
    """Continue a run that stalled or was paused, from the round that it waits for.

    Example: parley resume heart-1 --node lead
    """
    from parley.coordinator.operator_client import Coordinator

    state = Coordinator(node).resume(run)
    emit_json({"run": run, "state": state}) if json_output else print(f"run {run} is {state}")
