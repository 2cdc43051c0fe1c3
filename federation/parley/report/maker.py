"""A node's signed report of what its own room says of a run: that it was signed is in the trail before it is given."""

import datetime as dt
from collections.abc import Callable, Mapping

from parley.node.credentials import Identity
from parley.node.node_file import AnyNode
from parley.node.trail import Trail
from parley.privacy.canonical import digest_of
from parley.report.content import content_of, in_the_trail
from parley.report.facts import Dates, Facts
from parley.report.identity import identity_of
from parley.report.signed import Report, sign


def made(node: AnyNode, facts_of: Callable[[Identity, Mapping[str, Dates]], Facts]) -> Report:
    """`facts_of` is given this node's identity, and when runs began and ended by its trail."""
    identity = identity_of(node.identity)
    head, dates = in_the_trail(node.trail)
    facts = facts_of(identity, dates)
    content = content_of(node, identity, facts, head, dt.datetime.now(dt.UTC))
    report = sign(identity, content)
    with Trail.open(node.trail, identity.name) as trail:
        trail.append("report.signed", durable=True, run=facts.manifest.run, digest=digest_of(content))
    return report
