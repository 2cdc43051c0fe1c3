"""From what a study wants to a manifest that every role's check accepts: plan, noise, lattice, precision of the noise.

The noise multiplier is the smallest at which the CLAIM, the finite precision of the servers' noise included, is the
wanted (ε, δ): `parley.federation.meaning.verify` computes the same and finds at most ε. All from public facts.
Calibration imports scipy, so a long-running process has another one call this.
"""

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from parley.algorithms.algorithm import Plan
from parley.algorithms.registry import build_algorithm, check_answers, setting_of
from parley.algorithms.regularisers import Regulariser
from parley.federation.fields import Plain
from parley.federation.manifest import PROTOCOL, Manifest, Operator, longest_answer
from parley.federation.meaning import finite_precision, verify
from parley.federation.mechanism import NO_DATA_SETS, mechanism_table, party_tables
from parley.federation.noise import noise_table
from parley.federation.people import NO_INSTITUTIONS, Institution, Legal, with_institutions
from parley.federation.start_and_stop import PACKED, StopEarly, Uploads, optional, uploads_table
from parley.learning.contributor import Encoding
from parley.learning.schema import Schema
from parley.models.extractor_spec import with_code_digests
from parley.mpc.errors import MpcError
from parley.mpc.parts import USUAL, NoiseParts
from parley.mpc.tables import FORMATS, Cover, Precision
from parley.privacy.accountants import Accountant, Reading, accountant
from parley.privacy.calibration import smallest_noise
from parley.privacy.errors import ConditionsUnmetError, InvalidParameterError
from parley.privacy.event import Event
from parley.privacy.finite_precision import FinitePrecision, gaussian_reading, require_share
from parley.privacy.lying import NO_GUARANTEE
from parley.privacy.mechanism import Mechanism, Unit
from parley.study.errors import StudyError
from parley.study.opened import opened, table_of
from parley.study.simulation import mechanism_of
from parley.study.start_and_stop import start_at

if TYPE_CHECKING:
    from parley.study.study import Study

NUDGE = 1 + 2.5e-4
"""Accountants round upwards by up to 3e-4 of their figure: what fits one party may just miss another."""
MOST_NUDGES = 20


@dataclass(frozen=True)
class Claiming:
    """An accountant whose readings are claims: the finite precision's share of ε and δ is in them.

    How large a part of ε that is, is not asked here: of a small ε far from the target it may be most.
    """

    chosen: Accountant
    precision: FinitePrecision

    @property
    def name(self) -> str:
        return self.chosen.name

    @property
    def certifies(self) -> bool:
        return self.chosen.certifies

    def epsilon(self, event: Event, delta: float) -> Reading:
        try:
            reading = gaussian_reading(self.precision, self.chosen, event, delta)
        except ConditionsUnmetError:
            raise
        except InvalidParameterError:
            # So little noise that its tail takes more of δ than it may: no claim, so look further.
            return Reading(math.inf, delta, self.name)
        return replace(reading, epsilon=reading.epsilon + self.precision.epsilon_added)

    def delta(self, event: Event, epsilon: float) -> float:
        return self.precision.delta_total(epsilon, self.chosen.delta(event, epsilon - self.precision.epsilon_added))


