"""Ledgers as files."""

import sqlite3
from pathlib import Path

from parley.privacy.head import Head
from tests.support.ledgers import BASIC, new


def filled(path: Path) -> tuple[Path, Head]:
    ledger = new(path)
    ledger.reserve("one", "ward", BASIC)
    ledger.record("one", 0, "a")
    ledger.reserve("two", "ward", BASIC)
    head = ledger.verify()
    ledger.close()
    return path, head


def by_hand(path: Path, *statements: str, keep_triggers: bool = False) -> None:
    connection = sqlite3.connect(path)
    dropped = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in dropped:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    for _, sql in () if keep_triggers else dropped:
        connection.execute(sql)
    connection.commit()
    connection.close()
