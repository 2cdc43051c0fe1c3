"""`parley party`: an institution's side. It dials out and serves nothing; its records never leave.

parley party run NODE
parley party runs NODE                                  # what was proposed, and what became of it
parley party approve NODE heart-1 --digest 9f86… --by "Dr. Ada Osei"
parley party withdraw NODE heart-1 --by "Dr. Ada Osei"  # no further round is answered
parley party status NODE --json                         # budget left, what left the site
parley party settle NODE                                # what open runs did not spend, given back on proof
parley party check NODE --run heart-1                   # whether a run's columns are this party's
parley party populations NODE                           # whose budgets are kept here
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from parley.cli.console import EXIT_BAD_NEWS, become, emit_json, progress
from parley.federation.admission import AdmissionRecord, Refusal, approve_by_hand
from parley.federation.errors import ApprovalError, ManifestError, PolicyError
from parley.federation.manifest import Manifest, of_an_earlier_version, read_manifest
from parley.node.trail import Trail
from parley.party.admission import epsilon_spent, open_ledger, policy_of, spent_if_a_server_lies
from parley.party.data import require_equal, understand
from parley.party.outbox import Outbox
from parley.party.process import party_node, settings_of
from parley.party.settings import Settings
from parley.party.settlement import settle_now
from parley.privacy.budget import Budget, budget_of

app = typer.Typer(help="A party: its process, its approvals, its budget.", no_args_is_help=True)
Node = Annotated[Path, typer.Argument(help="The node's folder.", metavar="NODE")]
Json = Annotated[bool, typer.Option("--json", help="End standard output with one line of JSON.")]


@app.command()
def run(node: Node) -> None:
    """Take part in runs until stopped. Prints one line of JSON when it is ready."""
    become("parley.party", str(node))


@app.command()
def approve(
    node: Node,
    which: Annotated[
        str, typer.Argument(help="A manifest's TOML file, or the name of a run that waits.", metavar="RUN")
    ],
    digest: Annotated[str, typer.Option(help="Of the manifest that was read, as `parley party runs` shows it.")],
    by: Annotated[str, typer.Option(help="Who answers for it.")],
    json_output: Json = False,
) -> None:
    """Admit a manifest by hand, against the policy or without one. Exit code 1 where nobody may."""
    from parley.federation.meaning import verify_apart_with_charge
    from parley.learning.holding import read_holding

    settings = settings_of(party_node(node))
    manifest = _manifest(settings, which)
    if digest.strip().lower() != manifest.digest.hex():
        raise ApprovalError("the digest is not this manifest's: read the manifest, and give the digest it shows")
    progress("computing what the run costs, and the law of its noise")
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    ledger, record = open_ledger(settings), AdmissionRecord(settings.admissions)
    name = settings.identity.load().name
    require_equal(read_holding(settings.schema), manifest, understand(manifest), name)
    meaning, _ = verify_apart_with_charge(manifest, name.name, ledger.policy, settings.verified)
    try:
        policy = policy_of(settings)
    except PolicyError as error:
        progress(f"the policy is not understood, so nothing is admitted by it: {error}")
        policy = None
    spent = epsilon_spent(ledger, settings.population)
    lying = spent_if_a_server_lies(ledger, settings.population)
    found = approve_by_hand(record, meaning, name, policy, spent, digest, by, lying)
    admitted = not isinstance(found, Refusal)
    if admitted:
        with Trail.open(settings.trail, name) as trail:
            trail.append("run.approved", durable=True, run=manifest.run, manifest=manifest.digest.hex(), approved_by=by)
    reasons = [str(reason) for reason in found.reasons] if isinstance(found, Refusal) else list(found.overridden)
    if json_output:
        emit_json({"run": manifest.run, "digest": manifest.digest.hex(), "admitted": admitted, "reasons": reasons})
    else:
        print("\n".join(meaning.sentences))
        print(f"{'admitted' if admitted else 'refused'}{': ' + '; '.join(reasons) if reasons else ''}")
    if not admitted:
        raise SystemExit(EXIT_BAD_NEWS)


@app.command()
def withdraw(
    node: Node,
    which: Annotated[str, typer.Argument(help="The run's name.", metavar="RUN")],
    by: Annotated[str, typer.Option(help="Who answers for it.")],
    json_output: Json = False,
) -> None:
    """Leave a run: no further round of it is answered. For good; what it was charged stays charged."""
    from parley.cli import withdrawal as withdrawing

    manifest = withdrawing.withdraw(party_node(node), which, by)
    withdrawing.report(manifest, "no further round is answered; what it was charged stays charged", json_output)


@app.command()
def settle(
    node: Node,
    which: Annotated[
        str | None, typer.Argument(help="A run's name; without one, all that are open.", metavar="RUN")
    ] = None,
    json_output: Json = False,
) -> None:
    """Ask how runs ended that are still charged, and give back what both aggregators' words prove was not spent.

    Exit code 1 where a run stays open, with the reason.
    """
    settings = settings_of(party_node(node))
    found = settle_now(settings, which)
    budget = _budget(settings)
    if json_output:
        emit_json({"runs": [asdict(each) for each in found], "budget": budget})
    else:
        for each in found:
            print(f"{each.run}: {'settled' if each.settled else f'stays charged: {each.reason}'}")
        if not found:
            print("no run is open")
        print(budget["summary"])
    if not all(each.settled for each in found):
        raise SystemExit(EXIT_BAD_NEWS)


@app.command()
def runs(node: Node, json_output: Json = False) -> None:
    """Every run that was proposed here, and what became of it."""
    found = _runs(settings_of(party_node(node)))
    if json_output:
        emit_json({"runs": found})
        return
    for each in found:
        print(f"{each['run']}  {each['state']}  {each['rounds_answered']} rounds  {each['digest']}")
        if each["reason"]:
            print(f"  {each['reason']}")
    if not found:
        print("no run was proposed yet")


@app.command()
def status(node: Node, json_output: Json = False) -> None:
    """The budget that is left, the runs, and what left the site: bytes and destinations."""
    settings = settings_of(party_node(node))
    name, budget, found = settings.identity.load().name.name, _budget(settings), _runs(settings)
    if json_output:
        emit_json({"name": name, "budget": budget, "runs": found})
        return
    print(f"{name}: {budget['summary']}")
    for each in found:
        sent = ", ".join(f"{count:,} bytes to {aggregator}" for aggregator, count in each["sent"].items())
        print(f"  {each['run']}: {each['state']}, {each['rounds_answered']} of {each['rounds']} rounds; {sent}")


@app.command()
def check(
    node: Node,
    which: Annotated[str, typer.Option("--run", help="A manifest's TOML file, or the name of a run.")],
    json_output: Json = False,
) -> None:
    """Whether a run's columns are this party's, by schema.toml. Reads no record: that is `parley schema check`."""
    from parley.learning.holding import read_holding

    settings = settings_of(party_node(node))
    manifest = _manifest(settings, which)
    problem = None
    try:
        understood = understand(manifest)
        require_equal(read_holding(settings.schema), manifest, understood, settings.identity.load().name)
    except ManifestError as error:
        problem = str(error)
    if json_output:
        emit_json({"run": manifest.run, "fits": problem is None, "problem": problem})
    else:
        print("fits: its columns are this party's" if problem is None else f"does not fit: {problem}")
    if problem is not None:
        raise SystemExit(EXIT_BAD_NEWS)


@app.command()
def populations(
    node: Node,
    apart: Annotated[
        str | None, typer.Option(help="Declare that NO person of this population is in another one here.")
    ] = None,
    by: Annotated[str | None, typer.Option(help="Who answers for that.")] = None,
    json_output: Json = False,
) -> None:
    """Whose budgets this node keeps. All its data are one population, unless somebody answers for it that they are not.

    A person in two populations would have two budgets: the declaration is in the trail and in the ledger, for good.
    """
    settings = settings_of(party_node(node))
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    ledger = open_ledger(settings)
    if apart is not None:
        if by is None:
            raise ApprovalError("--apart needs --by: who answers for it that no person is in two populations")
        with Trail.open(settings.trail, settings.identity.load().name) as trail:
            trail.append("population.apart", durable=True, population=apart, approved_by=by)
        ledger.declare_apart(apart, by)
    found = [
        {"population": each.name, **budget_of(ledger.policy, each.cap, each.spent).as_json()}
        for each in ledger.populations.values()
    ]
    declared = sorted(ledger.declared_apart)
    ledger.close()
    if json_output:
        emit_json({"populations": found, "declared_apart": declared})
        return
    for each in found:
        print(f"{each['population']}: {each['summary']}")
    for name in declared:
        print(f"{name}: declared apart, its own budget")


def _manifest(settings: Settings, which: str) -> Manifest:
    if Path(which).is_file():
        return read_manifest(Path(which))
    for held in reversed(_states(settings)):
        if held.run == which:
            return Manifest.from_canonical(held.manifest)
    raise ApprovalError(f"no run {which!r} was proposed here: see `parley party runs`, or give a manifest's file")


def _states(settings: Settings) -> list[Any]:
    if not settings.outbox.exists():
        return []
    outbox = Outbox(settings.outbox)
    try:
        return list(outbox.runs())
    finally:
        outbox.close()


def _earlier(held: Any) -> dict[str, Any]:
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


def _runs(settings: Settings) -> list[dict[str, Any]]:
    found = []
    states = _states(settings)
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


def _budget(settings: Settings) -> dict[str, Any]:
    budget = Budget(settings.cap, 0.0, 0.0)
    body: dict[str, Any] = {"population": settings.population}
    if settings.ledger.exists():
        ledger = open_ledger(settings)
        held = ledger.populations.get(settings.population)
        body["head"] = str(ledger.verify())
        if held is not None:
            budget = budget_of(ledger.policy, settings.cap, held.spent)
        ledger.close()
    return body | budget.as_json() | {"summary": f"{settings.population}: {budget}"}
