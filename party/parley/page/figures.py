"""One run, from what was read of a folder to what a page shows: in the words of whoever has to decide on it.

Computes nothing that is not shown, and writes nothing.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from parley.federation import columns, start_and_stop
from parley.federation.code import named_code
from parley.federation.manifest import Manifest
from parley.federation.mechanism import sampling_sentence
from parley.federation.names import Role
from parley.federation.people import NOBODY, Legal
from parley.federation.policy import Policy, Reason, reasons_against, reasons_beforehand
from parley.federation.rounds import payload_bytes
from parley.mpc.randomness import SEED_BYTES
from parley.node.evidence import Held
from parley.page import views
from parley.page.accounts import budget_of_run, charged_here, spent_before
from parley.page.costs import Cost
from parley.page.folder import Folder, Snapshot
from parley.page.home import NOTHING, head, proof, standing
from parley.party.outbox import ENDED, JOINED, VERIFYING, WAITING, RunState, Sent
from parley.party.report import HALF_A, HALF_B, WORDS
from parley.privacy.lying import guaranteed, in_words
from parley.report.words import cut, plainly

NOT_SAID = "not said"
SECURITY = {
    "semi-honest": "semi-honest: both aggregators are expected to follow the protocol, and make the noise together.",
    "covert": "covert: the aggregators make the noise together and audit each other; whoever departs from the protocol "
    "again and again is found out, with proof.",
    "malicious": "malicious: each aggregator adds a whole sample of noise, so one may do anything whatever.",
}
MOST_MEMBERS = 60
MOST_SENTENCE = 1200


@dataclass(frozen=True)
class Ground:
    """What a run is judged by, beside what was read of the folder."""

    policy: Policy | None = None
    problem: str = ""
    """Why there is none."""
    review: views.Review = field(default_factory=views.Review)
    blocked: str = ""
    """Why nobody can approve here, whatever else there is."""


def run_view(
    folder: Folder, found: Snapshot, held: RunState, cost: Cost | None, ground: Ground, own: views.Own
) -> views.RunView:
    """Everything that a person decides on; `cost` is None while it is being computed. `shown` is for `binding`."""
    manifest = folder.manifest(held)
    assert manifest is not None
    sent, here = found.sent.get(held.digest, NOTHING), standing(folder)
    admission = found.admissions.get(held.digest)
    first = head(folder, found, held, here)
    review = ground.review
    reasons, policy = judged(folder, found, manifest, cost, ground.policy)
    budget = budget_of_run(folder, found, manifest, cost)
    pending = [each for each in found.evidence if each.server in manifest.identities(Role.aggregator)]
    unanswered = [each for each in pending if each.pending]
    why_not = ground.blocked or _why_not(first, reasons, cost, found, review, unanswered, budget)
    charged = charged_here(found, manifest)
    return views.RunView(
        head=first,
        said=tuple(_said(manifest)),
        uses=tuple(_uses(manifest, folder.name.name)),
        members=tuple(_members(manifest)),
        parties=len(manifest.parties),
        cost=_cost(manifest, cost, charged),
        budget=budget,
        left=tuple(_left(manifest, sent)),
        policy=ground.problem or policy,
        reasons=tuple(views.Reason(str(each), each.final, each.mendable) for each in reasons),
        admitted=_admitted(admission),
        review=review,
        evidence=tuple(proof(folder, each) for each in pending),
        ends=tuple(views.End(end.aggregator, end.openings) for end in folder.ends(found.books.runs.get(manifest.run))),
        seen=_seen(found, held),
        own=own,
        may_approve=not why_not and first.asks_you and not review.needed,
        may_refuse=first.asks_you and review.refused is None,
        may_withdraw=admission is not None and not admission[1] and held.state in (WAITING, VERIFYING, JOINED, ENDED),
        why_not=why_not,
        problems=found.problems,
        folder=folder.path,
    )


def judged(
    folder: Folder, found: Snapshot, manifest: Manifest, cost: Cost | None, policy: Policy | None
) -> tuple[tuple[Reason, ...], str]:
    """What the policy holds against a run now, and in one line."""
    if cost is None or cost.meaning is None:
        reasons = reasons_beforehand(manifest, folder.name, policy)
        later = "It is asked again when the cost is known."
    else:
        spent, lying = spent_before(folder, found, manifest)
        reasons, later = reasons_against(cost.meaning, folder.name, policy, spent, lying), ""
    count = len(reasons)
    if not reasons:
        return reasons, f"The policy holds nothing against it. {later}".strip()
    some = "one thing" if count == 1 else f"{count} things"
    return reasons, f"The policy holds {some} against it. {later}".strip()


def _why_not(
    first: views.RunHead, reasons: tuple[Reason, ...], cost: Cost | None, found: Snapshot, review: views.Review,
    unanswered: list[Held], budget: views.Budget | None,
) -> str:  # fmt: skip
    """Why nobody can approve it on this page; empty where somebody can."""
    if review.refused is not None:
        return f"This institution has refused it: {review.refused.by}, {review.refused.at}."
    if not first.asks_you:
        return ""
    if found.problems:
        return "A part of this node’s books cannot be read, so nothing is approved here: see above."
    if unanswered:
        return "Evidence against one of its aggregators waits for an answer first: see below."
    if cost is None:
        return "What it costs is being computed; it can be approved when that is known."
    if not cost.known:
        return f"What it costs cannot be computed, so nobody can approve it here: {cost.problem}"
    if budget is not None and not budget.fits:
        return f"It does not fit what is left of the budget of {budget.population}, whose cap is final."
    if any(each.final for each in reasons):
        return "One of the reasons below is final: nobody can wave it through."
    return ""


# ------------------------------------------------------------ the run in words


def _said(manifest: Manifest) -> Iterator[views.Fact]:
    legal = manifest.legal or Legal()
    titles = {"purpose": "Purpose", "legal_basis": "Legal basis", "ethics_number": "Ethics number",
              "expires": "Last day", "retention": "Retention"}  # fmt: skip
    for name, title in titles.items():
        yield views.Fact(title, getattr(legal, name) or NOT_SAID)


def _uses(manifest: Manifest, party: str) -> Iterator[views.Fact]:
    mechanism, model = manifest.mechanism, manifest.model
    yield views.Fact("Data set", _whole(manifest.data_set_of(party) or "not named: the only one of this institution"))
    for words in columns.sentences(manifest.schema.body):
        title, _, rest = words.partition(": ")
        yield views.Fact(title if rest else "Columns", _whole(rest or words))
    transforms = manifest.schema.body.get("transform") or []
    for each in transforms if isinstance(transforms, list | tuple) else [transforms]:
        body = each if isinstance(each, Mapping) else {"kind": each}
        more = [f"{name} {value}" for name, value in body.items() if name != "kind"]
        yield views.Fact("Features", _whole(", ".join([f"made by {body.get('kind')}", *more])))
    for code in named_code(manifest):
        yield views.Fact("Code that runs on the records", _whole(f"{code.name}, {code.digest or 'without a digest'}"))
    yield views.Fact("Model", f"{model.kind} of {model.dimension:,} parameters, trained by {manifest.algorithm.name}")
    yield views.Fact(
        "Rounds", f"{manifest.releases:,}, each with at least {manifest.minimum_parties} parties, within "
        f"{manifest.deadline_seconds:g} s"
    )  # fmt: skip
    yield views.Fact("Drawn in each round", sampling_sentence(mechanism))
    yield views.Fact("Who is protected", f"each {mechanism.unit.name}, as if it could be exchanged for any other")
    for words in start_and_stop.sentences(manifest.start, manifest.stop_early):
        title, _, rest = words.partition(": ")
        yield views.Fact(title, _whole(rest))


def _whole(words: str) -> str:
    """As it is, or as much as a page can show, and where the rest is."""
    if len(words) <= MOST_SENTENCE:
        return words
    return f"{words[:MOST_SENTENCE].rpartition(' ')[0] or words[:MOST_SENTENCE]} … (the manifest below has all of it)"


def _members(manifest: Manifest) -> Iterator[views.Member]:
    institutions = dict(manifest.institutions)
    servers = (
        (manifest.coordinator, "leads the run"),
        *((operator, f"aggregator {'AB'[place]}") for place, operator in enumerate(manifest.aggregators)),
    )
    for operator, role in servers:
        yield views.Member(operator.name, role, cut(operator.legal_entity, 200), operator.contact, None)
    for name in manifest.parties[:MOST_MEMBERS]:
        who = institutions.get(name, NOBODY)
        units = manifest.mechanism.sampler(name, 0).units
        yield views.Member(name, "party", who.legal_entity, who.contact, units)


def _left(manifest: Manifest, sent: Sent) -> Iterator[views.Left]:
    first, second = manifest.aggregators
    lead = manifest.coordinator
    payload = payload_bytes(0, manifest.longest_answer, manifest.share_bits)
    yield views.Left(first.name, first.legal_entity, HALF_A, manifest.releases * payload, sent.bytes_a)
    yield views.Left(second.name, second.legal_entity, HALF_B, manifest.releases * SEED_BYTES, sent.bytes_b)
    yield views.Left(lead.name, lead.legal_entity, WORDS, None, None)


def _cost(manifest: Manifest, cost: Cost | None, charged: bool) -> views.Cost:
    if cost is None:
        return views.Cost("computing")
    if cost.meaning is None or cost.charge is None:
        return views.Cost(cost.problem)
    meaning, parts, mine = cost.meaning, manifest.noise.parts, cost.charge.cost
    # Under the rule rdp a ledger counts divergences: what a person reads is the claim, which covers every party.
    epsilon, delta = mine.epsilon or meaning.epsilon, mine.delta or meaning.delta
    lying = guaranteed(mine.epsilon_if_a_server_lies)
    audits = f" {parts.audits}" if parts.audits else ""
    own = f" Each adds {parts.own:g} times as much of its own." if parts.joint else ""
    return views.Cost(
        state="ready",
        epsilon=epsilon,
        delta=delta,
        lying=in_words(lying, delta),
        plainly=tuple(plainly(parts, epsilon, lying, delta, manifest.mechanism.unit.column)),
        security=SECURITY[parts.security] + own,
        whom=_whom(parts.joint, epsilon, lying, delta) + audits,
        spent=charged,
    )


def _whom(joint: bool, epsilon: float, lying: float | None, delta: float) -> str:
    coalition = "the coordinator, all other parties and one aggregator together"
    if not joint:
        return f"ε {epsilon:.4g} holds against {coalition}, whatever that aggregator does."
    otherwise = in_words(lying, delta)
    return f"ε {epsilon:.4g} holds against {coalition}, if that aggregator follows the protocol; {otherwise}."


def _admitted(admission: Any) -> views.Admitted | None:
    if admission is None:
        return None
    held, withdrawn = admission
    by = "the policy" if held.how == "policy" else held.approved_by
    return views.Admitted(held.how, by, held.at, withdrawn, held.overridden)


def _seen(found: Snapshot, held: RunState) -> str:
    seen = found.seen.get(held.digest)
    if seen is None or seen.round < 0:
        return ""
    first, second = (digest.hex()[:16] for digest in seen.digests)
    return f"up to round {seen.round + 1:,}; the newest are {first}… and {second}…"


def binding(view: views.RunView) -> str:
    """SHA-256 over everything that a decision rests on: a form carries it, and what has changed since is shown again.

    Left out is what moves while nothing is decided: counts of rounds and bytes, and figures of one's own records.
    """
    body: dict[str, Any] = asdict(view)
    for name in ("own", "shown", "ends", "seen", "problems"):
        del body[name]
    for name in ("waits", "at", "answered"):
        del body["head"][name]
    for each in body["left"]:
        del each["sent"]
    for each in body["budget"]["runs"] if body["budget"] else ():
        del each["released"]
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