def draft(
    *,
    run: str,
    federation: str,
    model: Mapping[str, Any],
    algorithm: Mapping[str, Any],
    schema: Schema,
    sizes: Mapping[str, int],
    epsilon: float,
    delta: float,
    aggregators: tuple[Operator, Operator],
    coordinator: Operator,
    accountant_name: str = "pld",
    regulariser: Regulariser | None = None,
    data_sets: Mapping[str, str] = NO_DATA_SETS,
    minimum_parties: int | None = None,
    deadline_seconds: float = 60.0,
    uploads: Uploads = PACKED,
    cover: Cover = "strips",
    precision: Precision | None = None,
    parts: NoiseParts = USUAL,
    start: Path | None = None,
    stop_early: StopEarly | None = None,
    legal: Legal | None = None,
    institutions: Mapping[str, Institution] = NO_INSTITUTIONS,
) -> Manifest:
    """A complete manifest that claims exactly (ε, δ).

    `model` and `algorithm` are tables of a study; `sizes` are each party's units of privacy, in order.
    Without `minimum_parties` every party must take part. A node of a release before `uploads` was a field takes no
    manifest but one of "words". Without `precision` it is the cheapest preset that carries the
    claim.
    """
    penalty = regulariser or Regulariser()
    counted = dict(sizes)
    built, table = opened(Plain.of(model), schema), table_of(Plain.of(model), schema)
    stepping = build_algorithm(dict(algorithm), penalty)
    plan = stepping.plan(setting_of(sum(counted.values()), built, epsilon, delta, schema, str(model["kind"])))
    check_answers(str(algorithm["name"]), stepping, built.dimension)
    if not plan.private:
        raise StudyError(f"{algorithm['name']} is not private: choose an algorithm that is")
    found = start_at(start, stepping, table, schema)
    mechanism, chosen, _ = least_noise(
        plan, counted, Unit(schema.unit), epsilon, delta, accountant_name, built.dimension, parts, cover, precision
    )
    bits = Encoding.of(mechanism, FORMATS[chosen].scale_bits, built.largest_limit, parts).fraction_bits
    return Manifest.from_json(
        {
            "protocol": PROTOCOL,
            "run": run,
            "federation": federation,
            "model": table,
            "algorithm": dict(algorithm),
            "regulariser": {"kind": penalty.kind, "weight": penalty.weight},
            "schema": {name: value for name, value in with_code_digests(schema).as_json().items() if value is not None},
            "privacy": {"epsilon": epsilon, "delta": delta, "accountant": accountant_name},
            "mechanism": mechanism_table(mechanism),
            "parties": with_institutions(party_tables(mechanism, data_sets), institutions),
            "noise": noise_table(cover, chosen, bits, parts),
            "rounds": {
                "minimum_parties": len(counted) if minimum_parties is None else minimum_parties,
                "deadline_seconds": deadline_seconds,
                **optional("stop_early", stop_early),
                **uploads_table(uploads == PACKED),
            },
            **optional("start", found.start if found is not None else None),
            **optional("legal", legal),
            "aggregators": [each.as_json() for each in aggregators],
            "coordinator": coordinator.as_json(),
        }
    )


def least_noise(
    plan: Plan,
    sizes: dict[str, int],
    unit: Unit,
    epsilon: float,
    delta: float,
    name: str,
    dimension: int,
    parts: NoiseParts,
    cover: Cover = "strips",
    precision: Precision | None = None,
) -> tuple[Mechanism, Precision, FinitePrecision]:
    """The mechanism with the smallest noise, by the cheapest preset that carries the claim, and that preset's terms."""
    samples = longest_answer(dimension) * plan.releases * parts.samples
    presets: tuple[Precision, ...] = (precision,) if precision else get_args(Precision)
    for preset in presets[:-1]:
        with contextlib.suppress(MpcError, InvalidParameterError):
            return _least(plan, sizes, unit, epsilon, delta, name, samples, cover, preset)
    return _least(plan, sizes, unit, epsilon, delta, name, samples, cover, presets[-1])


def _least(
    plan: Plan,
    sizes: dict[str, int],
    unit: Unit,
    epsilon: float,
    delta: float,
    name: str,
    samples: int,
    cover: Cover,
    preset: Precision,
) -> tuple[Mechanism, Precision, FinitePrecision]:
    terms = finite_precision(samples, epsilon, delta, cover, preset)
    return quietest(plan, sizes, unit, epsilon, delta, Claiming(accountant(name), terms)), preset, terms


def manifest_of(study: "Study", records: Mapping[str, int] | None = None) -> Manifest:
    """Refused with every name that the study lacks; `records` are the parties' units where they are not its own."""
    sizes = dict(study.parties if records is None else records)
    require_names(study, sizes)
    return drafted(study, sizes)


