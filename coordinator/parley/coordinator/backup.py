"""What of a coordinator's folder is in a backup, and how the folder of a restored coordinator begins.

All that a coordinator has of records is noised: its runs, with models and checkpoints, are in it whole.
"""

import secrets
from contextlib import closing

from parley.coordinator.store import RunStore, State
from parley.federation.admission import AdmissionRecord
from parley.federation.names import Role
from parley.node.backup import ADMISSIONS, INSIDE, LEDGER, OUTSIDE, Contents
from parley.node.backup_copy import Database, Table
from parley.node.backup_key import BackupError
from parley.node.node_file import CoordinatorNode
from parley.node.restoration import Restored, write_head
from parley.node.trail import Trail
from parley.privacy.filters import Policy
from parley.privacy.ledger import Ledger

LOST = "lost: this coordinator was restored from a backup that was made while the run was under way"
RUNS = Database(
    {
        "runs": Table(
            "digest run manifest state outcome submitted started ended round question checkpoint theta claim evaluation"
        ),
        "members": Table("digest node answer reason"),
        "points": Table("digest point data"),
        "history": Table("digest round record"),
        "admissions": Table("digest aggregator word"),
        "statements": Table("digest round place word"),
        "examples": Table("digest round body"),
        "ends": Table("digest aggregator word"),
    }
)


def contents() -> Contents:
    return Contents(
        inside={
            **INSIDE,
            "*.toml": "what the public test set is",
            "models/*": "models and their cards",
            "state/starts/*.npz": "models that runs start from",
        },
        databases={
            "state/ledger.sqlite": LEDGER,
            "state/runs.sqlite": RUNS,
            "state/admissions.sqlite": ADMISSIONS,
        },
        outside={
            **OUTSIDE,
            "state/*.sock": "no content",
            "state/dashboard*": "the dashboard's token: made anew",
            "state/tracked/*": "what trackers were told: told again",
        },
    )


def finish(restored: Restored) -> list[str]:
    """No run goes on, and none is charged before both servers have accounted for this coordinator; which were open."""
    node = restored.node
    if not isinstance(node, CoordinatorNode):
        raise BackupError("the backup says that it is a coordinator's, and its node.toml says otherwise")
    lost = []
    with closing(RunStore(node.state / "runs.sqlite")) as store:
        for row in store.runs():
            if not row.state.final:
                store.set_state(row.digest, State.failed, LOST)
                lost.append(row.run)
    with closing(AdmissionRecord(node.admissions)) as record:
        listed = {name for digest, _ in record.rows() for name in record.members(digest)}
    federation = restored.identity.name.federation
    named = {each for each in (*listed, *restored.pins) if each.role is Role.aggregator}
    servers = {*node.aggregators, *(each.name for each in named if each.federation == federation)}
    there = node.ledger.exists()
    if there:
        write_head(node.ledger)
    with closing(Ledger.open(node.ledger) if there else Ledger.create(node.ledger, Policy())) as ledger:
        ledger.put_back(restored.made, secrets.token_hex(16), servers)
    with Trail.open(node.trail, restored.identity.name) as trail:
        trail.append("node.restored", durable=True)
        for run in lost:
            trail.append("run.lost", durable=True, run=run)
    return lost
