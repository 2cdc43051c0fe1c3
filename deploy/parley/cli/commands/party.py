"""`parley party`: an institution's side. It dials out and serves nothing; its records never leave.

parley party run NODE
parley party runs NODE                                  # what was proposed, and what became of it
parley party approve NODE heart-1 --digest 9f86… --by "Dr. Ada Osei"
parley party approve NODE heart-1 --digest 9f86… --reviewer ada-osei --key ada.key     # where the policy has [review]
parley party refuse NODE heart-1 --by "Dr. Ada Osei" --reason "not what we agreed"
parley party policy NODE                                # the policy in force, and what policy.toml would change
parley party exclude NODE P-1047                        # whose records count for nothing from now on
parley party withdraw NODE heart-1 --by "Dr. Ada Osei"  # no further round is answered
parley party status NODE --json                         # budget left, what left the site
parley party settle NODE                                # what open runs did not spend, given back on proof
parley party check NODE --run heart-1                   # whether a run's columns are this party's
parley party populations NODE                           # whose budgets are kept here
"""

from dataclasses import asdict
from typing import Annotated

import typer

from parley.cli.commands import party_people
from parley.cli.console import EXIT_BAD_NEWS, CommandError, become, emit_json, progress, withdrawn
from parley.cli.options import Json, KeyFile, NodeFolder, PassphraseFile, Reviewer
from parley.federation.errors import ApprovalError, ManifestError
from parley.node.trail import Trail
from parley.party.books import open_ledger
from parley.party.data import data_set_of, require_equal, understand
from parley.party.overview import budgets_left, data_sets_of, manifest_of, runs_of, with_speed
from parley.party.process import party_node, settings_of
from parley.party.settlement import settle_now
from parley.privacy.budget import budget_of

app = typer.Typer(help="Run an institution's node: its process, its approvals, its budget.", no_args_is_help=True)


@app.command()
def run(node: NodeFolder) -> None:
    """Take part in runs until stopped. Prints one line of JSON when it is ready.

    Example: parley party run hospital-a. Before it: parley doctor hospital-a
    """
    become("parley.party", str(node))


@app.command()
def approve(
    node: NodeFolder,
    which: Annotated[
        str, typer.Argument(help="A manifest's TOML file, or the name of a run that waits.", metavar="RUN")
    ],
    digest: Annotated[str, typer.Option(help="Of the manifest that was read, as `parley party runs` shows it.")],
    by: Annotated[str | None, typer.Option(help="Who answers for it.")] = None,
    reviewer: Reviewer = None,
    key: KeyFile = None,
    passphrase_file: PassphraseFile = None,
    answer: Annotated[str, typer.Option(help="To objections that stand; it is signed, and kept here.")] = "",
    json_output: Json = False,
) -> None:
    """Admit a manifest by hand that the policy does not admit, or that has no policy to admit it.

    Where the policy in force has [review], --reviewer and --key add one signature in place of --by, and the run is
    admitted once there are enough. Some reasons are final, and nobody can override them. Exit code 1 then.

    Example: parley party approve hospital-a heart-1 --digest 9f86… --by "Dr. Ada Osei"
    """
    from parley.party import approval

    settings = settings_of(party_node(node))
    manifest = manifest_of(settings, which)
    if (by is None) == (reviewer is None):
        raise CommandError("say who approves: --by, or where the policy has [review] --reviewer and --key")
    if reviewer is None:
        found, lines, standing = approval.approve(settings, manifest, digest, by or "", progress), [], None
    else:
        opened = party_people.key_of(key, passphrase_file)
        signed = approval.sign_approval(settings, manifest, digest, reviewer, opened, progress, answer)
        found, standing = signed.approved, signed.standing
        lines = party_people.lines_of(standing)
    waits = not found.admitted and not found.reasons
    if json_output:
        body = {"run": manifest.run, "digest": manifest.digest.hex(), "admitted": found.admitted}
        body |= {} if standing is None else {"standing": standing.as_json()}
        emit_json({**body, "reasons": found.reasons})
    else:
        print("\n".join([*found.meaning.sentences, *lines]))
        why = f": {'; '.join(found.reasons)}" if found.reasons else ""
        print(("signed, and more signatures are due" if waits else "admitted" if found.admitted else "refused") + why)
    if not found.admitted and not waits:
        raise SystemExit(EXIT_BAD_NEWS)


app.command()(party_people.refuse)
app.command()(party_people.policy)
app.command()(party_people.exclude)


