"""A node's signed report of a run, from its folder, whatever its role: for the command and for the demonstration."""

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

from parley.node.credentials import Identity
from parley.node.node_file import AggregatorNode, AnyNode, PartyNode, read_node
from parley.node.trail import Trail
from parley.privacy.canonical import digest_of
from parley.report.content import content_of, in_the_trail
from parley.report.facts import Dates, Facts
from parley.report.identity import identity_of
from parley.report.signed import Report, sign


def signed_report(folder: Path, run: str | None = None) -> Report:
    """Of a run by its name, or of the newest one; that it was signed is in the node's trail before this returns."""
    node = read_node(folder)
    identity = identity_of(node.identity)
    head, dates = in_the_trail(node.trail)
    facts = _facts(node, identity, run, dates)
    content = content_of(node, identity, facts, head, dt.datetime.now(dt.UTC))
    report = sign(identity, content)
    with Trail.open(node.trail, identity.name) as trail:
        trail.append("report.signed", durable=True, run=facts.manifest.run, digest=digest_of(content))
    return report


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
