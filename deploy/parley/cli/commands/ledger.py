"""`parley ledger`: what was spent, and whether the book is the one that was written.

    parley ledger show party.ledger
    parley ledger verify party.ledger --anchor 128:9f86…0a08 --json

Exit code 1 where `verify` finds an edit, a gap, a reordering or a cut. The anchor is a head that an earlier `show` or
`verify` printed and that somebody else kept: without one, a ledger put back whole to an old state looks sound.
"""

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from parley.cli.console import EXIT_BAD_NEWS, emit_json, fail
from parley.cli.options import Json
from parley.federation.admission import AdmissionRecord
from parley.node.node_file import Node
from parley.privacy.budget import budget_of
from parley.privacy.errors import LedgerCorruptError
from parley.privacy.filters import recounted
from parley.privacy.head import Head
from parley.privacy.ledger import Ledger
from parley.privacy.ledger_state import Population
from parley.privacy.lying import guaranteed, in_words

app = typer.Typer(help="Read and verify a privacy ledger.", no_args_is_help=True)

LedgerPath = Annotated[Path, typer.Argument(metavar="NODE", help="The node's folder, or a ledger's file.")]


def ledger_of(path: Path) -> Path:
    """A node's, or the file itself."""
    return Node(folder=path).ledger if path.is_dir() else path


@app.command()
def show(path: LedgerPath, json: Json = False) -> None:
    """Show the budgets, the runs and the head of a ledger, after verifying it.

    Next: give the head to somebody else to keep, for a later `parley ledger verify --anchor`.

    Example: parley ledger show hospital-a
    """
    path = ledger_of(path)
    ledger = Ledger.open(path)
    head = ledger.verify()
    populations = [_population(ledger, item) for item in ledger.populations.values()]
    admitted = _admitted(path)
    runs = [
        {
            "admitted": admitted.get(run.name),
            "run": run.name,
            "population": run.population,
            "releases_charged": run.charge.event.count,
            "releases_recorded": len(run.recorded),
            "ended": run.ended,
            "epsilon": run.cost.epsilon,
            "delta": run.cost.delta,
            "epsilon_if_a_server_lies": guaranteed(run.cost.epsilon_if_a_server_lies),
            "delta_if_a_server_lies": run.cost.delta_if_a_server_lies,
            "rdp": run.cost.rdp,
            "caught": run.evidence,
        }
        for run in ledger.runs.values()
    ]
    if json:
        emit_json({"head": str(head), "policy": ledger.policy.as_json(), "populations": populations, "runs": runs})
        return
    for item in populations:
        print(f"{item['population']} (unit {item['unit']}): {item['summary']}")
    for entry in runs:
        state = "ended" if entry["ended"] else "open"
        made = f"{entry['releases_recorded']:,} of {entry['releases_charged']:,} released"
        cost = f"epsilon {entry['epsilon']:.4g} and delta {entry['delta']:.3g}"
        if ledger.policy.rule == "rdp":
            cost = f"Renyi divergence {entry['rdp']:.4g}"
        held = ledger.runs[str(entry["run"])].cost
        cost += f" charged; {in_words(held.epsilon_if_a_server_lies, held.delta_if_a_server_lies)}"
        if evidence := ledger.runs[str(entry["run"])].evidence:
            cost += f"; AT WHAT HOLDS IF A SERVER LIES, for one was caught (evidence {', '.join(evidence)})"
        print(f"  run {entry['run']} on {entry['population']}: {made}, {state}, {cost}")
        if by := admitted.get(str(entry["run"])):
            print(f"    admitted by {by['by']} on {by['at']}")
    print(f"head {head}")


def _admitted(path: Path) -> dict[str, dict[str, str]]:
    """Who let runs in and when, by the record that lies beside a node's ledger; nothing of a ledger elsewhere."""
    beside = path.with_name("admissions.sqlite")
    if not beside.exists():
        return {}
    with closing(AdmissionRecord(beside)) as record:
        return {each.manifest.run: {"by": each.approved_by, "at": each.at} for each, _ in record.all()}


@app.command()
def verify(
    path: LedgerPath,
    anchor: Annotated[str | None, typer.Option(help="A head that somebody else kept, as sequence:digest.")] = None,
    recount: Annotated[bool, typer.Option(help="Also compute every run's charge again.")] = False,
    json: Json = False,
) -> None:
    """Find any edit, gap, reordering or cut in a ledger. Exit code 1 if there is one.

    A ledger that was put back whole to an earlier state is found only with --anchor.

    Example: parley ledger verify hospital-a --anchor 128:9f86…0a08
    """
    try:
        kept = Head.parse(anchor) if anchor is not None else None
        ledger = Ledger.open(ledger_of(path), kept)
        head = ledger.verify(kept)
        if recount:
            _recount(ledger)
    except LedgerCorruptError as problem:
        if json:
            emit_json({"intact": False, "problem": str(problem)})
        fail(str(problem), EXIT_BAD_NEWS)
    if json:
        emit_json({"intact": True, "entries": head.sequence, "head": str(head), "anchored": kept is not None})
    else:
        print(f"{head.sequence} entries, intact; head {head}")
        if kept is None:
            print("to detect a rollback as well, give an earlier head with --anchor")


def _recount(ledger: Ledger) -> None:
    for run in ledger.runs.values():
        charged, due = run.charge.cost, recounted(run.charge, ledger.policy)
        # An accountant that became tighter is no fault; lattices and library versions differ by less than this.
        if due.epsilon > charged.epsilon * 1.002 or due.rdp > charged.rdp * 1.002:
            raise LedgerCorruptError(
                f"run {run.name} was charged epsilon {charged.epsilon:.4g}, Renyi {charged.rdp:.4g}, and its event "
                f"costs {due.epsilon:.4g}, {due.rdp:.4g}: find out what computed it"
            )


def _population(ledger: Ledger, item: Population) -> dict[str, Any]:
    budget = budget_of(ledger.policy, item.cap, item.spent)
    runs = sum(run.population == item.name for run in ledger.runs.values())
    body = {"population": item.name, "unit": item.unit.name, "runs": runs, **budget.as_json()}
    if ledger.policy.rule == "rdp":
        body |= {"order": ledger.policy.order, "rdp_left": max(0.0, budget.rdp_capacity - budget.rdp_spent)}
    return body
