"""From a signed content to what is read: two pages, in the order in which an officer asks.

What was promised, what for, who took part, what left this site, what all runs together have cost, what is not
promised; then how to check all of it. Every word is of the content or of this module: whoever changes one here counts
`content.LAYOUT` up. A content may be signed by anybody, so everything in it is a stranger's: it is cut to a line here,
and escaped where it is drawn.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from parley.report.blocks import Block, Document, Heading, Points, Rows, Table, Text
from parley.report.content import LAYOUT
from parley.report.errors import ReportError
from parley.report.words import cut, small, up

MOST_MEMBERS, MOST_RUNS, MOST_POPULATIONS, MOST_PINS = 12, 8, 2, 8
"""In the pages; the content has all."""
MOST_LINES = 10
"""Of a list that no node makes longer: a stranger's content may."""
LEGAL = {
    "purpose": "Purpose",
    "legal_basis": "Legal basis",
    "ethics_number": "Ethics number",
    "expires": "Last day",
    "retention": "Retention",
}
NOT_SAID = "not said in the manifest"
SECURITY = {
    "semi-honest": "noise that both aggregators sample together (semi-honest)",
    "covert": "noise that both aggregators sample together, each auditing the other one in secret (covert)",
    "malicious": "a whole sample of noise by each aggregator (malicious)",
}
Body = Mapping[str, Any]


