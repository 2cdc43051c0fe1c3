"""`parley watch`: a run in the terminal, on the coordinator's machine.

parley watch heart-1 --node lead
"""

from parley.cli.options import CoordinatorOption, Json, RunName


def watch(run: RunName, node: CoordinatorOption, json_output: Json = False) -> None:
    """Follow a run until it ends or pauses: rounds, who is present, who is missing, how good the model is.

    Ctrl-C ends this command, not the run. Exit code 1 if the run ended in anything but a model.

    Example: parley watch heart-1 --node lead
    """
    from parley.cli.watch_screen import follow_to_its_end
    from parley.coordinator.operator_client import Coordinator

    coordinator = Coordinator(node)
    follow_to_its_end(coordinator, coordinator.store.find(run).digest, json_output)
