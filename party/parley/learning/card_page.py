"""A model's card as a page that a lawyer and a data scientist can read: Markdown, or HTML that needs nothing else.

    page(parameters, description, card).html()

Everything in it is in the model file: what cannot be read there is not said. A card may come from a stranger, so every
word is escaped, and no content of a file makes this fail or lets the page do anything but be read.
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from parley.learning.plain_page import Block, Page, Points, Quote, Table, text
from parley.mpc.parts import AUDITS, worth_of_audits

MOST_ROWS = 200
MOST_WORDS = 30
"""Of categories in a cell."""
FIGURES = {
    "loss": "mean loss",
    "accuracy": "accuracy",
    "auc": "area under the ROC curve (AUC)",
    "average_precision": "average precision",
    "brier": "Brier score",
    "calibration_slope": "calibration slope (1 is right)",
    "rmse": "root mean square error",
    "mae": "mean absolute error",
    "r2": "R²",
}
MODELS = {
    "logistic": "logistic regression",
    "softmax": "softmax regression",
    "linear": "linear regression",
    "huber": "linear regression with Huber's loss",
    "smoothed-hinge": "linear classifier with a smoothed hinge loss",
    "perceptron": "multilayer perceptron",
}


UNSAID = ("kind", "dimension", "digest", "probe")
"""Of a model: said elsewhere, or for machines."""


def page(parameters: int, description: Mapping[str, Any], card: Mapping[str, Any]) -> Page:
    """Of a model file's parts; `parameters` is how many numbers θ has."""
    model, schema = _table(description.get("model")), _table(description.get("schema"))
    made = Page(f"Model card: {text(card.get('run'))}", _subtitle(card), _warning(card))
    made.sections = [
        ("What it predicts", _prediction(parameters, model, schema)),
        ("From which columns", _columns(schema)),
        ("Who took part", _participants(card)),
        ("What is guaranteed, against whom", _guarantee(card)),
        ("How good it is on public records", _quality(card)),
        ("Limits", [Points(tuple(_limits(card)))]),
        ("How it was trained", _training(card)),
        ("Digests", _digests(card)),
    ]
    return made


# ------------------------------------------------------------ sections


