"""`parley audit`: measure privacy from the outside, try the known attacks, and verify the books that nodes keep.

    parley audit privacy --json                               # parley.research.privacy_audit
    parley audit attacks --json                               # parley.attacks.audit
    parley audit attacks --without reach-covers-schema        # the attacks that this guard stops: now they succeed
    parley audit verify north south hospital-a --json         # nodes' folders, or files of trails
    parley audit verify hospital-a --anchor 128:9f86…0a08

`verify` exits with 1 where a trail or a ledger is not the one that was written, or where a node's trail refers to an
event that the peer's trail does not have. Without an anchor, a head that somebody else kept, a trail that was cut at
the end of a line looks whole unless a peer refers to what is gone.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from parley.cli.console import EXIT_BAD_NEWS, emit_json, fail, progress
from parley.cli.options import Json
from parley.federation.errors import TrailError
from parley.privacy.errors import LedgerCorruptError, LedgerRefusedError
from parley.privacy.head import Head

app = typer.Typer(help="Measure privacy, try the known attacks, verify what nodes wrote down.", no_args_is_help=True)
TRAIL, LEDGER = Path("state", "trail.jsonl"), Path("state", "ledger.sqlite")


@app.callback()
def _group() -> None:
    """Measure privacy, try the known attacks, verify what nodes wrote down."""


@app.command()
def privacy(
    runs: Annotated[int, typer.Option(help="Trainings on each of the two neighbours, per system.")] = 40000,
    delta: Annotated[float, typer.Option(help="The δ at which the claim and the bound are compared.")] = 0.05,
    confidence: Annotated[float, typer.Option(help="Probability that the honest system's bound is right.")] = 0.95,
    units: Annotated[int, typer.Option(help="Records of the audited training.")] = 8,
    json: Json = False,
) -> None:
    """Measure privacy from the outside: a lower bound of epsilon, for the honest system and for five faults.

    Example: parley audit privacy --runs 4000
    """
    # It needs the `accounting` extra, which a bare installation lacks.
    from parley.research.privacy_audit import bad_news, run, show

    result = run(runs, delta, confidence, units, progress)
    if json:
        emit_json(result)
    else:
        show(result)
    if (news := bad_news(result)) is not None:
        fail(news, EXIT_BAD_NEWS)


@app.command()
def attacks(
    only: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this attack; may be repeated.")] = None,
    without: Annotated[
        str | None, typer.Option(metavar="GUARD", help="Take this guard away: what it stops has to succeed then.")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="Show attacks and guards, try nothing.")] = False,
    json: Json = False,
) -> None:
    """Try every known attack on this installation. Exit code 1 if one succeeds.

    Example: parley audit attacks, or parley audit attacks --without reach-covers-schema
    """
    from parley.attacks.audit import run, show_all  # attacks use the accountant, of the `accounting` extra

    if show:
        show_all(json)
    else:
        run(only or [], without, json)


@app.command()
def verify(
    places: Annotated[list[Path], typer.Argument(metavar="NODE-or-FILE...", help="Nodes' folders, or trails.")],
    anchor: Annotated[
        str | None, typer.Option(help="A head of the one trail given that somebody else kept, as sequence:hash.")
    ] = None,
    json: Json = False,
) -> None:
    """Find any edit, gap or reordering in trails and ledgers, and where two nodes' trails contradict each other.

    Of runs under audit: whether all that were given count the same audits, and who keeps which evidence. Exit code 1
    if something is wrong. A trail that lost its last lines is found only with --anchor, or if a peer refers to them.

    Example: parley audit verify north south hospital-a
    """
    from parley.node.audited import audits_in
    from parley.node.trail import cross_check
    from parley.node.trail import verify as verify_trail

    if anchor is not None and len(places) != 1:
        fail("an anchor belongs to one trail: verify that node alone, then all of them together")
    try:
        kept = Head.parse(anchor) if anchor is not None else None
    except LedgerCorruptError:
        fail(f"{anchor!r} is not a head: give sequence:hash, as an earlier verification printed it")
    chains, trails = [], []
    for place in places:
        trail, ledger = (place / TRAIL, place / LEDGER) if place.is_dir() else (place, None)
        if not trail.is_file():
            fail(f"{place} is neither a trail nor a node's folder with {TRAIL}: correct the path")
        try:
            found = verify_trail(trail, kept)
            trails.append(found)
            chains.append(_chain("trail", trail, found.head, found.node, found.incomplete_bytes, kept is not None))
        except TrailError as problem:
            chains.append(_broken("trail", trail, problem))
        if ledger is not None and ledger.is_file():
            chains.append(_ledger(ledger))
    try:
        crossed = cross_check(trails)
    except TrailError as problem:
        fail(str(problem))
    audits = audits_in(trails)
    intact = all(chain["problem"] is None for chain in chains) and not (crossed.absent or audits.contradicting)
    if json:
        references = {"checked": crossed.checked, "unchecked": crossed.unchecked, "absent": list(crossed.absent)}
        counted = {"agree": audits.agree, "alone": audits.alone, "contradicting": list(audits.contradicting)}
        proof = {digest: vars(each) for digest, each in audits.evidence.items()}
        emit_json({"intact": intact, "chains": chains, "references": references, "audits": counted, "evidence": proof})
    else:
        for chain in chains:
            print(_said(chain))
        if kept is None:
            print("to detect a cut at a trail's end as well, verify it alone and give an earlier head with --anchor")
        print(f"{crossed.checked} references to peers' events hold; {crossed.unchecked} refer to nodes not given here")
        if crossed.unchecked:
            print("ask the peers' operators for state/trail.jsonl (public facts only) and name those files too")
        if audits.agree or audits.alone:
            print(f"audits: {audits.agree} rounds counted alike by all; {audits.alone} are in one trail only")
        for digest, each in audits.evidence.items():
            lacking = sorted({trail.name for trail in trails} - {*each.by, _short(each.server)})
            less = f"; NOT by {', '.join(lacking)}" if lacking else ""
            said = f"; answered at {', '.join(each.answered)}" if each.answered else ""
            print(f"evidence {digest[:16]}… against {each.server}: kept by {', '.join(each.by)}{less}{said}")
        for line in (*crossed.absent, *audits.contradicting):
            print(f"PROBLEM {line}")
    if not intact:
        raise SystemExit(EXIT_BAD_NEWS)


def _short(uri: str) -> str:
    """As trails name their nodes."""
    return "/".join(uri.split("/")[-2:])


def _chain(kind: str, path: Path, head: Head, node: str, incomplete: int, anchored: bool) -> dict[str, Any]:
    return {
        "kind": kind, "file": str(path), "node": node or None, "entries": head.sequence, "head": str(head),
        "anchored": anchored, "incomplete_bytes": incomplete, "problem": None,
    }  # fmt: skip


def _broken(kind: str, path: Path, problem: Exception) -> dict[str, Any]:
    return {
        "kind": kind, "file": str(path), "node": None, "entries": None, "head": None, "anchored": False,
        "incomplete_bytes": 0, "problem": str(problem),
    }  # fmt: skip


def _ledger(path: Path) -> dict[str, Any]:
    from parley.privacy.ledger import Ledger

    try:
        ledger = Ledger.open(path)
        return _chain("ledger", path, ledger.verify(), "", 0, False)
    except (LedgerCorruptError, LedgerRefusedError) as problem:
        return _broken("ledger", path, problem)


def _said(chain: dict[str, Any]) -> str:
    if chain["problem"] is not None:
        return f"PROBLEM {chain['file']}: {chain['problem']}"
    cut = f", {chain['incomplete_bytes']} bytes of an unfinished last line" if chain["incomplete_bytes"] else ""
    return f"{chain['file']}: {chain['entries']} entries, intact{cut}; head {chain['head']}"
