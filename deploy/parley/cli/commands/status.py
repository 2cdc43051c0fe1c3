"""`parley status`, which is `parley coordinator status` too: every run of a coordinator.

parley status --node lead
"""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from parley.cli.console import emit_json
from parley.cli.options import CoordinatorOption, Json


def status(node: CoordinatorOption, json_output: Json = False) -> None:
    """List every run of this coordinator: its state, its round, its cost.

    Example: parley status --node lead
    """
    show_status(node, json_output)


def show_status(node: Path, json_output: bool) -> None:
    from parley.coordinator.operator_client import Coordinator, summary

    rows = [summary(row) for row in Coordinator(node).store.runs()]
    if json_output:
        emit_json({"runs": rows})
    else:
        Console().print(_table(rows) if rows else "no runs yet: parley run RUN.toml --node NODE")


def _table(rows: list[dict[str, Any]]) -> Table:
    from parley.privacy.lying import in_a_column

    table = Table("run", "state", "round", "epsilon", "if a server lies", "outcome", box=None)
    for row in rows:
        known = row["epsilon"] is not None
        costs = (f"{row['epsilon']:.4g}", in_a_column(row["epsilon_if_a_server_lies"])) if known else ("", "")
        outcome = escape(row["outcome"])  # it quotes peers
        table.add_row(row["run"], row["state"], f"{row['round']}/{row['rounds']}", *costs, outcome)
    return table
