"""The part of `parley party` that is about people: who refuses, which policy is in force, who is excluded."""

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley.cli.console import CommandError, emit_json
from parley.cli.options import Json, KeyFile, NodeFolder, PassphraseFile, Reviewer
from parley.cli.passphrase import required
from parley.federation.errors import PolicyError
from parley.party.overview import manifest_of
from parley.party.process import party_node, settings_of

if TYPE_CHECKING:
    from parley.node.reviewer_key import ReviewerKey
    from parley.party.review import Proposal


def key_of(key: Path | None, passphrase_file: Path | None) -> "ReviewerKey":
    """A reviewer's, opened."""
    from parley.node.reviewer_key import ReviewerKey

    if key is None:
        raise CommandError("--reviewer needs --key: the file that `parley reviewer key` made for that person")
    return ReviewerKey.load(key, required(passphrase_file, key.name))


def lines_of(found: Mapping[str, Any]) -> list[str]:
    """Where a run stands with this party's people, for its operator alone: of `Standing.as_json`."""
    lines = []
    if refused := found["refused"]:
        lines.append(f"refused by {refused['by']} on {refused['at']}: {refused['reason']}")
    if found["needed"]:
        signed = sum(each["counts"] for each in found["signatures"])
        lines.append(f"{signed} of {found['needed']} signatures")
    for vote in found["signatures"]:
        said = f"; answers: {vote['answer']}" if vote["answer"] else ""
        state = f"until {vote['expires']}" if vote["counts"] else f"does not count: it {vote['why_not']}"
        lines.append(f"  {vote['reviewer']} signed on {vote['at']}, {state}{said}")
    lines += [f"  {each['reviewer']} objects, since {each['at']}: {each['reason']}" for each in found["objections"]]
    return lines


def refuse(
    node: NodeFolder,
    which: Annotated[str, typer.Argument(help="The name of a run that waits.", metavar="RUN")],
    reason: Annotated[str, typer.Option(help="Why, in one line. It stays on this machine.")],
    by: Annotated[str | None, typer.Option(help="Who refuses it for this node, for good.")] = None,
    reviewer: Reviewer = None,
    key: KeyFile = None,
    passphrase_file: PassphraseFile = None,
    digest: Annotated[str, typer.Option(help="Of its manifest, where several have that name.")] = "",
    json_output: Json = False,
) -> None:
    """Refuse a run that waits. Others hear that it is refused; the reason stays on this machine.

    With --by it is refused for good. With --reviewer and --key it is one reviewer's objection: whoever signs for the
    run is shown it and has to answer it, and with too few reviewers left to approve the run it is refused.

    Example: parley party refuse hospital-a heart-1 --by "Dr. Ada Osei" --reason "not what we agreed"
    """
    from parley.party import approval

    settings = settings_of(party_node(node))
    manifest = manifest_of(settings, which, digest)
    if (by is None) == (reviewer is None):
        raise CommandError("say who refuses: --by for this node, or --reviewer and --key for one reviewer's objection")
    if reviewer is not None:
        found = approval.object_to(settings, manifest, reviewer, key_of(key, passphrase_file), reason)
    else:
        found = approval.refuse(settings, manifest, by or "", reason)
    if json_output:
        emit_json({"run": manifest.run, "digest": manifest.digest.hex(), **found.as_json()})
    else:
        print(f"{'refused' if found.refused else 'objected to'}  {manifest.run}")
        print("\n".join(f"  {line}" for line in lines_of(found.as_json())))


