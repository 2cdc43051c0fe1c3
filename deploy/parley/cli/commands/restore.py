"""`parley restore`: a new folder from a backup, and what has to happen before its node takes part in anything.

parley restore monday.backup hospital-a --key backup.key    # a folder that is not there yet
parley restore --confirm hospital-a --by "Dr. Ada Osei"     # its pins and its policy are those that hold now
parley restore --confirm hospital-a                         # where its policy has [review]: what its reviewers sign
parley restore --account hospital-a                         # what was charged since, by both servers' word

Exit code 3 where a server does not account for this node.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from parley.cli.console import EXIT_BAD_NEWS, emit_json, fail
from parley.cli.options import Json, Reviewer
from parley.cli.passphrase import required
from parley.federation.names import Role
from parley.node.node_file import AggregatorNode, CoordinatorNode, PartyNode, read_node


def restore(
    file: Annotated[Path | None, typer.Argument(help="What `parley backup` wrote.", metavar="FILE")] = None,
    node: Annotated[Path | None, typer.Argument(help="A folder that is not there yet.", metavar="NODE")] = None,
    key: Annotated[
        Path | None,
        typer.Option(help="The file that `parley backup key` wrote; with --reviewer that person's own."),
    ] = None,
    passphrase_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the key's passphrase, mode 600. Without one it is asked for, or read from a pipe."
        ),
    ] = None,
    account: Annotated[
        Path | None, typer.Option(metavar="NODE", help="Have both servers say what was charged since the backup.")
    ] = None,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="With --account: spend the whole cap if a server does not answer.")
    ] = False,
    confirm: Annotated[
        Path | None, typer.Option(metavar="NODE", help="Say that pins and policy are those that hold now.")
    ] = None,
    by: Annotated[str, typer.Option(help="Who answers for that.")] = "",
    reviewer: Reviewer = None,
    digest: Annotated[str, typer.Option(help="With --reviewer: of what was read, as `--confirm NODE` shows it.")] = "",
    json_output: Json = False,
) -> None:
    """Make a node's folder from a backup. Its runs that were under way are lost, and stay charged.

    Nothing that is there is replaced, and no budget comes back: a restored party takes part in nothing before both its
    servers have said, signed, what it was charged since, and it charges at least that. Its process asks by itself;
    `--account` asks at once, also for a folder that was put back without this command.

    Where the restored policy has [review], `--confirm NODE` shows what its reviewers have to sign, and each of them
    signs it with --reviewer, --key and --digest in place of --by.

    `--account NODE --give-up --by NAME` ends the waiting for a server that is gone, for good: the whole cap is spent.

    Example: parley restore monday.backup hospital-a --key backup.key. Next: parley restore --confirm hospital-a --by …
    """
    if account is not None:
        _account(account, by if give_up else "", give_up, json_output)
    elif confirm is not None:
        if by and reviewer is not None:
            fail("say who confirms it: --by, or where the restored policy has [review] --reviewer, --key and --digest")
        _confirm(confirm, by, reviewer, key, passphrase_file, digest, json_output)
    elif file is None or node is None or key is None:
        fail("give a backup, a folder that is not there yet and --key; or --account NODE; or --confirm NODE --by NAME")
    else:
        _restore(file, node, key, passphrase_file, json_output)


def _restore(file: Path, folder: Path, key: Path, passphrase_file: Path | None, json_output: bool) -> None:
    from parley.cli.commands.backup import contents_of
    from parley.node import backup_key, restoration
    from parley.node.pins import key_text

    secret = backup_key.load(key, required(passphrase_file, "the key for backups"))
    lost: list[str] = []
    found = restoration.restore(
        file, folder, secret, contents_of, lambda each: lost.extend(_finish(each.node.role)(each))
    )
    pins = {str(name): [key_text(pin) for pin in found.pins.of(name)] for name in found.pins}
    body: dict[str, Any] = {"node": found.identity.name.uri, "pin": key_text(found.identity.pin), "made": found.made}
    if json_output:
        emit_json({**body, "lost": lost, "pins": pins})
        return
    print(f"restored     {found.identity.name} to {found.node.folder}, as it was at {found.day} UTC")
    print(f"pin          {body['pin']}")
    for name, keys in pins.items():
        print(f"trusts       {name} by {', '.join(keys)}")
    for run in lost:
        print(f"lost         run {run}: it was under way, and stays charged")
    print("next         see that no other node runs under this name: two would answer with one key")
    print("             compare identity/pins.toml and policy.toml with what holds now, then")
    print(f"             parley restore --confirm {found.node.folder} --by NAME")
    if found.node.role is Role.party:
        print(f"             put the records in their place, parley schema check {found.node.folder}, and start it")


def _finish(role: Role) -> Any:
    if role is Role.party:
        from parley.party import backup as party

        return party.finish
    if role is Role.aggregator:
        from parley.aggregator import backup as aggregator

        return aggregator.finish
    from parley.coordinator import backup as coordinator

    return coordinator.finish


def _confirm(
    folder: Path, by: str, reviewer: str | None, key: Path | None, passphrase_file: Path | None, digest: str,
    json_output: bool,
) -> None:  # fmt: skip
    from parley.node import restoration
    from parley.node.trail import Trail

    node = read_node(folder)
    if isinstance(node, PartyNode):
        _confirm_party(node, by, reviewer, key, passphrase_file, digest, json_output)
        return
    if reviewer is not None:
        fail("reviewers are a party's: give --by")
    found = restoration.confirm(node, by)
    with Trail.open(node.trail, node.identity.load().name) as trail:
        trail.append("node.confirmed", durable=True, approved_by=by)
    _confirmed(folder, found.confirmed_by, json_output)


def _confirm_party(
    node: PartyNode, by: str, reviewer: str | None, key: Path | None, passphrase_file: Path | None, digest: str,
    json_output: bool,
) -> None:  # fmt: skip
    from parley.cli.commands import party_people
    from parley.node.restoration import mark_of
    from parley.party import confirmation

    if by:
        _confirmed(node.folder, confirmation.confirm(node, by).confirmed_by, json_output)
        return
    if reviewer is None:
        found = confirmation.confirmation(node)
        if not found.needed:
            fail("--confirm needs --by: who has compared pins and policy")
    else:
        if not digest:
            fail("--reviewer needs --digest: of what was read, as `parley restore --confirm NODE` shows it")
        opened = party_people.key_of(key, passphrase_file)
        found = confirmation.sign_restored(node, reviewer, opened, digest)
    mark = mark_of(node)
    assert mark is not None
    if json_output:
        names = ("reviewer", "at", "expires", "counts", "why_not")
        signatures = [{name: getattr(each, name) for name in names} for each in found.signatures]
        body = {"confirmed_by": mark.confirmed_by, "digest": found.digest, "needed": found.needed}
        emit_json({**body, "signatures": signatures})
        return
    print(f"to compare   {node.identity.pin_file} and the policy in force, parley party policy {node.folder}")
    signed = sum(each.counts for each in found.signatures)
    print(f"signed       {signed} of {found.needed}; digest {found.digest}")
    for vote in found.signatures:
        state = f"until {vote.expires}" if vote.counts else f"does not count: it {vote.why_not}"
        print(f"             {vote.reviewer} signed on {vote.at}, {state}")
    if mark.confirmed_by:
        _confirmed(node.folder, mark.confirmed_by, json_output)
    else:
        print(f"to sign it   parley restore --confirm {node.folder} --reviewer NAME --key FILE --digest {found.digest}")


def _confirmed(folder: Path, by: str, json_output: bool) -> None:
    if json_output:
        emit_json({"confirmed_by": by})
    else:
        print(f"confirmed    pins and policy of {folder}, by {by}")


def _account(folder: Path, by: str, give_up: bool, json_output: bool) -> None:
    if give_up and not by.strip():
        fail("--give-up needs --by: who answers for it that the whole cap is spent, for good")
    from parley.node.restoration import require_confirmed

    node = read_node(folder)
    require_confirmed(node)
    match node:
        case PartyNode():
            from parley.party import backup as party

            runs, given_up = party.account(node, by)
        case CoordinatorNode():
            from parley.coordinator import account as coordinator

            runs, given_up = coordinator.take(node, by)
        case AggregatorNode():
            fail("an aggregator has no budget to account for: its parties and coordinators have")
    if json_output:
        emit_json({"charged": runs, "given_up": given_up})
    else:
        print(f"accounted    {len(runs)} runs were charged that this node did not know: {', '.join(runs) or 'none'}")
        for population in given_up:
            print(f"given up     the whole cap of {population} is spent: nothing more is answered from it")
    if given_up:
        raise SystemExit(EXIT_BAD_NEWS)
