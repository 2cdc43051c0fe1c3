"""What of a party's folder is in a backup, and how the folder of a restored party begins.

No record and nothing by which one could be recognised: no data, no features, no snapshot of a database, no seal, no
salt. Nothing by which a sum could be unmasked: of the outbox no vector and no seed, only that there were answers.
"""

import glob
import secrets
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from parley.federation.names import NodeName, Role
from parley.node.alone import alone
from parley.node.backup import ADMISSIONS, EVERYTHING, INSIDE, LEDGER, OUTSIDE, Contents
from parley.node.backup_copy import Database, Row, Table
from parley.node.backup_key import BackupError
from parley.node.node_file import PartyNode
from parley.node.restoration import Restored, mark_of, write_head
from parley.party.account import known_servers, leave_open_runs, now
from parley.party.admission import Gate
from parley.party.data import Shelf
from parley.party.outbox import ANSWER, answer_of, sealed_row
from parley.party.process import settings_of
from parley.party.settings import Settings
from parley.party.wire import Wire

HISTORY = "runs seen audited receipts words"


def without_vectors(row: Row) -> Row:
    """An answer whose bytes are gone, as it is kept when the next one is stored."""
    answer = replace(answer_of([row[each] for each in ANSWER.split(", ")]), erased=True)
    return row | {"seal": sealed_row(row["digest"], answer)}


OUTBOX = Database(
    {
        "runs": Table("digest run manifest state reason at seal"),
        "answers": Table(
            "digest round query upload payload_a payload_b acknowledged sent_a sent_b seal",
            "payload_a payload_b",
            without_vectors,
        ),
        "seen": Table("digest round a b forgotten seal"),
        "audited": Table("digest epoch place a b seal"),
        "receipts": Table("digest round role word"),
        "words": Table("digest server restored seal"),
    }
)


def contents(node: PartyNode) -> Contents:
    """The list, with the files that its node.toml names."""
    schemas = {_below(node, each.schema): "what the records are" for each in node.data}
    queries = [each.query.text for each in node.data if each.query is not None]
    texts = {_below(node, text): "the query" for text in queries if isinstance(text, Path)}
    data = {_below(node, path): "records" for each in node.data for path in each.files}
    # The newest one counts: of an old one people who have objected since would be gone.
    lists = {_below(node, each.excluded): "who objected" for each in node.data if each.excluded is not None}
    return Contents(
        inside={
            **INSIDE,
            "*.toml": "what the records are",
            "state/ends/*": "both servers' signed ends",
            **schemas,
            **texts,
        },
        databases={
            "state/ledger.sqlite": LEDGER,
            "state/outbox.sqlite": OUTBOX,
            "state/admissions.sqlite": ADMISSIONS,
            "state/review.sqlite": EVERYTHING,
        },
        outside={
            **lists,
            **data,
            **OUTSIDE,
            "state/seal*.json": "what the records were recognised by: seal them again, `parley schema check`",
            "state/snapshot*.jsonl": "records, of a database: taken again",
            "state/features/*": "what was computed of records: made again",
            "state/exclusions/*": "whom open runs leave out: no run goes on",
            "state/excluded*.json": "what a list of exclusions was compared with: computed again",
            "state/newest/*": "public models, for the party's own page",
            "state/page.token": "what signs in to the party's own page: drawn anew",
            "state/speed/*": "how fast sums were computed here",
        },
    )


def _below(node: PartyNode, path: Path) -> str:
    """As a pattern of this very path; what lies elsewhere is in no backup."""
    return glob.escape(str(path.relative_to(node.folder) if path.is_relative_to(node.folder) else path))


def finish(restored: Restored) -> list[str]:
    """No run goes on, and nothing is charged before both servers have accounted for it; which runs were open."""
    node = restored.node
    if not isinstance(node, PartyNode):
        raise BackupError("the backup says that it is a party's, and its node.toml says otherwise")
    settings = settings_of(node)
    if settings.ledger.exists():
        write_head(settings.ledger)
    with closing(Gate(settings, restored.identity.name, Shelf(settings))) as gate:
        gate.ledger.put_back(restored.made, secrets.token_hex(16), known_servers(gate))
        gate.trail.append("node.restored", durable=True)
        return leave_open_runs(gate)


def account(node: PartyNode, give_up_by: str = "") -> tuple[list[str], list[str]]:
    """For a person, of a party that is stopped: runs that were charged now, and populations whose cap is given up.

    A folder that was put back without `parley restore` is one of an old state from now on.
    """
    settings = settings_of(node)
    name = settings.identity.load().name
    settings.state.mkdir(mode=0o700, exist_ok=True)
    targets = {NodeName(name.federation, Role.aggregator, each): at for each, at in settings.aggregators.items()}
    with (
        alone(settings.state, Role.party),
        closing(Gate(settings, name, Shelf(settings))) as gate,
        closing(Wire(settings.identity, targets)) as wire,
    ):
        gate.ledger.put_back(None, servers=known_servers(gate))
        leave_open_runs(gate)
        found = now(gate, wire, give_up_by)
    return list(found.runs), list(found.given_up)


def require_list(node: PartyNode, settings: Settings, data_set: str) -> None:
    """Refuse to begin a list of exclusions in a restored folder: whoever objected before would silently count again."""
    data = settings.chosen(data_set)
    if data is None or data.excluded is None or data.excluded.exists() or mark_of(node) is None:
        return
    raise BackupError(
        f"this folder was restored, and {data.excluded} is not there: a backup has no such list. Bring the newest one; "
        "if there never was one, make an empty file of that name"
    )
