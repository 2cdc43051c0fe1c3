"""What rounds cost, and what the books say: heavy reading, for a short-lived process of low priority.

    echo '{"manifest": "parley manifest 2\\n{…}", "counts": [1, 10, 100]}' | python -m parley.dashboard.costs
    echo '{"ledger": "…/ledger.sqlite", "trail": "…/trail.jsonl"}'         | python -m parley.dashboard.costs

ε after k rounds is read from the event of the first k releases (`Event.first`), at the δ that the finite sampler leaves
of the manifest's, the sampler's ε included: with all rounds it is the claim. scipy and the tables of the noise's law
are imported here and nowhere else in this folder.
"""

import json
import os
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parley.federation.errors import FederationError
from parley.federation.extras import missing
from parley.federation.manifest import Manifest
from parley.mpc.errors import MpcError
from parley.privacy.errors import PrivacyError
from parley.privacy.ledger_copy import copied

NICENESS = 10


def spent(manifest: Manifest, counts: Sequence[int]) -> dict[str, Any]:
    """ε of the least protected party after each number of rounds, by both accountants; None where one has no answer."""
    from parley.federation.meaning import precision_of
    from parley.privacy.accountants import accountant
    from parley.privacy.finite_precision import gaussian_reading
    from parley.privacy.worst import worst

    claimed, precision = manifest.guarantee, precision_of(manifest)
    events = manifest.mechanism.events()
    least = worst(events, accountant(claimed.accountant))
    answer: dict[str, Any] = {"party": next(iter(least)), "counts": list(counts)}
    for name in ("pld", "rdp"):
        chosen = accountant(name)
        try:
            # Fewer releases cost less, so the δ that the sampler takes of the whole run is enough for a part of it.
            left = {
                party: gaussian_reading(precision, chosen, event, claimed.delta).delta for party, event in least.items()
            }
            answer[name] = [
                max(chosen.epsilon(event.first(count), left[party]).epsilon for party, event in least.items())
                + precision.epsilon_added
                if count
                else 0.0
                for count in counts
            ]
        except PrivacyError as error:
            answer[name], answer[f"{name}_refused"] = None, str(error)
    return answer


def books(ledger: Path, trail: Path) -> dict[str, Any]:
    """Both books, verified on copies, so that the coordinator never waits for a reader's lock."""
    try:
        return {"ledger": _ledger(ledger), "trail": _trail(trail)}
    except PrivacyError as error:
        return {"ledger": {"refused": str(error)}, "trail": _trail(trail)}


def _ledger(path: Path) -> dict[str, Any]:
    from parley.privacy.budget import if_a_server_lies

    if not path.exists():
        return {"refused": "Nothing was charged yet."}
    with copied(path) as ledger:
        head = ledger.verify()
        populations = [
            {
                "population": each.name,
                "unit": each.unit.name,
                "epsilon": each.spent.epsilon,
                "delta": each.spent.delta,
                "lying": if_a_server_lies(each.spent),
                "epsilon_cap": each.cap.epsilon,
                "delta_cap": each.cap.delta,
                "runs": [
                    {
                        "run": run.name,
                        "epsilon": run.cost.epsilon,
                        "delta": run.cost.delta,
                        "lying": if_a_server_lies(run.cost),
                        "charged": run.charge.event.count,
                        "recorded": len(run.recorded),
                        "ended": run.ended,
                    }
                    for run in ledger.runs.values()
                    if run.population == each.name
                ],
            }
            for each in ledger.populations.values()
        ]
        rule = ledger.policy.rule
    return {"head": str(head), "rule": rule, "populations": populations}


def _trail(path: Path) -> dict[str, Any]:
    from parley.node.trail import verify

    if not path.exists():
        return {"refused": "This node keeps no audit trail yet."}
    try:
        return {"head": str(verify(path).head)}
    except FederationError as error:
        return {"refused": str(error)}


def main() -> None:
    """One question in, one line of JSON out."""
    os.nice(NICENESS)
    asked = json.loads(sys.stdin.buffer.read())
    try:
        if "manifest" in asked:
            answer = spent(Manifest.from_canonical(asked["manifest"].encode("ascii")), asked["counts"])
        else:
            answer = books(Path(asked["ledger"]), Path(asked["trail"]))
    except (FederationError, MpcError, PrivacyError, OSError, sqlite3.Error) as error:
        answer = {"refused": str(error)}
    except ImportError as error:
        wanted = missing(error)
        if wanted is None:
            raise
        answer = {"refused": wanted}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