def document(content: Body) -> Document:
    """A ReportError for a content that this version does not draw."""
    try:
        layout = content["layout"]
        if layout != LAYOUT or isinstance(layout, bool):
            raise ReportError(
                f"the report has layout {str(layout)[:20]} and this version draws layout {LAYOUT}: verify it with the "
                "version that made it"
            )
        return Document(
            f"Privacy report of run {cut(content['run']['run'])}",
            _subtitle(content),
            tuple(_blocks(content)),
            f"Signed by {cut(content['node']['identity'], 200)} with the key {cut(_key(content), 80)}. To check this "
            "page on any machine: parley report verify FILE --pin KEY, with the key as `parley node show` prints it "
            "at that node.",
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise ReportError(f"the content is not of a report ({type(error).__name__}): it was not made here") from None


def _key(content: Body) -> str:
    found: str = content["node"]["key_fingerprint"]
    return found


def _subtitle(content: Body) -> str:
    node, run = content["node"], content["run"]
    rounds = f"{run['rounds']:,} of {run['rounds_planned']:,} rounds"
    said = f" ({cut(run['reason'], 300)})" if run["reason"] else ""
    done = {"party": "answered", "aggregator": "opened", "coordinator": "released"}[node["role"]]
    state = f"{cut(run['state'], 100)}{said}; {rounds} {done}"
    return (
        f"By {cut(node['name'])}, {'an' if node['role'] == 'aggregator' else 'a'} {node['role']} of federation "
        f"{cut(node['federation'])}. {_moment(content['made'])}. The run: {state}."
    )


def _blocks(content: Body) -> Iterator[Block]:
    yield from _guarantee(content)
    yield Heading("What it was for")
    yield Rows([(title, cut(content["legal"][name] or NOT_SAID, 500)) for name, title in LEGAL.items()])
    yield from _members(content)
    yield from _left(content)
    yield from _budgets(content)
    yield Heading("What is not promised")
    yield Points(tuple(cut(each, 400) for each in content["not_promised"][:MOST_LINES]))
    yield from _checks(content)


# ------------------------------------------------------------ what was promised


def _guarantee(content: Body) -> Iterator[Block]:
    found, run = content["guarantee"], content["run"]
    yield Heading("What is guaranteed")
    for each in content["evidence"][:MOST_LINES]:
        against = " It counts against this run." if each["held_against_this_run"] else ""
        answered = f" Answered by {cut(each['answered_by'])}." if each["answered_by"] else " Not answered yet."
        yield Text(
            f"An aggregator was caught: {cut(each['server'], 120)} departed from the noise protocol, by evidence "
            f"{cut(each['digest'], 16)}.{against}{answered}",
            "warning",
        )
    if found is None:
        yield Text("Nothing: this node has not verified what the run would claim.", "warning")
        return
    if not run["rounds"]:
        yield Text("Nothing was released with this node's part. What follows is what the run would claim.", "warning")
    yield Text(_figures(found), "big")
    for sentence in found["plainly"][:2]:
        yield Text(cut(sentence, 700))
    yield Text(f"For an expert: {cut(found['statement'], 1600)}", "quiet")


def _figures(found: Body) -> str:
    epsilon = f"ε = {up(found['epsilon'], 4)} at δ = {small(found['delta'])}"
    if found["security"] == "malicious":
        return f"{epsilon}, also if one aggregator does anything whatever"
    lying = found["epsilon_if_a_server_lies"]
    second = "no guarantee" if lying is None else f"ε₂ = {up(lying, 4)}"
    return f"{epsilon}; if an aggregator departs from the protocol: {second}"


# ------------------------------------------------------------ who


def _members(content: Body) -> Iterator[Block]:
    yield Heading("Who took part")
    members: Sequence[Body] = content["members"]
    # The aggregators and the coordinator are few, and come last.
    parties = [each for each in members if each["role"] == "party"]
    shown = [*parties[:MOST_MEMBERS], *(each for each in members if each["role"] != "party")]
    yield Table(
        ("Who", "As", "Legal entity and contact", "Units", "Rounds"),
        [
            (cut(each["name"], 40), cut(each["role"]), _entity(each), _count(each["units"]), _part(each))
            for each in shown
        ],
        (17, 14, 41, 11, 17),
        (3, 4),
    )
    if len(parties) > MOST_MEMBERS:
        yield Text(f"And {len(parties) - MOST_MEMBERS:,} parties more, which the signed content lists.", "quiet")
    admitted = content["run"]["admitted"]
    if admitted is not None:
        how = "by its policy" if admitted["how"] == "policy" else f"by {cut(admitted['by'], 80)}"
        over = f", over {len(admitted['overridden'])} objections of its policy" if admitted["overridden"] else ""
        gone = " It was withdrawn here since." if content["run"]["withdrawn"] else ""
        yield Text(f"Admitted at this node {how} on {_moment(admitted['at'])}{over}.{gone}", "quiet")


def _entity(member: Body) -> str:
    found = [cut(each, 120) for each in (member["legal_entity"], member["contact"]) if each]
    return ", ".join(found) or NOT_SAID


def _part(member: Body) -> str:
    if member["rounds"] is not None:
        return f"{member['rounds']:,}"
    return cut(member["answer"], 30) if member["answer"] else "–"


# ------------------------------------------------------------ what left


def _left(content: Body) -> Iterator[Block]:
    yield Heading("What left this site in this run")
    yield Table(
        ("To", "What", "Bytes"),
        [(_short(each["to"]), cut(each["kind"], 200), _bytes(each)) for each in content["left"][:MOST_LINES]],
        (24, 60, 16),
        (2,),
    )
    who = {
        "party": "No record left this site, and nothing of one that can be read without both aggregators.",
        "aggregator": "No sum and no noise left this server but as a share of its own.",
        "coordinator": "This node never had a record, or anything of a single party before noise.",
    }[content["node"]["role"]]
    yield Text(f"{who} Bytes are as this node's own books have them; without those of transport.", "quiet")


def _bytes(each: Body) -> str:
    return "not counted" if each["bytes"] is None else f"{each['bytes']:,}"


# ------------------------------------------------------------ budget


def _budgets(content: Body) -> Iterator[Block]:
    yield Heading("Budget over all runs")
    budgets: Sequence[Body] = content["budgets"]
    if content["node"]["role"] == "aggregator":
        yield Text("An aggregator keeps no budget: each party keeps its own, and so does the coordinator.")
        return
    if not budgets:
        yield Text("Nothing was ever charged here.")
    for budget in budgets[:MOST_POPULATIONS]:
        lying = budget["epsilon_if_a_server_lies"]
        worst = small(budget["delta_if_a_server_lies"])
        second = "no guarantee" if lying is None else f"ε₂ {up(lying, 4)} at δ {worst}"
        beyond = (
            " BEYOND THE CAP, for a server was caught: nothing more is admitted." if budget["beyond_the_cap"] else ""
        )
        yield Text(
            f"{cut(budget['population'])}, counted by {cut(budget['unit'])}: ε {up(budget['epsilon_spent'], 4)} of "
            f"{budget['epsilon_cap']:g} and δ {small(budget['delta_spent'])} of {small(budget['delta_cap'])} spent, "
            f"ε {budget['epsilon_left']:.4g} left; if a server lies: {second}.{beyond}"
        )
        runs: Sequence[Body] = budget["runs"]
        yield Table(
            ("Run", "Charged", "Over", "ε", "ε₂", "δ", "Releases"),
            [_spent(each) for each in runs[-MOST_RUNS:]],
            (27, 15, 15, 9, 12, 9, 13),
            (3, 4, 5, 6),
        )
        if len(runs) > MOST_RUNS:
            yield Text(f"And {len(runs) - MOST_RUNS:,} earlier runs, which the signed content lists.", "quiet")
    if len(budgets) > MOST_POPULATIONS:
        yield Text(f"And {len(budgets) - MOST_POPULATIONS:,} populations more, in the signed content.", "quiet")


def _spent(run: Body) -> tuple[str, ...]:
    lying = run["epsilon_if_a_server_lies"]
    caught = " (a server was caught)" if run["caught"] else ""
    over = _day(run["ended"]) if run["ended"] else "settled" if run["settled"] else "open"
    return (
        cut(run["run"], 40) + caught, _day(run["charged"]), over, up(run["epsilon"], 4),
        "none" if lying is None else up(lying, 4), small(run["delta"]),
        f"{run['releases_recorded']:,} of {run['releases_charged']:,}",
    )  # fmt: skip


# ------------------------------------------------------------ how to check it


def _checks(content: Body) -> Iterator[Block]:
    yield Heading("To check it")
    node, run, servers, books = content["node"], content["run"], content["servers"], content["books"]
    guarantee, software = content["guarantee"], content["software"]
    rows = [("Key of this node", cut(node["key_fingerprint"], 80))]
    rows.append(("Certificate", f"until {_moment(node['certificate_expires'])}, {cut(node['certificate'], 90)}"))
    rows += [(f"Pinned: {_short(each['node'])}", cut(each["key_fingerprint"], 80)) for each in _few(content["pins"])]
    rows.append(("Manifest", cut(run["manifest_digest"], 70)))
    if guarantee is not None:
        rows.append(("Noise", f"{SECURITY[guarantee['security']]}; accountant {cut(guarantee['accountant'])}"))
    rows += [
        (f"End signed by {_short(each['aggregator'])}", f"{each['openings']:,} sums opened")
        for each in servers["ends"][:2]
    ]
    rows += [
        (f"Statement of {_short(each['aggregator'])}", f"round {each['round'] + 1:,}: {cut(each['digest'], 70)}")
        for each in servers["statements"][:2]
    ]
    if servers["settled_on"]:
        proved = servers["settled_on"]
        rows.append(
            ("Settled on both ends", f"{proved['openings']:,} sums opened; evidence {cut(proved['evidence'], 70)}")
        )
    if servers["checked"]:
        checked = servers["checked"]
        digests = ", ".join(cut(each, 16) for each in checked["digests"])
        rows.append(("Statements checked", f"up to round {checked['round'] + 1:,} of both aggregators: {digests}"))
    if servers["not_by_a_pinned_key"]:
        rows.append(("Not shown", f"{servers['not_by_a_pinned_key']:,} words that no key pinned here has signed"))
    rows += [
        (f"Head of the {name}", cut(books[f"{name}_head"], 90)) for name in ("ledger", "trail") if books[f"{name}_head"]
    ]
    source = cut(software["source_digest"], 70)
    rows.append(("Software", f"{cut(software['name'])} {cut(software['version'])}, source {source}"))
    yield Rows(rows)


def _few(pins: Sequence[Body]) -> Sequence[Body]:
    """The servers' and the coordinator's first, then parties'; of others the content has all."""
    return sorted(pins, key=lambda each: "/party/" in each["node"])[:MOST_PINS]


# ------------------------------------------------------------ words


def _short(uri: str) -> str:
    """`aggregator north` of its identity; anything else as it is."""
    return " ".join(cut(uri, 120).split("/")[-2:]) if uri.startswith("parley://") else cut(uri, 120)


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _moment(text: str) -> str:
    """To the minute, of an ISO time in UTC."""
    return f"{cut(text, 40)[:16].replace('T', ' ')} UTC"


def _day(text: str | None) -> str:
    return "–" if text is None else cut(text, 40)[:10]
