"""The manifest: one immutable document that fixes a run, and the digest that goes into every message.

TOML comes in from people, the canonical form travels between nodes; both are read by the one strict parser here, and
both describe the same table. The canonical form is

    b"parley manifest 2\\n" + JSON of the table: keys sorted, no spaces, ASCII with \\u escapes, every field present but
    those that are optional and absent, floats as the shortest decimal text that reads back as the same IEEE double

and its SHA-256 is the digest. Numbers of a real-valued field are floats before they are spelled, so 1, 1.0 and 1e0
agree; in the free tables (`schema`, `regulariser`, what `model` and `algorithm` hold beside their names) 1 and 1.0
differ, as they may to the code that reads them. A reader of the canonical form encodes what it understood again and
refuses the bytes if they differ: two documents with one meaning, or one with two, do not exist.

What costs seconds or megabytes is in `parley.federation.meaning`; everything else is checked when one is made.
"""

import hashlib
import json
import unicodedata
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

from parley.federation.errors import ManifestError
from parley.federation.fields import Fields, Plain
from parley.federation.files import toml_file, toml_table
from parley.federation.mechanism import data_sets_from, mechanism_from, mechanism_table, party_tables
from parley.federation.names import NodeName, Role
from parley.federation.noise import Noise, noise_from, noise_table
from parley.federation.people import (
    Institution,
    Legal,
    institutions_from,
    legal_of,
    optional_words,
    with_institutions,
)
from parley.federation.start_and_stop import Start, StopEarly, optional, rounds_of, start_of, uploads_table
from parley.mpc.errors import MpcError
from parley.mpc.packing import WHOLE
from parley.mpc.ring import Lattice
from parley.mpc.tables import FORMATS
from parley.privacy.canonical import canonical_json
from parley.privacy.errors import PrivacyError
from parley.privacy.mechanism import Mechanism
from parley.privacy.sampling import require_in_range

PROTOCOL = 2
HEADER = f"parley manifest {PROTOCOL}\n".encode()
MOST_BYTES = 1 << 20
LARGEST_DIMENSION = 1 << 31
SHORT_ANSWERS = 64
"""Numbers that every round has noise for, however small the model is."""
LARGEST_EPSILON = 50.0
ACCOUNTANTS = ("pld", "rdp", "paper")
"""Those whose readings are guarantees."""


def longest_answer(dimension: int) -> int:
    """A histogram or a few losses may be longer than a small model."""
    return max(dimension, SHORT_ANSWERS)


@dataclass(frozen=True)
class Model:
    """A model that every party has installed; code never travels."""

    kind: str
    dimension: int
    """Its number of parameters."""
    options: Plain


@dataclass(frozen=True)
class AlgorithmChoice:
    """How the coordinator steps the model."""

    name: str
    parameters: Plain


@dataclass(frozen=True)
class Guarantee:
    """What the run claims; `parley.federation.meaning` verifies it."""

    epsilon: float
    delta: float
    accountant: str
    epsilon_if_a_server_lies: float | None = None
    """What one server that does anything whatever may cost, at the same δ; none claims nothing. Verified, too."""


def entity_key(legal_entity: str) -> str:
    """For comparison: letter case, letters' width and spacing do not make another legal entity."""
    return " ".join(unicodedata.normalize("NFKC", legal_entity).casefold().split())


