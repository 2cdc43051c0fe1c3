"""What a study says, but for its columns and its files: the one place that checks it, for documents and for Python.

`tables_of` writes arguments as the tables of a study.toml, `arguments_of` reads them back, strictly: so a wrong value
is refused in the same words wherever it came from.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, get_args

from parley.algorithms.regularisers import Regulariser
from parley.federation.fields import Fields
from parley.federation.manifest import ACCOUNTANTS, LARGEST_EPSILON, Operator
from parley.federation.noise import noise_parts
from parley.federation.people import NOBODY, Institution, Legal, institution_of, legal_of, optional_words
from parley.federation.start_and_stop import (
    LONGEST_DEADLINE_SECONDS,
    UPLOADS,
    StopEarly,
    stop_early_of,
)
from parley.mpc.parts import usual_own
from parley.mpc.tables import Cover, Precision
from parley.privacy.lying import LARGEST_GUARANTEE
from parley.privacy.sampling import LARGEST_POPULATION
from parley.study.errors import Collected

PLACES = {
    "privacy": ("epsilon", "delta", "accountant", "worst_epsilon"),
    "noise": ("cover", "precision", "security", "own", "audit"),
    "rounds": ("minimum_parties", "deadline_seconds", "stop_early", "uploads"),
}
"""Arguments by the table that holds them."""
LARGEST_WEIGHT = 1e12


def tables_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """As a study.toml has them; what is None or empty is left out."""
    body: dict[str, Any] = {name: arguments[name] for name in ("run", "federation") if arguments[name] is not None}
    body |= {"model": arguments["model"], "algorithm": arguments["algorithm"]}
    penalty = arguments["regulariser"]
    if isinstance(penalty, Regulariser):
        penalty = None if penalty == Regulariser() else {"kind": penalty.kind, "weight": penalty.weight}
    if penalty is not None:
        body["regulariser"] = penalty
    for table, names in PLACES.items():
        if found := {name: _plain(arguments[name]) for name in names if arguments[name] is not None}:
            body[table] = found
    if arguments["parties"]:
        named = dict(arguments["data_sets"] or {})
        body["parties"] = [
            {"name": name, "units": units}
            | ({"data_set": named[name]} if name in named else {})
            | _plain(dict(arguments["institutions"] or {}).get(name, {}))
            for name, units in dict(arguments["parties"]).items()
        ]
    operators: Sequence[Any] = arguments["aggregators"]
    if operators:
        body["aggregators"] = [_operator_table(each) for each in operators]
    if arguments["coordinator"] is not None:
        body["coordinator"] = _operator_table(arguments["coordinator"])
    if arguments["legal"] is not None:
        body["legal"] = _plain(arguments["legal"])
    return body


def arguments_of(study: Fields) -> dict[str, Any]:
    """Arguments of a Study; a field that is missing, unknown or out of range is refused by its place."""
    found: dict[str, Any] = {"parties": {}, "data_sets": {}, "institutions": {}}
    wrong = Collected()
    for read in (_recipe, _sizes, _privacy, _regulariser, _rounds, _noise, _operators, _legal):
        wrong.look(partial(read, study, found))
    wrong.look(study.finish)
    wrong.finish()
    return found


def _recipe(study: Fields, found: dict[str, Any]) -> None:
    for name in ("model", "algorithm"):
        study.table(name)  # required, unlike other free tables
        found[name] = study.free(name).body
    found.update({name: study.label(name) for name in ("run", "federation") if study.has(name)})


def _sizes(study: Fields, found: dict[str, Any]) -> None:
    sizes: dict[str, int] = found["parties"]
    for party in study.tables("parties") if study.has("parties") else ():
        name = party.label("name")
        if name in sizes:
            raise party.refuse("name", f"{name!r} is there twice: name each party once")
        sizes[name] = party.whole("units", 1, LARGEST_POPULATION)
        if party.has("data_set"):
            found["data_sets"][name] = party.label("data_set")
        if (institution := institution_of(party)) != NOBODY:
            found["institutions"][name] = institution
        party.finish()


def _privacy(study: Fields, found: dict[str, Any]) -> None:
    privacy = study.table("privacy")
    found["epsilon"] = privacy.number("epsilon", 0, LARGEST_EPSILON)
    found["delta"] = privacy.number("delta", 0, 0.5)
    if privacy.has("accountant"):
        found["accountant"] = privacy.choice("accountant", ACCOUNTANTS)
    if privacy.has("worst_epsilon"):
        found["worst_epsilon"] = privacy.number("worst_epsilon", 0, LARGEST_GUARANTEE)
    privacy.finish()


def _regulariser(study: Fields, found: dict[str, Any]) -> None:
    if not study.has("regulariser"):
        return
    table = study.table("regulariser")
    weight = table.number("weight", -1, LARGEST_WEIGHT) if table.has("weight") else 0.0
    found["regulariser"] = Regulariser(table.text("kind"), weight)
    table.finish()


def _rounds(study: Fields, found: dict[str, Any]) -> None:
    if not study.has("rounds"):
        return
    rounds = study.table("rounds")
    if rounds.has("minimum_parties"):
        found["minimum_parties"] = rounds.whole("minimum_parties", 2, max(2, len(found["parties"])))
    if rounds.has("deadline_seconds"):
        found["deadline_seconds"] = rounds.number("deadline_seconds", 0, LONGEST_DEADLINE_SECONDS)
    found["stop_early"] = stop_early_of(rounds)
    if rounds.has("uploads"):
        found["uploads"] = rounds.choice("uploads", UPLOADS)
    rounds.finish()


def _noise(study: Fields, found: dict[str, Any]) -> None:
    if not study.has("noise"):
        return
    noise = study.table("noise")
    covers: tuple[Cover, ...] = get_args(Cover)
    precisions: tuple[Precision, ...] = get_args(Precision)
    if noise.has("cover"):
        found["cover"] = noise.choice("cover", covers)
    if noise.has("precision"):
        found["precision"] = noise.choice("precision", precisions)
    if noise.has("own") and "worst_epsilon" in found:
        raise noise.refuse("own", "and privacy.worst_epsilon are both there: one of them chooses, leave the other out")
    if noise.has("security"):
        found["security"] = noise.text("security")
    if noise.has("own"):
        found["own"] = noise.number("own", -1, 1) + 0.0
    if noise.has("audit"):
        found["audit"] = noise.text("audit")
    security = found.get("security", "semi-honest")
    noise_parts(noise, security, found.get("own", usual_own(security)), found.get("audit"))
    noise.finish()


def _operators(study: Fields, found: dict[str, Any]) -> None:
    aggregators = [_operator(each) for each in study.tables("aggregators")] if study.has("aggregators") else []
    if len(aggregators) not in (0, 2):
        raise study.refuse("aggregators", f"are {len(aggregators)}: give exactly two, of different legal entities")
    found["aggregators"] = tuple(aggregators)
    if study.has("coordinator"):
        found["coordinator"] = _operator(study.table("coordinator"))


def _operator(fields: Fields) -> Operator:
    operator = Operator(fields.label("name"), fields.text("legal_entity"), optional_words(fields, "contact"))
    fields.finish()
    return operator


def _legal(study: Fields, found: dict[str, Any]) -> None:
    found["legal"] = legal_of(study)


def _plain(given: Any) -> Any:
    return given.as_json() if isinstance(given, StopEarly | Legal | Institution) else given


def _operator_table(given: Any) -> Any:
    return given.as_json() if isinstance(given, Operator) else given
