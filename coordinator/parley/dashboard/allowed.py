"""Why each thing that a page shows may be shown. A view with a field that is not listed here is refused, not rendered.

Nothing un-noised is on the list because nothing un-noised is at the coordinator; the list keeps it so when somebody
adds a field. Values are text, numbers, flags, times and tuples of them: no array, no bytes.
"""

import dataclasses
import math
from enum import Enum
from typing import Any

from parley.coordinator.errors import CoordinatorError

LONGEST_TEXT = 4000
MOST_ITEMS = 20_000


class Why(Enum):
    """Grounds on which a field is public."""

    configuration = "it is in the manifest, or follows from it, and every member has that"
    released = "it is a noised estimator, or computed from noised estimators alone"
    presence = "who took part and who answered is public by design"
    time = "when something happened and how long it took: no role's time depends on data"
    size = "how many bytes or samples: lengths are fixed by the manifest"
    log = "the line passed parley.node.facts when it was written, and again when it was read"
    ledger = "what was charged to the coordinator's ledger, computed from configuration"
    public = "it is of the public set, which the operator has named: nobody's private records are in it"
    operator = "the operator's own: names, messages, state of this process"


class NotAllowedError(CoordinatorError):
    """A page would show what is not on the list."""


def _fields(why: Why, names: str) -> dict[str, Why]:
    return dict.fromkeys(names.split(), why)


CONFIGURATION, RELEASED, PRESENCE, TIME = Why.configuration, Why.released, Why.presence, Why.time
SIZE, LOG, LEDGER, OPERATOR, PUBLIC = Why.size, Why.log, Why.ledger, Why.operator, Why.public

ALLOWED: dict[str, dict[str, Why]] = {
    "Line": _fields(CONFIGURATION, "name style") | _fields(RELEASED, "points"),
    "Chart": _fields(CONFIGURATION, "key title about unit first last now") | _fields(RELEASED, "lines value"),
    "Phase": _fields(CONFIGURATION, "key name") | _fields(TIME, "seconds"),
    "RoundTimes": _fields(TIME, "round at seconds phases") | _fields(PRESENCE, "present missing"),
    "Evaluated": _fields(TIME, "round") | _fields(RELEASED, "figures"),
    "PartyView": _fields(CONFIGURATION, "name units")
    | _fields(PRESENCE, "state tone reason rounds_present rounds last_missed strip"),
    "PoolView": _fields(CONFIGURATION, "name legal_entity")
    | _fields(SIZE, "available capacity produced used lost share_bytes")
    | _fields(SIZE, "audited")
    | _fields(OPERATOR, "answers error version evidence"),
    "AuditedPoolView": _fields(SIZE, "available capacity lanes audits_made audits_passed")
    | _fields(OPERATOR, "resting"),
    "SpentView": _fields(CONFIGURATION, "pld rdp pld_end rdp_end upto claimed delta accountant party chart")
    | _fields(OPERATOR, "state exact"),
    "LogLine": _fields(LOG, "time level event fields"),
    "LogView": _fields(LOG, "lines") | _fields(OPERATOR, "source seen"),
    "RunHead": _fields(CONFIGURATION, "name digest rounds epsilon delta lying claimed model algorithm parties")
    | _fields(OPERATOR, "state tone outcome can_stop can_resume")
    | _fields(TIME, "round submitted started ended seconds_left")
    | _fields(PRESENCE, "present"),
    "Totals": _fields(TIME, "seconds seconds_per_round") | _fields(SIZE, "bytes_down bytes_up bytes_per_round"),
    "TroubleView": _fields(PRESENCE, "node words lasting") | _fields(TIME, "seconds"),
    "RunView": _fields(OPERATOR, "head totals has_model has_examples")
    | _fields(CONFIGURATION, "spent")
    | _fields(RELEASED, "norms evaluations evaluated")
    | _fields(TIME, "phases timeline waiting_until")
    | _fields(PRESENCE, "parties waiting joined troubles")
    | _fields(SIZE, "pools"),
    "ExampleView": _fields(PUBLIC, "place row truth") | _fields(RELEASED, "answer chance"),
    "ExamplesView": _fields(OPERATOR, "head") | _fields(TIME, "round") | _fields(RELEASED, "wrong right"),
    "BudgetRun": _fields(LEDGER, "run epsilon delta lying charged recorded ended"),
    "Budget": _fields(LEDGER, "population unit epsilon delta lying epsilon_cap delta_cap runs"),
    "Books": _fields(LEDGER, "state rule ledger_head budgets")
    | _fields(LOG, "trail_state trail_head")
    | _fields(OPERATOR, "fresh"),
    "RunsView": _fields(OPERATOR, "runs books"),
    "Member": _fields(CONFIGURATION, "name role legal_entity units data_set") | _fields(PRESENCE, "answer reason"),
    "Ending": _fields(PRESENCE, "aggregator openings"),
    "PrivacyView": _fields(
        CONFIGURATION,
        "statement epsilon delta lying epsilon_added delta_added worst_party accountant unit relation sampling noise "
        "precision spent coalition members manifest_digest mechanism_digest",
    )
    | _fields(OPERATOR, "head printed")
    | _fields(LEDGER, "books")
    | _fields(PRESENCE, "endings")
    | _fields(SIZE, "bytes_up bytes_down"),
    "Page": _fields(OPERATOR, "node federation title csrf"),
}
"""By the view's class and field."""


def check(value: Any, where: str = "page") -> None:
    """Refuse whatever is not on the list, and whatever is no plain value."""
    if value is None or type(value) in (bool, int):
        return
    if type(value) is float:
        if not math.isfinite(value):
            raise NotAllowedError(f"{where} is {value}: show a finite number, or None")
    elif type(value) is str:
        if len(value) > LONGEST_TEXT:
            raise NotAllowedError(f"{where} is a text of {len(value)} characters: shorten it")
    elif type(value) is tuple:
        if len(value) > MOST_ITEMS:
            raise NotAllowedError(f"{where} has {len(value)} items: thin it out")
        for place, each in enumerate(value):
            check(each, f"{where}[{place}]")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        listed = ALLOWED.get(type(value).__name__, {})
        for field in dataclasses.fields(value):
            if field.name not in listed:
                raise NotAllowedError(f"{where}.{field.name} is not on the list in parley.dashboard.allowed")
            check(getattr(value, field.name), f"{where}.{field.name}")
    else:
        raise NotAllowedError(f"{where} is of type {type(value).__name__}: show text, numbers and views")