def _subtitle(card: Mapping[str, Any]) -> str:
    made = f"Federation {text(card['federation'])}. " if card.get("federation") else ""
    written = re.sub(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d\+00:00$", r"\1 \2 UTC", text(card.get("written")))
    return f"{made}Written {written}."


def _warning(card: Mapping[str, Any]) -> str:
    if not _simulated(card):
        return ""
    if card.get("records") in ("public", "made up"):
        return (
            f"Simulated, on records that are {card['records']}: nobody's privacy was at stake, and none is protected."
        )
    if _protects_nobody(card):
        return "Simulated: this model protects nobody. It must not be passed on where its records are private."
    return (
        "Simulated: one person had all records in one place when this model was made. What is promised below holds "
        "towards everybody but that person; there were no institutions and no servers."
    )


def _prediction(parameters: int, model: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Block]:
    target = _table(schema.get("target"))
    kind, name = target.get("kind"), text(target.get("name"))
    if kind == "binary":
        what = f"whether {name} is {_words(target.get('positive'))} rather than {_words(target.get('negative'))}"
    elif kind == "classes":
        what = f"which class {name} is: {_words(target.get('classes'))}"
    else:
        what = f"the number {name}, between {number(target.get('low'))} and {number(target.get('high'))}"
    made = MODELS.get(str(model.get("kind")), text(model.get("kind")))
    if str(model.get("kind")).startswith("torch:"):
        made = f"PyTorch module, {made},"
    more = [f"{text(key)}: {_value(value)}" for key, value in model.items() if key not in UNSAID]
    return [
        f"It predicts {what}.",
        f"It is a {made} with {parameters:,} parameters{' (' + '; '.join(more) + ')' if more else ''}.",
    ]


def _columns(schema: Mapping[str, Any]) -> list[Block]:
    features = schema.get("features")
    extra = "A constant column (intercept) is added." if schema.get("intercept") else ""
    unit = f"Whose record a row is: {text(schema['unit'])}." if schema.get("unit") else ""
    after: list[Block] = [line for line in (*_transforms(schema), extra, unit) if line]
    if isinstance(features, Mapping):
        return [
            f"{number(features.get('count'))} numeric columns, each cut to {_bounds(features)}; {_encoding(features)}.",
            *after,
        ]
    listed = [each for each in features if isinstance(each, Mapping)] if isinstance(features, list) else []
    rows = [(text(each.get("name")), text(each.get("kind", "number")), *_meaning(each)) for each in listed[:MOST_ROWS]]
    if len(listed) > MOST_ROWS:
        after.insert(0, f"And {len(listed) - MOST_ROWS:,} columns more, which the model file lists.")
    if not rows:
        return ["The file lists none.", *after]
    return [Table(("column", "kind", "values", "where empty"), rows), *after]


def _transforms(schema: Mapping[str, Any]) -> list[str]:
    """What stands between the columns and the model."""
    found = schema.get("transform")
    listed = [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []
    lines = []
    for each in listed[:MOST_ROWS]:
        shape = " x ".join(map(number, each["shape"])) if isinstance(each.get("shape"), list) else "an unknown shape"
        if each.get("kind") == "scattering":
            lines.append(f"The model sees their scattering transform, as images of {shape}.")
            continue
        lines.append(
            f"The model sees what {text(each.get('kind'))} ({text(each.get('digest'))}) makes of them, as images of "
            f"{shape}. It was trained on {text(each.get('trained_on'))}, says {text(each.get('declared_by'))}: "
            "declared, not checked. If private records had a part in it, nothing here is promised to them."
        )
    return lines


SAID = {"name", "kind", "low", "high", "centre", "spread", "missing", "categories", "other"}


def _meaning(feature: Mapping[str, Any]) -> tuple[str, str]:
    """A column's public values, and what an empty cell becomes; keys that this page does not know are listed too."""
    values = []
    if "categories" in feature:
        values.append(f"{_words(feature['categories'])}; any other: {_rule(feature, 'other')}")
    elif "low" in feature:
        values.append(f"{_bounds(feature)}; {_encoding(feature)}")
    more = [f"{text(key)}: {_value(value)}" for key, value in feature.items() if key not in SAID and value is not None]
    return "; ".join([*values, *more]) or "–", _rule(feature, "missing")


def _rule(feature: Mapping[str, Any], name: str) -> str:
    rule = feature.get(name)
    if rule is None or rule == "refuse":
        return "refused"
    if rule in ("zero", "centre"):
        return "no category" if "categories" in feature else f"{number(feature.get('centre'))}, the centre"
    return text(rule)


def _bounds(feature: Mapping[str, Any]) -> str:
    return f"{number(feature.get('low'))} to {number(feature.get('high'))}"


def _encoding(feature: Mapping[str, Any]) -> str:
    return f"encoded (value − {number(feature.get('centre'))}) / {number(feature.get('spread'))}"


def _participants(card: Mapping[str, Any]) -> list[Block]:
    unit = "records" if card.get("unit", "row") == "row" else f"{text(card.get('unit'))} (units)"
    role = "simulated party" if _simulated(card) else "party"
    rows = [(text(name), role, f"{number(units)} {unit}") for name, units in _table(card.get("parties")).items()]
    aggregators = card.get("aggregators")
    for role, each in [
        *(("aggregator", one) for one in (aggregators if isinstance(aggregators, list) else [])),
        *((("coordinator", card["coordinator"]),) if card.get("coordinator") else ()),
    ]:
        rows.append((text(_table(each).get("name")), role, text(_table(each).get("legal_entity", "–"))))
    return [Table(("name", "role", "of"), rows[: MOST_ROWS + 3])] if rows else ["The file does not say."]


def _guarantee(card: Mapping[str, Any]) -> list[Block]:
    blocks: list[Block] = []
    if card.get("statement"):
        blocks.append(Quote(text(card["statement"])))
    epsilon = card.get("epsilon")
    if _finite(epsilon) and not _protects_nobody(card):
        one = "record" if card.get("unit", "row") == "row" else text(card.get("unit"))
        blocks.append(
            f"In other words: if the data of one {one} had been different, nothing that is seen by those whom it holds "
            f"against would have become more than {_factor(epsilon)} times as likely or as unlikely, except with "
            f"probability {number(card.get('delta'))}."
        )
    return [*blocks, Table(("who", "what holds against them"), _adversaries(card)), *_start(card)]


def _start(card: Mapping[str, Any]) -> list[Block]:
    """Of a run that went on from another model."""
    start = _table(card.get("start"))
    if not start:
        return []
    run = f"the model of {text(start['run'])}" if start.get("run") else "another model"
    which = f"The run started from {run} (digest {text(start.get('digest'))})."
    if start.get("private") is False:
        return [f"{which} Nobody's privacy was spent on that one."]
    own = (
        f"ε = {number(start.get('epsilon'))} at δ = {number(start.get('delta'))}"
        if start.get("epsilon")
        else "not known"
    )
    return [f"{which} Private records had gone into that one, and what it cost them ({own}) adds to what stands here."]


def _adversaries(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    whole = f"ε = {number(card.get('epsilon'))} at δ = {number(card.get('delta'))}"
    if not _finite(card.get("epsilon")):
        whole = "nothing is claimed"
    if _simulated(card):
        if _protects_nobody(card):
            return [("anybody", "nothing")]
        return [
            ("whoever gets this file", whole),
            ("the person who ran the simulation", "nothing: that person had every record"),
        ]
    lying = card.get("epsilon_if_a_server_lies")
    return [
        ("whoever gets this file", whole),
        ("the coordinator, all other parties and one aggregator that follows the protocol, together", whole),
        (
            "the same with one aggregator that does anything whatever",
            (f"ε = {number(lying)} at δ = {number(card.get('delta'))}" if _finite(lying) else "no guarantee")
            + _audits(card),
        ),
        ("both aggregators together", "nothing: they could see everything"),
        ("the operator of a party's machine", "nothing for that party's own records"),
    ]


def _audits(card: Mapping[str, Any]) -> str:
    """What they are worth, of a card that says something which there is."""
    audit = card.get("audit")
    known = card.get("security") == "covert" and isinstance(audit, str) and audit in AUDITS
    return f". {worth_of_audits(str(audit))}" if known else ""


def _quality(card: Mapping[str, Any]) -> list[Block]:
    quality = list(_table(card.get("quality")).items())[:MOST_ROWS]
    rows = [(_figure_name(name), _figure(_table(each).get("value")), _interval(_table(each))) for name, each in quality]
    if not rows:
        rows = [(_figure_name(name), _figure(value), "–") for name, value in _table(card.get("evaluation")).items()]
        nothing: list[Block] = ["No public set was named: nothing is known of how good the model is."]
        return [Table(("figure", "value", "95 % interval"), rows)] if rows else nothing
    count = card.get("public_records")
    on = f"On {number(count)} records of a public set." if count is not None else "On a public set."
    if card.get("chosen_round") is not None:
        on += " The same set has chosen the round whose model this is, so on another set it would be a little worse."
    return [
        Table(("figure", "value", "95 % interval"), rows),
        f"{on} An interval says how far a figure would move with another public set of this size; with another draw of "
        "the noise it would move too.",
    ]


def _figure_name(name: str) -> str:
    found = re.fullmatch(r"auc\[(.*)\]", name, re.DOTALL)
    return f"AUC of {text(found[1])} against all others" if found else FIGURES.get(name, text(name))


def _figure(value: Any) -> str:
    """Under one another, figures have equally many places."""
    return f"{value:.3f}" if _finite(value) and 0.001 <= abs(value) < 1000 else number(value)


def _interval(figure: Mapping[str, Any]) -> str:
    low, high = figure.get("low"), figure.get("high")
    return f"{_figure(low)} to {_figure(high)}" if _finite(low) and _finite(high) else "–"


def _limits(card: Mapping[str, Any]) -> Iterable[str]:
    unit = card.get("unit", "row")
    if unit == "row":
        yield (
            "One row is protected. Where a person has several rows, that person is protected less, with each row more."
        )
    else:
        yield f"All records with the same {text(unit)} are protected together; no more than that."
    if _table(card.get("module")):
        yield "The module is code of a package: the file has its digest and none of it. Only that very code can use it."
    yield "That a model is private does not say that it is right, or fair, or fit for a use: that has to be tested."
    if not _simulated(card):
        yield "Correctness is not protected: a party or a server that does not follow the protocol can spoil a model."
    yield "Values outside of a column's bounds are cut to them, in training and in prediction."
    yield "Figures are of the public records that were named; other people may differ from them."
    yield "The guarantee does not cover further training of this model on private records."
    yield "The digests show an edit by hand. They are no signature."


def _training(card: Mapping[str, Any]) -> list[Block]:
    rows = [(title, _value(card[key])) for key, title in TRAINING.items() if card.get(key) is not None]
    blocks: list[Block] = [Table(("what", "value"), rows)] if rows else []
    if card.get("fits") is not None:
        total = card.get("epsilon_of_all_fits")
        cost = f"ε = {number(total)} at δ = {number(card.get('delta_of_all_fits'))}" if _finite(total) else "not known"
        blocks.append(f"Fits that were shown where it was trained: {number(card['fits'])}. Together they cost {cost}.")
    return blocks or ["The file does not say."]


TRAINING = {
    "records": "records",
    "algorithm": "algorithm",
    "rounds": "rounds made",
    "rounds_planned": "rounds planned",
    "chosen_round": "round whose model this is",
    "accountant": "accountant",
    "relation": "neighbours",
    "unit": "unit of privacy",
    "security": "security of the noise",
    "own": "own noise of each aggregator",
    "audit": "share of the noise that each aggregator audits",
}


def _digests(card: Mapping[str, Any]) -> list[Block]:
    software, module = _table(card.get("software")), _table(card.get("module"))
    rows = [
        (title, text(card[key]))
        for key, title in (
            ("manifest_digest", "manifest"),
            ("theta_digest", "parameters"),
            ("description_digest", "model and schema"),
            ("digest", "this card"),
        )
        if card.get(key)
    ]
    if module:
        rows.append((f"code of {text(module.get('kind'))}", text(module.get("digest"))))
        rows.append(("PyTorch where it was made", text(module.get("torch"))))
    if software:
        rows.append(("software", f"{text(software.get('name'))} {text(software.get('version'))}"))
        rows.append(("software's source", text(software.get("source_digest"))))
    return [Table(("what", "SHA-256, or version"), rows)] if rows else ["The file has none."]


# ------------------------------------------------------------ words


def number(value: Any) -> str:
    """A figure, as people write it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return text(value)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**15 else text(value)
    return f"{value:.4g}"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return _words(value)
    return text(value) if isinstance(value, bool | str | Mapping) else number(value)


def _words(values: Any) -> str:
    """A list, or what there is instead of one."""
    if not isinstance(values, list | tuple):
        return text(values)
    more = len(values) - MOST_WORDS
    return ", ".join(text(each) for each in values[:MOST_WORDS]) + (f" and {more:,} more" if more > 0 else "")


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _finite(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _simulated(card: Mapping[str, Any]) -> bool:
    return card.get("simulation") not in (None, False)


def _protects_nobody(card: Mapping[str, Any]) -> bool:
    """A simulation without noise, or with noise that anybody can compute, has no epsilon."""
    return _simulated(card) and not _finite(card.get("epsilon"))


def _factor(epsilon: float) -> str:
    factor = math.exp(min(epsilon, 700.0))
    return f"{factor:.3g}" if factor < 1e6 else "a million"
