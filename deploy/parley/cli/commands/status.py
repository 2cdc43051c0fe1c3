"""`parley status`, which is `parley coordinator status` too: every run of a coordinator.

parley status lead
"""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from parley.cli.console import emit_json
from parley.cli.options import Json, OfNode, OldNode, one_of


def status(node: OfNode = None, before: OldNode = None, json_output: Json = False) -> None:
    """List every run of this coordinator: its state, its round, its cost.

    Example: parley status lead
    """
    show_status(one_of(node, before, "NODE"), json_output)


def show_status(node: Path, json_output: bool) -> None:
    from parley.coordinator.operator_client import Coordinator, summary
    from parley.coordinator.store import State

    coordinator = Coordinator(node)
    found = []
    for row in coordinator.store.runs():
        presence = coordinator.presence_if_it_runs(row) if row.state is State.gathering else None
        found.append((summary(row, gathering := coordinator.gathering(row, presence)), str(gathering or "")))
    if json_output:
        emit_json({"runs": [body for body, _ in found]})
    else:
        Console().print(_table(found) if found else "no runs yet: parley run RUN.toml --node NODE")


def _table(rows: list[tuple[dict[str, Any], str]]) -> Table:
    """Of each run what `--json` has, and who has answered of one that is being gathered."""
    from parley.privacy.lying import in_a_column

    table = Table("run", "state", "round", "epsilon", "delta", "if a server lies", "outcome", box=None)
    for row, gathering in rows:
        known = row["epsilon"] is not None
        lying = in_a_column(row["epsilon_if_a_server_lies"]) if known else ""
        costs = (f"{row['epsilon']:.4g}", f"{row['delta']:.3g}", lying) if known else ("", "", "")
        outcome = escape(row["outcome"] or gathering)  # it quotes peers
        table.add_row(row["run"], row["state"], f"{row['round']}/{row['rounds']}", *costs, outcome)
    return table
