"""A node's signed report of a run, from its folder, whatever its role: for the command and for the demonstration."""

from collections.abc import Mapping
from pathlib import Path

from parley.node.credentials import Identity
from parley.node.node_file import AggregatorNode, AnyNode, PartyNode, read_node
from parley.report.facts import Dates, Facts
from parley.report.maker import made
from parley.report.signed import Report


def signed_report(folder: Path, run: str | None = None) -> Report:
    """Of a run by its name, or of the newest one; that it was signed is in the node's trail before this returns."""
    node = read_node(folder)
    return made(node, lambda identity, dates: _facts(node, identity, run, dates))


def _facts(node: AnyNode, identity: Identity, run: str | None, dates: Mapping[str, Dates]) -> Facts:
    """Of the role's own room, which an image of another role has not."""
    if isinstance(node, PartyNode):
        from parley.party.report import facts_of

        return facts_of(node, run, dates)
    if isinstance(node, AggregatorNode):
        from parley.aggregator.report import facts_of as of_an_aggregator

        return of_an_aggregator(node, identity, run)
    from parley.coordinator.report import facts_of as of_a_coordinator

    return of_a_coordinator(node, run, dates)
