"""What `parley doctor` looks at in a party: its records, their seal, and whether its books tell one story."""

import os
from collections.abc import Iterator
from contextlib import closing

from parley.federation.manifest import Manifest
from parley.federation.names import NodeName
from parley.federation.policy import PartyPolicy, read_policy
from parley.learning.errors import PartyError
from parley.learning.holding import read_holding
from parley.node.doctor import FAILED, OK, WARNING, Finding, guarded
from parley.node.node_file import PartyNode
from parley.party.data import require_equal, understand
from parley.party.memory import require_agreement, require_ledger
from parley.party.outbox import Outbox
from parley.party.process import settings_of
from parley.party.seal import verified
from parley.party.settings import Settings
from parley.privacy.ledger import Ledger


def examine_party(node: PartyNode) -> Iterator[Finding]:
    """Beside what every node's doctor looks at."""
    yield guarded("seal", lambda: _seal(node))
    for path in node.data:
        if not os.access(path, os.R_OK):
            why = "cannot be read" if path.exists() else "is not there"
            yield Finding(f"data {path.name}", FAILED, why, "correct [data] files, or the file's mode")
        else:
            yield Finding(f"data {path.name}", OK, "can be read")
    settings = settings_of(node)
    if not node.ledger.exists():
        yield guarded("memory", lambda: _nothing_spent(settings))
    elif settings.outbox.exists():
        yield guarded("memory", lambda: _memory(node, settings))


def columns_of_run(check: str, node: PartyNode, name: NodeName | None, manifest: Manifest) -> Finding:
    """Whether a run's columns are this party's, by schema.toml. Reads no record."""
    if name is not None:
        require_equal(read_holding(node.schema), manifest, understand(manifest), name)
    return Finding(check, OK, f"its columns and its count of units are those of {node.schema.name}")


def _seal(node: PartyNode) -> Finding:
    """Every byte of the files, not a cell of the records."""
    check, fix = "seal", f"`parley schema check {node.folder}`: until then this node waits and joins no run"
    try:
        sealed = verified(settings_of(node))
    except PartyError as error:
        return Finding(check, FAILED, str(error), fix)
    policy = read_policy(node.policy) if node.policy.exists() else None
    if isinstance(policy, PartyPolicy) and policy.unit_column != sealed.holding.unit:
        units = [unit or "single rows" for unit in (policy.unit_column, sealed.holding.unit)]
        text = f"policy.toml protects {units[0]} and {node.schema.name} {units[1]}"
        return Finding(check, FAILED, text, "make them agree: no run is admitted otherwise")
    return Finding(check, OK, f"the records and {node.schema.name} are unchanged since they were compared")


def _nothing_spent(settings: Settings) -> Finding:
    require_ledger(settings)
    return Finding("memory", OK, "nothing was spent here yet")


def _memory(node: PartyNode, settings: Settings) -> Finding:
    """Whether ledger, outbox and trail agree, and which runs stay charged."""
    with closing(Ledger.open(node.ledger)) as ledger, closing(Outbox(settings.outbox)) as outbox:
        require_agreement(ledger, outbox, settings.trail)
        over = {held.run for held in outbox.runs() if held.state in ("ended", "left")}
        still = sorted(run.name for run in ledger.runs.values() if run.name in over and not run.ended)
    if still:
        text = f"{', '.join(still)}: over here, and charged until both aggregators confirm how it ended"
        return Finding("memory", WARNING, text, f"`parley party settle {node.folder}`")
    return Finding("memory", OK, "ledger, outbox and trail agree")
