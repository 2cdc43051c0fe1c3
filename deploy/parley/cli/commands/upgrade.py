"""`parley upgrade`: a node's files for this release, tried on a copy first.

parley upgrade NODE --check      # the node may run: what would change, how long, how much disk, what stands in the way
parley upgrade NODE              # the node is stopped: copies beside, then the change
parley upgrade NODE --undo       # before the node's start: as it was
"""

import contextlib
import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley.cli.console import EXIT_BAD_NEWS, emit_json, fail
from parley.cli.options import Json, NodeFolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from parley.node.node_file import AnyNode
    from parley.node.upgrade import Change, Open, Rehearsal


def upgrade(
    node: NodeFolder,
    check: Annotated[bool, typer.Option("--check", help="Try it on a private copy, and change nothing.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Go back, until the node is started.")] = False,
    json: Json = False,
) -> None:
    """Bring a node's files to this release, with copies beside them until the node's start.

    Try it first, with --check: the node may run meanwhile. Exit code 1: something stands in the way. The order for a
    federation is: both aggregators, every party, the coordinator. docs/upgrade.md has all of it.

    Example: parley upgrade hospital-a --check
    """
    from parley.node import upgrade as files
    from parley.node.node_file import read_node

    if check and undo:
        fail("--check tries an upgrade and --undo goes back from one: give one of them")
    here = read_node(node)
    if not here.state.exists():
        _done([], "there is nothing yet: the node was never started", json)
        return
    if here.state.stat().st_uid != os.geteuid():
        fail(f"{here.state} belongs to another user: run this as its owner, who starts the node")
    if check:
        _show(files.rehearse(here.state, here.role, openers(here)), json)
        return
    with _stopped(here):
        if undo:
            back = files.undo(here.state)
            said = f"as before the upgrade: {', '.join(back)}\n  start the release from before, not this one"
            _done([], said, json)
        else:
            changed = files.carry_out(here.state, here.role, openers(here))
            said = "upgraded" if changed else "everything is of this release already"
            _done(changed, said, json)


def openers(node: "AnyNode") -> "Mapping[str, Open]":
    """How each file of the node is opened by who has it; only the node's own room is there in an image."""
    from parley.federation.admission import AdmissionRecord
    from parley.federation.names import Role
    from parley.privacy.ledger import Ledger

    def ledger(path: Path) -> None:
        with closing(Ledger.open_newest(path)) as opened:
            opened.verify()

    def role(path: Path) -> Any:
        if node.role is Role.party:
            from parley.party.outbox import Outbox

            outbox = Outbox(path)
            outbox.require_sound()
            return outbox
        if node.role is Role.aggregator:
            from parley.aggregator.opening_store import OpeningStore

            return OpeningStore(path)
        from parley.coordinator.store import RunStore

        return RunStore(path)

    own = {Role.party: "outbox.sqlite", Role.aggregator: "openings.sqlite", Role.coordinator: "runs.sqlite"}
    return {
        "ledger.sqlite": ledger,
        "admissions.sqlite": lambda path: AdmissionRecord(path).close(),
        own[node.role]: lambda path: role(path).close(),
    }


@contextlib.contextmanager
def _stopped(node: "AnyNode") -> "Iterator[None]":
    """The node's process cannot start meanwhile."""
    from parley.node.alone import only_one

    handle = only_one(node.state, node.role)
    try:
        yield
    finally:
        os.close(handle)


def _body(each: "Change") -> dict[str, Any]:
    return {
        "file": each.file, "layout": each.found, "newest": each.newest, "adds": list(each.adds), "bytes": each.size,
        "seconds": round(each.seconds, 3),
    }  # fmt: skip


def _done(changed: "list[Change]", said: str, json_output: bool) -> None:
    if json_output:
        emit_json({"changed": [_body(each) for each in changed], "said": said})
        return
    for each in changed:
        print(f"{each.file:18}  layout {each.found} -> {each.newest}")
    print(said)
    if changed:
        print("next  start the node; until then `parley upgrade NODE --undo` goes back")


def _show(found: "Rehearsal", json_output: bool) -> None:
    from parley.node.upgrade import ORDER

    if json_output:
        emit_json(
            {
                "files": [_body(each) for each in found.changes],
                "disk_needed_bytes": found.needed,
                "disk_free_bytes": found.free,
                "runs": list(found.runs),
                "in_the_way": list(found.in_the_way),
                "problem": found.problem,
                "order": list(ORDER),
                "well": found.well,
            }
        )
    else:
        _say(found)
        print(f"order   {', then '.join(ORDER)}")
    if not found.well:
        raise SystemExit(EXIT_BAD_NEWS)


def _say(found: "Rehearsal") -> None:
    for each in found.changes:
        what = f"layout {each.found} -> {each.newest}, {each.seconds:.2f} s" if each.due else "stays as it is"
        print(f"{each.file:18}  {what}" + "".join(f"\n{'':18}    adds {more}" for more in each.adds))
    print(f"disk    {found.needed >> 20} MiB needed, {found.free >> 20} free")
    if found.runs:
        print(f"runs    open, and go on after it: {', '.join(found.runs)}")
    if found.in_the_way:
        print(f"STOP    this release cannot go on with {', '.join(found.in_the_way)}: finish or stop it before")
    if found.problem:
        print(f"STOP    {found.problem}")
    if found.well:
        print("well    it was tried on a copy, and nothing stands in the way")
