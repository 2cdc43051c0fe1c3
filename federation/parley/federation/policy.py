"""Policies: which manifests a node takes part in without asking anybody. No policy, or half of one, admits nothing.

How one is written: `parley.federation.policy_file`. A party's or a coordinator's `code` allows users' own code, by name
and digest (`parley.federation.code`); without it none is run, whoever approves. What bounds the time and memory that a
manifest costs (`largest_…`), and what is read off it, is asked before anything is computed (`reasons_beforehand`).

Legal entities come from here and not from the manifest, for whoever writes a manifest could write any two names.
Limits on ε apply to the verified figure of `meaning`, never to the claimed one. Those on ε₂, what a server that lies
may cost, are numbers, which a run without a guarantee never meets, or "any", which admits that too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from parley.federation.code import is_code, unlisted
from parley.federation.manifest import Manifest, entity_key
from parley.federation.meaning import Meaning
from parley.federation.names import NodeName, Role
from parley.federation.people import unsaid
from parley.federation.reviewers import Review

MOST_UNSAID = 8
"""Fields that a refusal names: a run may have ten thousand parties."""


@dataclass(frozen=True, kw_only=True)
class PartyPolicy:
    """What an institution lets be computed on its records."""

    epsilon_per_run: float
    delta_per_run: float
    epsilon_total: float
    """Over all runs on this party's records."""
    epsilon_if_a_server_lies_per_run: float | None
    """ε₂; None admits any, and runs without a guarantee."""
    epsilon_if_a_server_lies_total: float | None
    """Over all runs on this party's records."""
    minimum_parties: int
    largest_parties: int
    largest_dimension: int
    largest_rounds: int
    largest_manifest_bytes: int
    unit_column: str | None
    """Whose privacy has to be counted; none for single rows."""
    models: frozenset[str]
    algorithms: frozenset[str]
    coordinators: frozenset[str]
    aggregators: Mapping[str, str]
    """Name to legal entity."""
    data_sets: frozenset[str] = frozenset()
    """Those that a manifest may name without anybody being asked."""
    code: Mapping[str, str] = field(default_factory=dict)
    """Name to digest, of users' own code that may be run beside the records."""
    require: frozenset[str] = frozenset()
    """What a manifest has to say of law and of people (`parley.federation.people`)."""
    review: Review | None = None
    """Who signs approvals and changes of this policy; None where one person's word is enough."""


@dataclass(frozen=True, kw_only=True)
class AggregatorPolicy:
    """Which sums an aggregation server is ready to open."""

    minimum_parties: int
    largest_parties: int
    largest_dimension: int
    largest_rounds: int
    coordinators: frozenset[str]
    operators: Mapping[str, str]
    """Name to legal entity, of this server and of those it may work with."""


@dataclass(frozen=True, kw_only=True)
class CoordinatorPolicy:
    """Which runs a coordinator leads."""

    epsilon_per_run: float
    delta_per_run: float
    minimum_parties: int
    largest_dimension: int
    largest_rounds: int
    aggregators: Mapping[str, str]
    """Name to legal entity."""
    code: Mapping[str, str] = field(default_factory=dict)
    """Name to digest, of users' own code that may be run here: it makes the first model, and evaluates."""


Policy = PartyPolicy | AggregatorPolicy | CoordinatorPolicy
ROLES: dict[type[Policy], Role] = {
    PartyPolicy: Role.party,
    AggregatorPolicy: Role.aggregator,
    CoordinatorPolicy: Role.coordinator,
}


@dataclass(frozen=True)
class Reason:
    """Why a manifest is not admitted, and what would change that."""

    field: str
    message: str
    final: bool = False
    """Whether not even a person may wave it through."""
    mendable: bool = False
    """Of a final one: whether this node's operator can take it away, by policy.toml alone, so that the run waits."""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def reasons_against(
    meaning: Meaning,
    node: NodeName,
    policy: Policy | None,
    epsilon_spent: float | None = None,
    spent_if_a_server_lies: float | None = None,
) -> tuple[Reason, ...]:
    """Everything that keeps `node` from taking part, empty if nothing does.

    `node` comes from the node's own certificate. `epsilon_spent` is a party's ledger's figure for these records; a
    party whose ledger was not read is refused. `spent_if_a_server_lies` is its sum of ε₂, None for no guarantee.
    """
    judged = _judged(meaning, node, policy, epsilon_spent, spent_if_a_server_lies)
    return tuple(_membership(meaning.manifest, node)) + tuple(judged)


def reasons_beforehand(manifest: Manifest, node: NodeName, policy: Policy | None) -> tuple[Reason, ...]:
    """What keeps a party from a manifest by what the manifest says itself: asked before it is verified, in no time.

    `reasons_against` asks all of it again, of the verified one.
    """
    found = tuple(_membership(manifest, node))
    if found:
        return found
    if not isinstance(policy, PartyPolicy):
        return (*_expired(manifest), *_of_another_role(policy, node), *_code(manifest, policy))
    beforehand = (
        _expired(manifest),
        _code(manifest, policy),
        _small(manifest, policy),
        _computation(manifest, policy),
        _said(manifest, policy),
    )
    return tuple(chain(*beforehand, _records(manifest, node, policy)))


