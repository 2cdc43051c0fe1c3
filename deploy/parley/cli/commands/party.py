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
parley party check NODE heart-1                         # whether a run's columns are this party's
parley party populations NODE                           # whose budgets are kept here
"""

from dataclasses import asdict
from typing import Annotated

import typer

from parley.cli.commands import party_people
from parley.cli.console import EXIT_BAD_NEWS, CommandError, become, emit_json, progress, withdrawn
from parley.cli.options import Json, KeyFile, NodeFolder, PassphraseFile, Reviewer, one_of
from parley.federation.errors import ManifestError
from parley.node.restoration import require_confirmed
from parley.party.books import open_ledger, states_of
from parley.party.data import data_set_of, require_equal, understand
from parley.party.exclusions import excluded_of, exclusions_of
from parley.party.overview import budgets_left, data_sets_of, left_behind, manifest_of, runs_of, with_speed
from parley.party.populations import declare_apart
from parley.party.process import party_node, settings_of
from parley.party.settlement import settle_now
from parley.party.standing import with_people
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
    manifest = manifest_of(settings, which, digest)
    if (by is None) == (reviewer is None):
        raise CommandError("say who approves: --by, or where the policy has [review] --reviewer and --key")
    if reviewer is None:
        found, lines, standing = approval.approve(settings, manifest, digest, by or "", progress), [], None
    else:
        opened = party_people.key_of(key, passphrase_file)
        signed = approval.sign_approval(settings, manifest, digest, reviewer, opened, progress, answer)
        found, standing = signed.approved, signed.standing
        lines = party_people.lines_of(standing.as_json())
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

    It takes back nothing that was answered, and no model: docs/leaving.md says what can be done then.

    Example: parley party withdraw hospital-a heart-1 --by "Dr. Ada Osei"
    """
    from parley.party import withdrawal

    here = party_node(node)
    manifest = withdrawal.withdraw(here, which, by)
    state = next((held.state for held in states_of(settings_of(here)) if held.digest == manifest.digest), "")
    withdrawn(manifest.run, manifest.digest, left_behind(state), json_output, state)


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
    here = party_node(node)
    require_confirmed(here)  # an end is proved by pins, and those of a backup may be of a key that was given up
    settings = settings_of(here)
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
    found = with_people(settings, found)
    held, excluded = data_sets_of(settings), exclusions_of(settings)
    if json_output:
        body = {"name": name, "budget": budgets[0], "budgets": budgets, "data": held, "runs": found}
        emit_json({**body, "excluded": [asdict(each) for each in excluded]})
        return
    for budget in budgets:
        print(f"{name}: {budget['summary']}")
    for data in held:
        age = f", taken from the database {data['age']} ago" if "age" in data else ""
        seal = "sealed" if data["sealed"] else "not sealed, runs wait: parley schema check"
        print(f"  {data['name'] or 'records'}: {seal}{age}")
    for listed in excluded:
        print(
            f"  excluded{f' from {listed.data_set}' if listed.data_set else ''}: {listed.summary}; nobody else is told"
        )
    for each in found:
        sent = ", ".join(f"{count:,} bytes to {aggregator}" for aggregator, count in each["sent"].items())
        print(f"  {each['run']}: {each['state']}, {each['rounds_answered']} of {each['rounds']} rounds; {sent}")
        if by := each["admitted"]:
            print(f"    admitted by {by['by']} on {by['at']}{', and left' if by['withdrawn'] else ''}")
        if each["state"] == "waiting" or each["people"]["refused"]:
            for line in party_people.lines_of(each["people"]):
                print(f"    {line}")
        if speed := each["speed"]:
            rounds = f"over the last {speed['rounds']} rounds" if speed["rounds"] > 1 else "in the last round"
            print(f"    {speed['records_per_second']:,.0f} records per second {rounds}; nobody else is told")


@app.command()
def check(
    node: NodeFolder,
    run: Annotated[
        str | None, typer.Argument(help="A manifest's TOML file, or the name of a run.", metavar="RUN")
    ] = None,
    which: Annotated[str | None, typer.Option("--run", hidden=True, help="RUN, as it was said before.")] = None,
    json_output: Json = False,
) -> None:
    """Check whether a run's columns are this party's, by schema.toml, and whom its list excludes. Compares no record.

    Exit code 1 if they are not. The records themselves are compared by `parley schema check`.

    Example: parley party check hospital-a heart-1
    """
    from parley.learning.holding import read_holding

    settings = settings_of(party_node(node))
    manifest = manifest_of(settings, one_of(run, which, "RUN"))
    problem = None
    try:
        understood = understand(manifest)
        name = settings.identity.load().name
        data = data_set_of(settings, manifest, name)
        require_equal(read_holding(data.schema), manifest, understood, name)
        excluded = None if data.excluded is None else excluded_of(settings, data)
    except ManifestError as error:
        problem, excluded = str(error), None
    if json_output:
        body = {"run": manifest.run, "fits": problem is None, "problem": problem}
        emit_json({**body, "excluded": None if excluded is None else asdict(excluded)})
    else:
        print("fits: its columns are this party's" if problem is None else f"does not fit: {problem}")
        if excluded is not None:
            print(f"excluded: {excluded.summary}; nobody else is told")
    if problem is not None:
        raise SystemExit(EXIT_BAD_NEWS)


@app.command()
def populations(
    node: NodeFolder,
    apart: Annotated[
        str | None, typer.Option(help="Declare that NO person of this population is in another one here.")
    ] = None,
    by: Annotated[str | None, typer.Option(help="Who answers for that.")] = None,
    reviewer: Reviewer = None,
    key: KeyFile = None,
    passphrase_file: PassphraseFile = None,
    json_output: Json = False,
) -> None:
    """Show whose budgets this node keeps: all its data are one population, unless somebody declares otherwise.

    A person in two populations would have two budgets, so the declaration is kept in trail and ledger for good. Where
    the policy in force has [review] it is a larger cap, and takes as many signatures: --reviewer and --key.

    Example: parley party populations hospital-a
    """
    settings = settings_of(party_node(node))
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    due = None
    if apart is not None:
        opened = None if reviewer is None else party_people.key_of(key, passphrase_file)
        due = declare_apart(settings, apart, by, reviewer, opened)
    ledger = open_ledger(settings)
    found = [
        {"population": each.name, **budget_of(ledger.policy, each.cap, each.spent).as_json()}
        for each in ledger.populations.values()
    ]
    declared = sorted(ledger.declared_apart)
    ledger.close()
    if json_output:
        emit_json({"populations": found, "declared_apart": declared, "signatures_due": due or 0})
        return
    if due:
        print(f"{apart}: signed, and {due} more {'signature is' if due == 1 else 'signatures are'} due")
    for each in found:
        print(f"{each['population']}: {each['summary']}")
    for name in declared:
        print(f"{name}: declared apart, its own budget")
