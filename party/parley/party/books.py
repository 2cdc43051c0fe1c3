"""A party's ledger, as its process and its operator open it, and what it says of their records."""

import contextlib

from parley.party.memory import require_ledger
from parley.party.outbox import Outbox, RunState
from parley.party.settings import Settings
from parley.privacy.errors import LedgerRefusedError
from parley.privacy.filters import Policy, epsilon_of
from parley.privacy.ledger import Ledger


def open_ledger(settings: Settings) -> Ledger:
    """This party's ledger; an empty one at first, and never where anything says that there was one."""
    if not settings.ledger.exists():
        require_ledger(settings)
        with contextlib.suppress(LedgerRefusedError):  # another thread was faster
            Ledger.create(settings.ledger, Policy()).close()
    return Ledger.open_newest(settings.ledger)


def require_populations(ledger: Ledger, settings: Settings) -> None:
    """A LedgerRefusedError where a name in node.toml would be a fresh budget that nobody answers for.

    Names that were not charged yet count as well: of two of them each has to be declared apart.
    """
    for name in settings.populations:
        ledger.require_own(name, None, settings.populations)


def epsilon_spent(ledger: Ledger, population: str) -> float:
    """What the ledger has charged for these records, as one ε."""
    if population not in ledger.populations:
        return 0.0
    held = ledger.populations[population]
    return epsilon_of(ledger.policy, held.cap, held.spent)


def spent_if_a_server_lies(ledger: Ledger, population: str) -> float | None:
    """The sum of ε₂ over these records' runs; None where one had no guarantee."""
    if population not in ledger.populations:
        return 0.0
    return ledger.populations[population].spent.epsilon_if_a_server_lies


def states_of(settings: Settings) -> list[RunState]:
    """Every run that was proposed here, as the outbox has it."""
    if not settings.outbox.exists():
        return []
    outbox = Outbox(settings.outbox)
    try:
        return list(outbox.runs())
    finally:
        outbox.close()