def _membership(manifest: Manifest, node: NodeName) -> Iterator[Reason]:
    if node.federation != manifest.federation:
        yield Reason("federation", f"is {manifest.federation!r} and this node is of {node.federation!r}", final=True)
    elif node not in manifest.identities(node.role):
        listed = ", ".join(each.name for each in manifest.identities(node.role))
        yield Reason(_place(node.role), f"have no {node.name!r} but {listed}: ask for a manifest with it", final=True)


def _judged(
    meaning: Meaning,
    node: NodeName,
    policy: Policy | None,
    epsilon_spent: float | None,
    spent_if_a_server_lies: float | None,
) -> Iterator[Reason]:
    yield from _expired(meaning.manifest)
    yield from _of_another_role(policy, node)
    if node.role is not Role.aggregator:  # which runs no model
        yield from _code(meaning.manifest, policy)
    if policy is None or ROLES[type(policy)] is not node.role:
        return
    manifest = meaning.manifest
    if len(manifest.parties) < policy.minimum_parties or manifest.minimum_parties < policy.minimum_parties:
        yield Reason(
            "rounds.minimum_parties",
            f"is {manifest.minimum_parties} of {len(manifest.parties)} and the policy asks for at least "
            f"{policy.minimum_parties}: raise it in the manifest, or lower minimum_parties in the policy",
        )
    match policy:
        case PartyPolicy():
            yield from _privacy(meaning, policy)
            yield from _budget(meaning, policy, epsilon_spent)
            yield from _if_a_server_lies(meaning, policy, spent_if_a_server_lies)
            yield from _small(manifest, policy)
            yield from _computation(manifest, policy)
            yield from _records(manifest, node, policy)
            yield from _said(manifest, policy)
            yield from _entities(meaning, policy.aggregators, "aggregators")
        case AggregatorPolicy():
            yield from _size(manifest, policy)
            yield from _listed(manifest.coordinator.name, "coordinator.name", policy.coordinators, "coordinators")
            yield from _crowd(manifest, policy)
            yield from _entities(meaning, policy.operators, "operators")
        case CoordinatorPolicy():
            yield from _privacy(meaning, policy)
            yield from _size(manifest, policy)
            yield from _entities(meaning, policy.aggregators, "aggregators")


def _privacy(meaning: Meaning, policy: PartyPolicy | CoordinatorPolicy) -> Iterator[Reason]:
    # The claim counts too: the ledger charges what the manifest may spend.
    epsilon = max(meaning.epsilon, meaning.manifest.guarantee.epsilon)
    if not epsilon <= policy.epsilon_per_run:
        yield Reason(
            "privacy.epsilon",
            f"is {epsilon:.6g} and the policy admits {policy.epsilon_per_run:g} per run: more noise, fewer rounds, or "
            "raise epsilon_per_run",
        )
    if not meaning.delta <= policy.delta_per_run:
        yield Reason(
            "privacy.delta",
            f"is {meaning.delta:g} and the policy admits {policy.delta_per_run:g}: lower it, or raise delta_per_run",
        )


def _budget(meaning: Meaning, policy: PartyPolicy, epsilon_spent: float | None) -> Iterator[Reason]:
    if epsilon_spent is None or not epsilon_spent >= 0:
        yield Reason("privacy.epsilon", "what was spent before is not known: read the ledger first", final=True)
        return
    epsilon = max(meaning.epsilon, meaning.manifest.guarantee.epsilon)
    if not epsilon_spent + epsilon <= policy.epsilon_total:
        yield Reason(
            "privacy.epsilon",
            f"{epsilon:.6g} on top of the {epsilon_spent:.6g} spent exceeds the {policy.epsilon_total:g} that these "
            "records may cost in all: more noise or fewer rounds, or raise epsilon_total in the policy",
            final=True,
        )


def _if_a_server_lies(meaning: Meaning, policy: PartyPolicy, spent: float | None) -> Iterator[Reason]:
    run, total = policy.epsilon_if_a_server_lies_per_run, policy.epsilon_if_a_server_lies_total
    found, advice = meaning.epsilon_if_a_server_lies, 'raise noise.own, take security = "malicious"'
    what = "there is no guarantee" if found is None else f"it is {found:.6g}"
    if run is not None and not (found is not None and found <= run):
        yield Reason(
            "privacy.epsilon_if_a_server_lies",
            f"{what} and the policy admits {run:g} per run: {advice}, or raise epsilon_if_a_server_lies_per_run",
        )
    if total is not None and not (found is not None and spent is not None and spent + found <= total):
        before = "earlier runs with no guarantee" if spent is None else f"the {spent:.6g} of earlier runs"
        yield Reason(
            "privacy.epsilon_if_a_server_lies",
            f"{what}, on top of {before}, and these records may cost {total:g} in all if a server lies: {advice}, or "
            "raise epsilon_if_a_server_lies_total in the policy",
            final=True,
        )


