"""STUDY.toml: what people decide about a run. The rest of a manifest (rounds, noise, lattice, batches) follows from it.

run = "heart-1"
federation = "cardio"
[model]                       kind = "logistic"
[algorithm]                   name = "ddp-srm", and its parameters
[regulariser]                 optional: kind, weight
[schema]                      parley.learning.schema
[privacy]                     epsilon, delta, and optionally accountant ("pld") and worst_epsilon: what one server that
                              lies may cost; then the smallest own noise that keeps to it is chosen
[rounds]                      optional: minimum_parties (all), deadline_seconds (60)
[noise]                       optional: cover ("strips"), precision (the cheapest that carries the claim), security
                              ("semi-honest"), own (0.5: what each server adds by itself, over what both sample)
[[parties]]                   name, units: the public size of its data set
[[aggregators]]               twice: name, legal_entity
[coordinator]                 name, legal_entity
"""

from pathlib import Path
from typing import Any, get_args

from parley.algorithms.regularisers import Regulariser
from parley.federation.errors import ManifestError
from parley.federation.fields import Fields
from parley.federation.files import toml_file
from parley.federation.manifest import (
    ACCOUNTANTS,
    LARGEST_EPSILON,
    LONGEST_DEADLINE_SECONDS,
    Manifest,
    Operator,
    noise_parts,
)
from parley.learning.schema import schema_from_json
from parley.mpc.parts import USUAL, usual_own
from parley.mpc.tables import Cover, Precision
from parley.privacy.lying import LARGEST_GUARANTEE
from parley.privacy.sampling import LARGEST_POPULATION
from parley.study.errors import RunFileError


def read_study(path: Path) -> dict[str, Any]:
    """What `draft` takes, and perhaps `worst_epsilon`; anything unknown, missing or out of range is refused by name."""
    body = toml_file(path, lambda what: RunFileError(f"{path.name} {what}"))
    study = Fields(body, "", ManifestError)
    privacy = study.table("privacy")
    sizes: dict[str, int] = {}
    for party in study.tables("parties"):
        name = party.label("name")
        if name in sizes:
            raise party.refuse("name", f"{name!r} is there twice: name each party once")
        sizes[name] = party.whole("units", 1, LARGEST_POPULATION)
        party.finish()
    aggregators = [_operator(each) for each in study.tables("aggregators")]
    if len(aggregators) != 2:
        raise study.refuse("aggregators", f"are {len(aggregators)}: give exactly two, of different legal entities")
    study.table("model"), study.table("algorithm"), study.table("schema")  # required, unlike other free tables
    wanted: dict[str, Any] = {
        "run": study.label("run"),
        "federation": study.label("federation"),
        "model": study.free("model").body,
        "algorithm": study.free("algorithm").body,
        "schema": schema_from_json(study.free("schema").body),
        "sizes": sizes,
        "epsilon": privacy.number("epsilon", 0, LARGEST_EPSILON),
        "delta": privacy.number("delta", 0, 0.5),
        "aggregators": tuple(aggregators),
        "coordinator": _operator(study.table("coordinator")),
    }
    if privacy.has("accountant"):
        wanted["accountant_name"] = privacy.choice("accountant", ACCOUNTANTS)
    if privacy.has("worst_epsilon"):
        wanted["worst_epsilon"] = privacy.number("worst_epsilon", 0, LARGEST_GUARANTEE)
    privacy.finish()
    if study.has("regulariser"):
        table = study.table("regulariser")
        wanted["regulariser"] = Regulariser(table.text("kind"), table.number("weight", -1, 1e12))
        table.finish()
    _rounds(study, len(sizes), wanted)
    _noise(study, wanted)
    study.finish()
    return wanted


def draft_from(path: Path) -> Manifest:
    """The manifest of a study; seconds, and imports scipy."""
    from parley.study.manifests import draft, smallest_own

    wanted = read_study(path)
    worst_epsilon = wanted.pop("worst_epsilon", None)
    return draft(**wanted) if worst_epsilon is None else smallest_own(worst_epsilon, wanted)


def _rounds(study: Fields, parties: int, wanted: dict[str, Any]) -> None:
    if not study.has("rounds"):
        return
    rounds = study.table("rounds")
    if rounds.has("minimum_parties"):
        wanted["minimum_parties"] = rounds.whole("minimum_parties", 2, max(2, parties))
    if rounds.has("deadline_seconds"):
        wanted["deadline_seconds"] = rounds.number("deadline_seconds", 0, LONGEST_DEADLINE_SECONDS)
    rounds.finish()


def _noise(study: Fields, wanted: dict[str, Any]) -> None:
    if not study.has("noise"):
        return
    noise = study.table("noise")
    covers: tuple[Cover, ...] = get_args(Cover)
    precisions: tuple[Precision, ...] = get_args(Precision)
    if noise.has("cover"):
        wanted["cover"] = noise.choice("cover", covers)
    if noise.has("precision"):
        wanted["precision"] = noise.choice("precision", precisions)
    if noise.has("own") and "worst_epsilon" in wanted:
        raise noise.refuse("own", "and privacy.worst_epsilon are both there: one of them chooses, leave the other out")
    if noise.has("own") or noise.has("security"):
        security = noise.text("security") if noise.has("security") else USUAL.security
        own = noise.number("own", -1, 1) + 0.0 if noise.has("own") else usual_own(security)
        wanted["parts"] = noise_parts(noise, security, own)
    noise.finish()


def _operator(fields: Fields) -> Operator:
    operator = Operator(fields.label("name"), fields.text("legal_entity"))
    fields.finish()
    return operator
