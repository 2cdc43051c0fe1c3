"""What a party's operator asks of its books: the runs that were proposed here, what left the site, the budget left."""

from pathlib import Path
from typing import Any

from parley.federation.errors import ApprovalError
from parley.federation.manifest import Manifest, of_an_earlier_version, read_manifest
from parley.party.books import open_ledger, states_of
from parley.party.outbox import ENDED, JOINED, LEFT, REFUSED, SETTLED, VERIFYING, WAITING, Outbox, RunState
from parley.party.review import cap_of
from parley.party.seal import taken
from parley.party.settings import Settings
from parley.party.snapshot import age
from parley.party.speed import speed_at
from parley.privacy.budget import Budget, budget_of


def manifest_of(settings: Settings, which: str, digest: str = "") -> Manifest:
    """Of a file, or of a run by its name; `digest`, or how it begins, says which of several under that name.

    Where several of them are not over, nobody can mean one by the name alone.
    """
    if Path(which).is_file():
        return read_manifest(Path(which))
    begins = digest.strip().lower()
    found = [held for held in states_of(settings) if held.run == which and held.digest.hex().startswith(begins)]
    live = [held for held in found if held.state in (WAITING, VERIFYING, JOINED)]
    if len(live) > 1 or (begins and len(found) > 1):
        several = ", ".join(held.digest.hex() for held in (live if len(live) > 1 else found))
        raise ApprovalError(
            f"{which} is the name of several manifests here ({several}): give --digest of the one, or its file"
        )
    if found:
        return Manifest.from_canonical((live or found)[-1].manifest)
    if begins:
        raise ApprovalError(f"the digest is not this manifest's: no run {which!r} of that digest was proposed here")
    raise ApprovalError(f"no run {which!r} was proposed here: see `parley party runs`, or give a manifest's file")


def _earlier(held: RunState) -> dict[str, Any]:
    """Of an earlier version, whose manifests are not read any more."""
    reason = held.reason or "of an earlier version of parley"
    numbers: dict[str, Any] = {"rounds": 0, "rounds_answered": 0, "last_round": -1, "sent": {}}
    return {
        "run": held.run,
        "digest": held.digest.hex(),
        "state": held.state,
        "reason": reason,
        "at": held.at,
    } | numbers


def runs_of(settings: Settings) -> list[dict[str, Any]]:
    """As `--json` shows them."""
    found = []
    states = states_of(settings)
    outbox = Outbox(settings.outbox) if states else None
    for held in states:
        if of_an_earlier_version(held.manifest):
            found.append(_earlier(held))
            continue
        manifest = Manifest.from_canonical(held.manifest)
        sent = outbox.sent(held.digest) if outbox else None
        names = [operator.name for operator in manifest.aggregators]
        found.append(
            {
                "run": held.run,
                "digest": held.digest.hex(),
                "state": held.state,
                "reason": held.reason,
                "at": held.at,
                "rounds": manifest.releases,
                "rounds_answered": sent.rounds if sent else 0,
                "last_round": sent.last_round if sent else -1,
                "sent": dict(zip(names, (sent.bytes_a, sent.bytes_b) if sent else (0, 0), strict=True)),
            }
        )
    if outbox:
        outbox.close()
    return found


def left_behind(state: str) -> str:
    """What a withdrawal does to a run in this state, and what it does not, for the person who withdraws."""
    if state in (ENDED, SETTLED):
        return (
            "the run was over already, so that nothing changes: its model is out, with this party's part in it; what "
            "can be done about that is in docs/leaving.md"
        )
    if state in (LEFT, REFUSED):
        return "this party had left the run already, and nothing of it was answered since"
    return (
        "no further round is answered; what was answered, and a model made of it, stays: docs/leaving.md; what the run "
        "was charged stays charged"
    )


def with_speed(settings: Settings, run: dict[str, Any]) -> dict[str, Any]:
    """For `parley party status` alone: one of `runs_of`, with how fast its sums are computed here."""
    return run | {"speed": speed_at(settings.speed(bytes.fromhex(run["digest"])))}


def budgets_left(settings: Settings) -> list[dict[str, Any]]:
    """Of each population here, with the ledger's head; all of it where nothing was charged yet."""
    found, ledger = [], open_ledger(settings) if settings.ledger.exists() else None
    cap = cap_of(settings)
    head = {} if ledger is None else {"head": str(ledger.verify())}
    for name in settings.populations:
        budget = Budget(cap, 0.0, 0.0)
        if ledger is not None and (held := ledger.populations.get(name)) is not None:
            budget = budget_of(ledger.policy, cap, held.spent)
        found.append({"population": name, **head, **budget.as_json(), "summary": f"{name}: {budget}"})
    if ledger is not None:
        ledger.close()
    return found


def data_sets_of(settings: Settings) -> list[dict[str, Any]]:
    """Each data set, whether it was ever sealed, and how old the rows of a database are; `parley doctor` reads the
    files to say whether the seal still holds."""
    found = []
    for data in settings.data:
        seal, last = settings.seal(data), taken(settings.seal(data))
        body = {"name": data.name, "population": data.population, "sealed": seal.exists()}
        found.append(body if last is None else body | {"taken_at": last.at, "age": age(last)})
    return found