@app.command()
def withdraw(
    node: NodeFolder,
    which: Annotated[str, typer.Argument(help="The run's name.", metavar="RUN")],
    by: Annotated[str, typer.Option(help="Who answers for it.")],
    json_output: Json = False,
) -> None:
    """Leave a run for good: no further round of it is answered. What it was charged stays charged.

    Example: parley party withdraw hospital-a heart-1 --by "Dr. Ada Osei"
    """
    from parley.party import leaving

    manifest = leaving.withdraw(party_node(node), which, by)
    withdrawn(
        manifest.run,
        manifest.digest,
        "no further round is answered; what the run was charged stays charged",
        json_output,
    )


@app.command()
def settle(
    node: NodeFolder,
    which: Annotated[
        str | None, typer.Argument(help="A run's name; without one, all that are open.", metavar="RUN")
    ] = None,
    json_output: Json = False,
) -> None:
    """Get back the budget of runs that have ended, as far as both aggregators confirm it was not spent.

    Exit code 1 if a run stays charged, with the reason.

    Example: parley party settle hospital-a
    """
    settings = settings_of(party_node(node))
    found = settle_now(settings, which)
    budgets = budgets_left(settings)
    if json_output:
        emit_json({"runs": [asdict(each) for each in found], "budget": budgets[0], "budgets": budgets})
    else:
        for each in found:
            print(f"{each.run}: {'settled' if each.settled else f'stays charged: {each.reason}'}")
        if not found:
            print("no run is open")
        for budget in budgets:
            print(budget["summary"])
    if not all(each.settled for each in found):
        raise SystemExit(EXIT_BAD_NEWS)


@app.command()
def runs(node: NodeFolder, json_output: Json = False) -> None:
    """List every run that was proposed to this party, and what became of it.

    Example: parley party runs hospital-a. Next, for one that waits: parley party approve
    """
    found = runs_of(settings_of(party_node(node)))
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
def status(node: NodeFolder, json_output: Json = False) -> None:
    """Show the budget that is left, the records, the runs, what left the site, and how fast sums are computed here.

    How many bytes, and to whom. Records per second are shown here and nowhere else: no other node is told.

    Example: parley party status hospital-a
    """
    settings = settings_of(party_node(node))
    name, budgets, found = settings.identity.load().name.name, budgets_left(settings), runs_of(settings)
    found = [with_speed(settings, each) for each in found]
    held = data_sets_of(settings)
    if json_output:
        emit_json({"name": name, "budget": budgets[0], "budgets": budgets, "data": held, "runs": found})
        return
    for budget in budgets:
        print(f"{name}: {budget['summary']}")
    for data in held:
        age = f", taken from the database {data['age']} ago" if "age" in data else ""
        seal = "sealed" if data["sealed"] else "not sealed, runs wait: parley schema check"
        print(f"  {data['name'] or 'records'}: {seal}{age}")
    for each in found:
        sent = ", ".join(f"{count:,} bytes to {aggregator}" for aggregator, count in each["sent"].items())
        print(f"  {each['run']}: {each['state']}, {each['rounds_answered']} of {each['rounds']} rounds; {sent}")
        if speed := each["speed"]:
            rounds = f"over the last {speed['rounds']} rounds" if speed["rounds"] > 1 else "in the last round"
            print(f"    {speed['records_per_second']:,.0f} records per second {rounds}; nobody else is told")


@app.command()
def check(
    node: NodeFolder,
    which: Annotated[str, typer.Option("--run", help="A manifest's TOML file, or the name of a run.")],
    json_output: Json = False,
) -> None:
    """Check whether a run's columns are this party's, by schema.toml. Reads no record.

    Exit code 1 if they are not. The records themselves are compared by `parley schema check`.

    Example: parley party check hospital-a --run heart-1
    """
    from parley.learning.holding import read_holding

    settings = settings_of(party_node(node))
    manifest = manifest_of(settings, which)
    problem = None
    try:
        understood = understand(manifest)
        name = settings.identity.load().name
        require_equal(read_holding(data_set_of(settings, manifest, name).schema), manifest, understood, name)
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
    node: NodeFolder,
    apart: Annotated[
        str | None, typer.Option(help="Declare that NO person of this population is in another one here.")
    ] = None,
    by: Annotated[str | None, typer.Option(help="Who answers for that.")] = None,
    json_output: Json = False,
) -> None:
    """Show whose budgets this node keeps: all its data are one population, unless somebody declares otherwise.

    A person in two populations would have two budgets, so the declaration is kept in trail and ledger for good.

    Example: parley party populations hospital-a
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