@dataclass(frozen=True)
class Operator:
    """A server and who answers for it in law.

    >>> study.Operator("north", "North Computing Trust").name
    'north'
    """

    name: str
    legal_entity: str
    contact: str = ""
    """Whom to write to; empty where nobody is named."""

    def as_json(self) -> dict[str, str]:
        """As documents have it: without a contact where there is none."""
        return {name: text for name, text in vars(self).items() if text}

    @property
    def entity_key(self) -> str:
        return entity_key(self.legal_entity)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A run. Make it by `from_toml`, `from_canonical` or `from_json`, which check every field."""

    run: str
    federation: str
    model: Model
    algorithm: AlgorithmChoice
    regulariser: Plain
    schema: Plain
    """Which columns, and what they mean: public bounds, categories. `learning.schema` reads it, and every institution
    compares it with its own schema; what a file looks like is not in it."""
    guarantee: Guarantee
    mechanism: Mechanism
    noise: Noise
    minimum_parties: int
    deadline_seconds: float
    """Of one round."""
    aggregators: tuple[Operator, Operator]
    """A, then B."""
    coordinator: Operator
    data_sets: tuple[tuple[str, str], ...] = ()
    """Parties and which of their data sets the run is about, if they have several. Whose budget is theirs to say."""
    start: Start | None = None
    stop_early: StopEarly | None = None
    legal: Legal | None = None
    """What it is for and by what right, where it says so."""
    institutions: tuple[tuple[str, Institution], ...] = ()
    """Parties of whom the manifest says who they are in law."""
    packed: bool = False
    """Whether server A's halves are as wide as the opening needs, and not words of 8 bytes."""

    def __post_init__(self) -> None:
        count = len(self.parties)
        if not 2 <= self.minimum_parties <= count:
            raise ManifestError(
                "rounds.minimum_parties",
                f"is {self.minimum_parties} and the run has {count} parties: give a number from 2 to {count}",
            )
        first, second = self.aggregators
        if first.name == second.name:
            raise ManifestError("aggregators[1].name", f"{second.name!r} is both aggregators: name two different ones")
        if first.entity_key == second.entity_key:
            raise ManifestError(
                "aggregators[1].legal_entity",
                f"{second.legal_entity!r} operates both aggregators, who must not collude: choose two legal entities",
            )
        unit = self.schema.body.get("unit")
        if unit != self.mechanism.unit.column:
            raise ManifestError(
                "mechanism.unit_column",
                f"is {self.mechanism.unit.column!r} and schema.unit is {unit!r}: the unit whose privacy is counted "
                "must be the unit by which records are grouped, make them the same",
            )
        for round_index in self.kinds_of_rounds:
            try:
                lattice = self.lattice(round_index)
                lattice.check_range(
                    self.most_contributions(round_index), self.mechanism.clip.contribution_bound(round_index)
                )
                require_in_range("the lattice's step", lattice.step)
            except (MpcError, PrivacyError) as error:
                raise ManifestError("noise.fraction_bits", f"round {round_index}: {error}") from None

    @property
    def parties(self) -> tuple[str, ...]:
        return tuple(cohort.party for cohort in self.mechanism.cohorts)

    @property
    def releases(self) -> int:
        """How many noised sums are opened: rounds."""
        return self.mechanism.releases

    @property
    def longest_answer(self) -> int:
        """The most numbers that answer a question of this run, and so the most noise of one round."""
        return longest_answer(self.model.dimension)

    @property
    def samples(self) -> int:
        """Gaussians in all, at most, as a claim counts them: of every part that it rests on."""
        return self.longest_answer * self.releases * self.noise.parts.samples

    @property
    def joint_samples(self) -> int:
        """Gaussians that the two servers sample together, at most."""
        return self.longest_answer * self.releases * self.noise.parts.joint

    @property
    def kinds_of_rounds(self) -> tuple[int, ...]:
        """One round of each kind: the first and the last stand for all."""
        return (0,) if self.releases == 1 else (0, self.releases - 1)

    def lattice(self, round_index: int) -> Lattice:
        """Of the round's data and noise."""
        scale_bits, deviation = FORMATS[self.noise.precision].scale_bits, self.mechanism.noise_deviation(round_index)
        return Lattice(deviation, self.noise.fraction_bits, scale_bits, self.noise.parts)

    @property
    def share_bits(self) -> int:
        """Width of a number on its way to server A: in every round the same."""
        return self.lattice(0).opening_bits if self.packed else WHOLE

    def released_deviation(self, round_index: int) -> float:
        """Of the noise in the opened sum: more than what a claim counts, for each server knows its own part."""
        return self.mechanism.noise_deviation(round_index) * self.noise.parts.excess

    def most_contributions(self, round_index: int) -> int:
        """Units that one sum can hold, over all parties."""
        return sum(self.mechanism.sampler(party, round_index).length for party in self.parties)

    @property
    def expired(self) -> bool:
        """Whether the last day on which anybody takes part is over; False where none is named."""
        return self.legal is not None and self.legal.expired()

    def data_set_of(self, party: str) -> str:
        """Which of this party's the run is about; empty where the manifest names none."""
        return dict(self.data_sets).get(party, "")

    def identities(self, role: Role) -> tuple[NodeName, ...]:
        """The nodes of a role, as their certificates must name them; aggregators in the order A, B."""
        return self._identities[role]

    @cached_property
    def _identities(self) -> dict[Role, tuple[NodeName, ...]]:
        names = {
            Role.party: self.parties,
            Role.aggregator: tuple(operator.name for operator in self.aggregators),
            Role.coordinator: (self.coordinator.name,),
        }
        return {role: tuple(NodeName(self.federation, role, name) for name in names[role]) for role in names}

    @cached_property
    def members(self) -> frozenset[NodeName]:
        """Its parties, as whoever calls is looked for among them."""
        return frozenset(self.identities(Role.party))

    @cached_property
    def canonical(self) -> bytes:
        """The one spelling of this manifest."""
        return HEADER + canonical_json(self.as_json()).encode("ascii")

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical form: 32 bytes."""
        return hashlib.sha256(self.canonical).digest()

    def as_json(self) -> dict[str, Any]:
        """The table, with every default spelled out."""
        lying = self.guarantee.epsilon_if_a_server_lies
        rounds = {"minimum_parties": self.minimum_parties, "deadline_seconds": self.deadline_seconds}
        return {
            "protocol": PROTOCOL,
            "run": self.run,
            "federation": self.federation,
            "model": {**self.model.options.body, "kind": self.model.kind, "dimension": self.model.dimension},
            "algorithm": {**self.algorithm.parameters.body, "name": self.algorithm.name},
            "regulariser": self.regulariser.body,
            "schema": self.schema.body,
            "privacy": {
                "epsilon": self.guarantee.epsilon,
                "delta": self.guarantee.delta,
                "accountant": self.guarantee.accountant,
                **({} if lying is None else {"epsilon_if_a_server_lies": lying}),
            },
            "mechanism": mechanism_table(self.mechanism),
            "parties": with_institutions(party_tables(self.mechanism, dict(self.data_sets)), dict(self.institutions)),
            "noise": noise_table(**vars(self.noise)),
            "rounds": rounds | optional("stop_early", self.stop_early) | uploads_table(self.packed),
            **optional("start", self.start),
            **optional("legal", self.legal),
            "aggregators": [each.as_json() for each in self.aggregators],
            "coordinator": self.coordinator.as_json(),
        }

    @classmethod
    def from_json(cls, body: Any) -> Self:
        """From TOML's table or the canonical form's; anything unknown, missing or out of range is refused by name."""
        document = Fields(body, "", ManifestError)
        document.whole("protocol", PROTOCOL, PROTOCOL)
        manifest = cls(
            run=document.label("run"),
            federation=document.label("federation"),
            model=_model(document.table("model")),
            algorithm=_algorithm(document.table("algorithm")),
            regulariser=document.free("regulariser"),
            schema=_schema(document),
            guarantee=_guarantee(document.table("privacy")),
            data_sets=data_sets_from(document.tables("parties")),
            mechanism=mechanism_from(document.table("mechanism"), document.tables("parties")),
            noise=noise_from(document.table("noise")),
            **rounds_of(document.table("rounds")),
            aggregators=_aggregators(document),
            coordinator=_operator(document.table("coordinator")),
            start=start_of(document),
            legal=legal_of(document),
            institutions=institutions_from(document.tables("parties")),
        )
        document.finish()
        return manifest

    @classmethod
    def from_toml(cls, text: str) -> Self:
        return cls.from_json(toml_table(text.encode(), partial(ManifestError, "the manifest")))

    @classmethod
    def from_canonical(cls, data: bytes) -> Self:
        """From a peer: exactly the bytes that this node would have written, or an error."""
        if len(data) > MOST_BYTES or not data.startswith(HEADER):
            raise ManifestError(
                "the manifest", f"does not begin with {HEADER.decode().strip()!r} or is over 1 MiB: upgrade both nodes"
            )
        try:
            manifest = cls.from_json(json.loads(data[len(HEADER) :]))
        except (ValueError, RecursionError) as error:
            raise ManifestError("the manifest", f"is not in canonical form: {type(error).__name__}") from None
        if manifest.canonical != data:
            raise ManifestError("the manifest", "is not in canonical form: send Manifest.canonical, unaltered")
        return manifest


def of_an_earlier_version(data: bytes) -> bool:
    """Whether a node's own record holds a manifest that this version does not read any more."""
    return data.startswith(b"parley manifest ") and not data.startswith(HEADER)