def policy(
    node: NodeFolder,
    sign: Annotated[bool, typer.Option("--sign", help="Sign what has this --digest, as --reviewer.")] = False,
    digest: Annotated[
        str, typer.Option(help="With --sign: of the proposal that was read, as this command shows.")
    ] = "",
    reviewer: Reviewer = None,
    key: KeyFile = None,
    passphrase_file: PassphraseFile = None,
    json_output: Json = False,
) -> None:
    """Show which policy is in force, and what policy.toml would change; sign the change.

    Where a policy has [review], policy.toml is a proposal until enough reviewers of the policy in force have signed it.
    [budget] of node.toml goes with it. What is signed is what was read: another digest is refused.

    Example: parley party policy hospital-a --sign --digest 9f86… --reviewer ada-osei --key ada.key
    """
    from parley.party import review

    settings = settings_of(party_node(node))
    review.require_newest(settings)
    with contextlib.suppress(PolicyError):  # what is wrong with the file is said below
        review.policy_of(settings)  # the first one with [review] is in force from now on
    if sign:
        if reviewer is None:
            raise CommandError("--sign needs --reviewer and --key: who signs")
        if not digest:
            raise CommandError("--sign needs --digest: of what you have read, as `parley party policy NODE` shows it")
        changes = review.to_sign(settings, digest).lines
        # Before the passphrase, which is what a person signs with; standard output is a program's with --json.
        print("\n".join(["you sign:", *(f"  {line}" for line in changes)]), file=sys.stderr if json_output else None)
        review.sign_policy(settings, reviewer, key_of(key, passphrase_file), digest)
    elif reviewer is not None or digest:
        raise CommandError("--reviewer and --digest are for signing: add --sign")
    held, found = review.in_force(settings), review.proposal(settings)
    if json_output:
        emit_json({"in_force": _in_force(held), "proposal": _proposed(found)})
        return
    if held is None:
        print("no policy with [review] was in force yet: policy.toml counts as it stands")
        return
    by = f", signed by {held.signed_by}" if held.signed_by else ", trusted when it was first seen"
    print(f"in force  policy {held.number} since {held.at}{by}\n  digest {held.digest}")
    if found is None:
        print("policy.toml says the same")
        return
    print("\n".join(_proposal_lines(found)))


def _proposal_lines(found: "Proposal") -> list[str]:
    if found.problem:
        return [f"policy.toml is not in force, and cannot be signed: {found.problem}"]
    cap = ", for it raises what records may cost" if found.larger_cap else ""
    signed = sum(each.counts for each in found.signatures)
    lines = ["policy.toml is a proposal, which would change:", *(f"  {line}" for line in found.lines)]
    lines.append(f"  {signed} of {found.needed} signatures{cap}; digest {found.digest}")
    for vote in found.signatures:
        state = f"until {vote.expires}" if vote.counts else f"does not count: it {vote.why_not}"
        lines.append(f"  {vote.reviewer} signed on {vote.at}, {state}")
    command = f"parley party policy NODE --sign --digest {found.digest} --reviewer NAME --key FILE"
    return [*lines, f"to sign it: {command}"]


def _in_force(held: Any) -> dict[str, Any] | None:
    if held is None:
        return None
    return {"number": held.number, "digest": held.digest, "at": held.at, "signed_by": held.signed_by}


def _proposed(found: "Proposal | None") -> dict[str, Any] | None:
    if found is None:
        return None
    body = {name: getattr(found, name) for name in ("digest", "needed", "larger_cap", "enough", "problem")}
    names = ("reviewer", "at", "expires", "counts", "why_not")
    signatures = [{name: getattr(each, name) for name in names} for each in found.signatures]
    return {**body, "differences": list(found.lines), "signatures": signatures}


def exclude(
    node: NodeFolder,
    identifiers: Annotated[
        list[str] | None,
        typer.Argument(help="As the schema's unit column has them; else numbers of records.", metavar="ID"),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A file of identifiers, one on a line, in place of ID.")] = None,
    data_set: Annotated[str, typer.Option("--data", help="Which data set, where there are several.")] = "",
    json_output: Json = False,
) -> None:
    """Let people's records count for nothing in runs that begin from now on, such as patients who objected.

    The list is the file that `excluded` in [data] of node.toml names. It never leaves this machine, nor does how many
    are on it. Without an ID it shows what the list means now. A model that is out does not change: docs/leaving.md.

    Example: parley party exclude hospital-a P-1047 P-2210
    """
    from parley.learning.exclusion import read_list
    from parley.party import exclusions
    from parley.party.backup import require_list

    here = party_node(node)
    settings = settings_of(here)
    given = [*(identifiers or ()), *(sorted(read_list(file).names) if file is not None else ())]
    if given:
        require_list(here, settings, data_set)
    found = [exclusions.exclude(settings, given, data_set)] if given else exclusions.exclusions_of(settings)
    going = exclusions.under_way(settings)
    if json_output:
        emit_json({"lists": [asdict(each) for each in found], "under_way": going, "leaves_this_machine": False})
        return
    if not found:
        raise CommandError('no list is named: write excluded = "excluded.txt" into [data] of node.toml')
    for each in found:
        print(f"{each.data_set or 'records'}: {each.summary}")
    print("This is shown here and nowhere else.")
    if given:
        print("It takes effect in runs that begin from now on.")
    for run in going:
        print(f'{run} goes on with the list that it began with: parley party withdraw {node} {run} --by "YOUR NAME"')
