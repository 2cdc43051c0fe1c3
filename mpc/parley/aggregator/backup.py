"""What of an aggregation server's folder is in a backup, and how the folder of a restored server begins.

No share is in it. Noise, seeds and uploads are in no file in the first place.
"""

import secrets
import time
from contextlib import closing

from parley.aggregator.opening_store import TABLES, OpeningStore
from parley.aggregator.server import OPENINGS_FILE
from parley.federation.admission import AdmissionRecord
from parley.node.backup import ADMISSIONS, INSIDE, OUTSIDE, Contents
from parley.node.backup_copy import Database, Table
from parley.node.backup_key import BackupError
from parley.node.endings import RESTORED_BYTES
from parley.node.node_file import AggregatorNode
from parley.node.restoration import Restored
from parley.node.trail import Trail

OPENINGS = Database(
    {
        table: Table(" ".join([*(each.split()[0] for each in columns.split(", ")), "seal"]))
        for table, columns in TABLES.items()
        if table != "shares"
    },
    {"shares": "this server's shares of noised sums"},
)


def contents() -> Contents:
    return Contents(
        inside=INSIDE,
        databases={f"state/{OPENINGS_FILE}": OPENINGS, "state/admissions.sqlite": ADMISSIONS},
        outside=OUTSIDE,
    )


def finish(restored: Restored) -> list[str]:
    """Every run that was open is lost, and all that is signed from now on says that the server was restored; which
    runs were open.
    """
    node = restored.node
    if not isinstance(node, AggregatorNode):
        raise BackupError("the backup says that it is an aggregator's, and its node.toml says otherwise")
    with (
        closing(AdmissionRecord(node.admissions)) as record,
        closing(OpeningStore(node.state / OPENINGS_FILE)) as store,
    ):
        admitted = [run for _, run in record.rows()]
        word = secrets.token_bytes(RESTORED_BYTES)
        lost = store.put_back(word, restored.made, max(restored.made, int(time.time())), admitted)
    with Trail.open(node.trail, restored.identity.name) as trail:
        trail.append("node.restored", durable=True, epoch=word.hex())
        for run in lost:
            trail.append("run.lost", durable=True, run=run)
    return lost