def require_names(study: "Study", sizes: Mapping[str, int]) -> None:
    """Of everybody who takes part."""
    lacking = [
        what
        for what, there in (
            ("run", study.run),
            ("federation", study.federation),
            ("[[parties]] with their units", sizes),
            ("two [[aggregators]]", study.aggregators),
            ("a [coordinator]", study.coordinator),
        )
        if not there
    ]
    if lacking:
        raise StudyError(f"a manifest needs {', '.join(lacking)}: add what the study lacks")


def drafted(study: "Study", sizes: Mapping[str, int], **names: Any) -> Manifest:
    """`names` stand for what the study does not name."""
    wanted: dict[str, Any] = {
        "run": study.run,
        "federation": study.federation,
        "aggregators": study.aggregators,
        "coordinator": study.coordinator,
    }
    wanted = {name: value or names.get(name) for name, value in wanted.items()} | {
        "model": study.model,
        "algorithm": study.algorithm,
        "schema": study.schema,
        "sizes": sizes,
        "data_sets": study.data_sets,
        "epsilon": study.epsilon,
        "delta": study.delta,
        "accountant_name": study.accountant,
        "regulariser": study.regulariser,
        "minimum_parties": study.minimum_parties,
        "deadline_seconds": study.deadline_seconds,
        "uploads": study.uploads,
        "cover": study.cover,
        "precision": study.precision,
        "start": study.start,
        "stop_early": study.stop_early,
        "legal": study.legal,
        "institutions": study.institutions,
    }
    if study.worst_epsilon is None:
        return draft(**wanted, parts=study.parts)
    return smallest_own(study.worst_epsilon, {**wanted, "parts": study.parts})


def smallest_own(worst_epsilon: float, wanted: dict[str, Any]) -> Manifest:
    """`draft` with the least own noise with which a server that lies costs at most `worst_epsilon`.

    `wanted` is what `draft` takes; under `malicious` there is nothing to choose.
    """

    def tried(parts: NoiseParts) -> tuple[Manifest, float | None]:
        made = draft(**{**wanted, "parts": parts})
        return made, verify(made).epsilon_if_a_server_lies

    return first_within(worst_epsilon, wanted.get("parts", USUAL), tried)


Made = TypeVar("Made")


def first_within(
    worst_epsilon: float, usual: NoiseParts, tried: Callable[[NoiseParts], tuple[Made, float | None]]
) -> Made:
    """What is made with the least own noise that keeps ε₂, which `tried` gives beside it, to `worst_epsilon`."""
    choices = usual.with_more_of_its_own
    found: float | None = None
    for each in choices:
        made, found = tried(each)
        if found is not None and found <= worst_epsilon:
            return made
    reached = NO_GUARANTEE if found is None else f"epsilon {found:.4g}"
    raise InvalidParameterError(
        f"worst_epsilon is {worst_epsilon:g} and the most own noise of the servers gives {reached}: raise it, lower "
        'epsilon, sample more of the records in fewer rounds, or choose security = "malicious"'
    )


def quietest(
    plan: Plan, sizes: dict[str, int], unit: Unit, epsilon: float, delta: float, claiming: Claiming
) -> Mechanism:
    """The mechanism with the smallest noise at which every party's units have (ε, δ); refused if the sampler's finite
    precision is more than its share of the claim there.
    """
    mechanism = mechanism_of(plan, sizes, delta, 1.0, unit, epsilon)
    events: set[Event] = set(mechanism.events().values())
    noise = max(smallest_noise(claiming, event, epsilon, delta)[0] for event in events)
    for _ in range(MOST_NUDGES):
        worst = max(claiming.epsilon(event.with_noise(noise), delta).epsilon for event in events)
        if worst <= epsilon:
            require_share(claiming.precision, worst)
            return replace(mechanism, noise_multiplier=noise)
        noise *= NUDGE
    raise InvalidParameterError(
        f"no noise near {noise:.4g} gives every party epsilon {epsilon:g}: this is a defect, report it"
    )