def _expired(manifest: Manifest) -> Iterator[Reason]:
    if manifest.legal is not None and manifest.expired:
        day = manifest.legal.expires
        yield Reason("legal.expires", f"was {day}, which is over: ask for a new manifest", final=True)


def _said(manifest: Manifest, policy: PartyPolicy) -> Iterator[Reason]:
    for place in unsaid(manifest, policy.require)[:MOST_UNSAID]:
        name = place.rpartition(".")[2]
        yield Reason(place, f"is not said and the policy requires {name}: say it in the study, or take it from require")


def _of_another_role(policy: Policy | None, node: NodeName) -> Iterator[Reason]:
    if policy is None:
        yield Reason("policy", "this node has none, so nothing is admitted by it: write one, or approve by hand")
    elif ROLES[type(policy)] is not node.role:
        yield Reason("policy", f"is for the role {ROLES[type(policy)]} and this node is a {node.role}: write its own")


def _code(manifest: Manifest, policy: Policy | None) -> Iterator[Reason]:
    """Asked before anything else of a run's code is: not even its files are looked at without this."""
    allowed = policy.code if isinstance(policy, PartyPolicy | CoordinatorPolicy) else {}
    for where, message in unlisted(manifest, allowed):
        yield Reason(where, message, final=True, mendable=True)


def _computation(manifest: Manifest, policy: PartyPolicy) -> Iterator[Reason]:
    if not is_code(manifest.model.kind):
        yield from _listed(manifest.model.kind, "model.kind", policy.models, "models")
    yield from _listed(manifest.algorithm.name, "algorithm.name", policy.algorithms, "algorithms")
    yield from _listed(manifest.coordinator.name, "coordinator.name", policy.coordinators, "coordinators")
    unit = manifest.mechanism.unit.column
    if unit != policy.unit_column:
        yield Reason(
            "mechanism.unit_column",
            f"protects {unit or 'single rows'} and the policy {policy.unit_column or 'single rows'}: make them agree",
        )


def _records(manifest: Manifest, node: NodeName, policy: PartyPolicy) -> Iterator[Reason]:
    if (named := manifest.data_set_of(node.name)) and named not in policy.data_sets:
        yield Reason("parties", f"say that {node.name}'s data set is {named!r}: choose another, or add it to data_sets")


def _small(manifest: Manifest, policy: PartyPolicy) -> Iterator[Reason]:
    yield from _crowd(manifest, policy)
    yield from _size(manifest, policy)
    size, most = len(manifest.canonical), policy.largest_manifest_bytes
    if size > most:
        yield Reason(
            "the manifest",
            f"has {size:,} bytes and the policy admits {most:,}: shorten it, or raise largest_manifest_bytes",
        )


def _crowd(manifest: Manifest, policy: PartyPolicy | AggregatorPolicy) -> Iterator[Reason]:
    if len(manifest.parties) > policy.largest_parties:
        count = len(manifest.parties)
        yield Reason("parties", f"are {count}, the policy admits {policy.largest_parties}: raise largest_parties")


def _size(manifest: Manifest, policy: PartyPolicy | AggregatorPolicy | CoordinatorPolicy) -> Iterator[Reason]:
    for where, found, most, name in (
        ("model.dimension", manifest.model.dimension, policy.largest_dimension, "largest_dimension"),
        ("mechanism.steps", manifest.releases, policy.largest_rounds, "largest_rounds"),
    ):
        if found > most:
            what = "makes rounds" if name == "largest_rounds" else "is"
            yield Reason(where, f"{what} {found:,} and the policy admits {most:,}: lower it, or raise {name}")


def _listed(found: str, field: str, allowed: frozenset[str], name: str) -> Iterator[Reason]:
    if found not in allowed:
        known = ", ".join(sorted(allowed)) or "none"
        yield Reason(field, f"is {found!r} and the policy admits {known}: choose one of them, or add it to {name}")


def _entities(meaning: Meaning, known: Mapping[str, str], name: str) -> Iterator[Reason]:
    keys = []
    for index, operator in enumerate(meaning.manifest.aggregators):
        entity = known.get(operator.name)
        if entity is None:
            yield Reason(
                f"aggregators[{index}].name",
                f"{operator.name!r} is not in the policy: choose another aggregator, or add it to {name}",
            )
        elif entity_key(entity) != operator.entity_key:
            yield Reason(
                f"aggregators[{index}].legal_entity",
                f"is {operator.legal_entity!r} and the policy knows {operator.name} as {entity!r}: correct one of them",
            )
        keys.append(entity and entity_key(entity))
    if keys[0] is not None and keys[0] == keys[1]:
        yield Reason("aggregators", "belong to one legal entity by the policy: choose two that are independent", True)


def _place(role: Role) -> str:
    return {Role.party: "parties", Role.aggregator: "aggregators", Role.coordinator: "coordinator"}[role]
