"""The mechanism's part of a manifest: tables to `parley.privacy.mechanism.Mechanism` and back.

Field by field, so that an error names the field of the document and not of an object.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from parley.federation.errors import ManifestError
from parley.federation.fields import Fields, built
from parley.privacy.clipping import Clip, GradientClip, MomentumClip
from parley.privacy.event import LARGEST_COUNT, LARGEST_NOISE, SMALLEST_NOISE, NeighbouringRelation
from parley.privacy.mechanism import Cohort, Mechanism, Unit
from parley.privacy.sampling import LARGEST_POPULATION, FixedSize, Poisson, Sampler, require_in_range

LARGEST_NORM = 1e12
MOST_PARTIES = 10_000
NO_DATA_SETS: Mapping[str, str] = MappingProxyType({})


def mechanism_from(fields: Fields, parties: list[Fields]) -> Mechanism:
    """The mechanism of a run; party sizes are public, so replace-one is the only relation it can claim."""
    clip = _clip(fields.table("clip"))
    noise_multiplier = fields.number("noise_multiplier", 0, LARGEST_NOISE)
    if noise_multiplier < SMALLEST_NOISE:
        raise fields.refuse("noise_multiplier", f"is {noise_multiplier:g}: give at least {SMALLEST_NOISE}")
    steps = fields.whole("steps", 1, LARGEST_COUNT - 1)
    unit = Unit(fields.text("unit_column")) if fields.has("unit_column") else Unit()
    relation = NeighbouringRelation(fields.choice("relation", (NeighbouringRelation.REPLACE_ONE.value,)))
    fields.finish()
    if not 1 <= len(parties) <= MOST_PARTIES:
        raise ManifestError("parties", f"are {len(parties)}: list 1 to {MOST_PARTIES:,}")
    cohorts = tuple(_cohort(each) for each in parties)
    names: set[str] = set()
    for index, name in enumerate(cohort.party for cohort in cohorts):
        if name in names:
            raise ManifestError(f"parties[{index}].name", f"{name!r} is there twice: name each party once")
        names.add(name)
    return built("parties", lambda: Mechanism(cohorts, clip, noise_multiplier, steps, unit, relation))


def mechanism_table(mechanism: Mechanism) -> dict[str, Any]:
    """The inverse of `mechanism_from`, but for the parties."""
    body = mechanism.as_json()
    unit = {} if body["unit"] is None else {"unit_column": body["unit"]}
    return {name: body[name] for name in ("clip", "noise_multiplier", "steps", "relation")} | unit


def data_sets_from(parties: list[Fields]) -> tuple[tuple[str, str], ...]:
    """Which data set of a party a run is about, for those of whom that is said."""
    return tuple((each.label("name"), each.label("data_set")) for each in parties if each.has("data_set"))


def party_tables(mechanism: Mechanism, data_sets: Mapping[str, str] = NO_DATA_SETS) -> list[dict[str, Any]]:
    """The parties, as a manifest lists them."""
    tables = []
    for cohort in mechanism.cohorts:
        table = {"name": cohort.party, "sampler": cohort.sampler.as_json()}
        if cohort.party in data_sets:
            table["data_set"] = data_sets[cohort.party]
        if cohort.initial_sampler is not None:
            table["initial_sampler"] = cohort.initial_sampler.as_json()
        tables.append(table)
    return tables


def sampling_sentence(mechanism: Mechanism) -> str:
    """How a round's batches are drawn, in words: without a capital and a full stop."""
    samplers = [mechanism.sampler(cohort.party, mechanism.releases - 1) for cohort in mechanism.cohorts]
    how = {"wor": "a fixed number of units, without replacement", "poisson": "each unit independently, padded to a cap"}
    rates = sorted(sampler.rate for sampler in samplers)
    spread = f"{rates[0]:.4g}" if rates[0] == rates[-1] else f"{rates[0]:.4g} to {rates[-1]:.4g}"
    expected = sum(sampler.mean_batch for sampler in samplers)
    return f"{how[samplers[0].kind]}, at rate {spread}; {expected:,} expected per round"


def _cohort(fields: Fields) -> Cohort:
    name = fields.label("name")
    sampler = _sampler(fields.table("sampler"))
    initial = _sampler(fields.table("initial_sampler")) if fields.has("initial_sampler") else None
    for each in (
        "data_set",
        "legal_entity",
        "contact",
    ):  # which are `data_sets_from`'s and `parley.federation.people`'s
        fields.has(each)
    fields.finish()
    return built(fields.path("initial_sampler"), lambda: Cohort(name, sampler, initial))


def _sampler(fields: Fields) -> Sampler:
    kind = fields.choice("kind", (FixedSize.kind, Poisson.kind))
    names = ("units", "batch") if kind == FixedSize.kind else ("units", "expected", "cap")
    sizes = [fields.whole(name, 1, LARGEST_POPULATION) for name in names]
    fields.finish()
    if kind == FixedSize.kind:
        return built(fields.path("batch"), lambda: FixedSize(*sizes))
    return built(fields.path("cap"), lambda: Poisson(*sizes))


def _clip(fields: Fields) -> Clip:
    kind = fields.choice("kind", (GradientClip.kind, MomentumClip.kind))
    if kind == GradientClip.kind:
        norm = _in_range(fields, "norm", LARGEST_NORM)
        fields.finish()
        return GradientClip(norm)
    gradient, difference = (_in_range(fields, name, LARGEST_NORM) for name in ("gradient_norm", "difference_norm"))
    gamma = _in_range(fields, "gamma", 1)
    fields.finish()
    return MomentumClip(gradient, difference, gamma)


def _in_range(fields: Fields, name: str, most: float) -> float:
    value = fields.number(name, 0, most)
    return built(fields.path(name), lambda: require_in_range("this", value))
