"""`parley stop`: pause a run, or end it for good.

parley stop heart-1 --node lead
parley stop heart-1 --node lead --final
"""

from typing import Annotated

import typer

from parley.cli.console import emit_json
from parley.cli.options import CoordinatorOption, Json, RunName


def stop(
    run: RunName,
    node: CoordinatorOption,
    final: Annotated[bool, typer.Option(help="For good: both aggregators sign how many sums they opened.")] = False,
    json_output: Json = False,
) -> None:
    """Pause a run. `parley resume` continues it.

    With --final it ends for good, and parties get back what it did not spend.

    Example: parley stop heart-1 --node lead
    """
    from parley.coordinator.operator_client import Coordinator

    state = Coordinator(node).stop(run, final)
    said = f"run {run} has ended for good" if final else f"run {run} is {state}"
    emit_json({"run": run, "state": state}) if json_output else print(said)