def read_manifest(path: Path) -> Manifest:
    """A manifest from a TOML file."""
    return Manifest.from_json(toml_file(path, partial(ManifestError, path.name), most_bytes=MOST_BYTES))


def _model(fields: Fields) -> Model:
    return Model(fields.text("kind"), fields.whole("dimension", 1, LARGEST_DIMENSION), fields.rest())


def _algorithm(fields: Fields) -> AlgorithmChoice:
    return AlgorithmChoice(fields.text("name"), fields.rest())


def _schema(document: Fields) -> Plain:
    document.table("schema")  # required, unlike other free tables
    return document.free("schema")


def _guarantee(fields: Fields) -> Guarantee:
    epsilon, delta = fields.number("epsilon", 0, LARGEST_EPSILON), fields.number("delta", 0, 0.5)
    accountant = fields.choice("accountant", ACCOUNTANTS)
    name = "epsilon_if_a_server_lies"
    lying = fields.number(name, 0, LARGEST_EPSILON) if fields.has(name) else None
    fields.finish()
    return Guarantee(epsilon, delta, accountant, lying)


def _aggregators(document: Fields) -> tuple[Operator, Operator]:
    tables = document.tables("aggregators")
    if len(tables) != 2:
        raise document.refuse("aggregators", f"are {len(tables)}: give exactly two, of different legal entities")
    return _operator(tables[0]), _operator(tables[1])


def _operator(fields: Fields) -> Operator:
    operator = Operator(fields.label("name"), fields.text("legal_entity"), optional_words(fields, "contact"))
    fields.finish()
    return operator
