"""The model file: parameters, what they mean, and a card that says how they came about and how private they are.

    from parley.study.model_file import load
    model = load("model.npz")
    model.predict("new-patients.csv")        # or a list of dictionaries, or an array of raw feature values

An NPZ archive of three plain arrays, so that NumPy alone opens it (docs/model-file.md, also for PyTorch):

    theta         float64[dimension]
    description   uint8: JSON with `model` and `schema`, as the manifest has them
    card          uint8: JSON, the same as in card.json beside the file

The card's digests cover the other two arrays and itself, so a figure that was edited by hand is refused when the file
is read. They are no signature: whoever can recompute them can write another card, and the manifest's digest in it is
what the parties have in their own records.
"""

import datetime as dt
import hashlib
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.federation.fields import canonical_text
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning
from parley.learning.errors import ModelFileError
from parley.learning.holding import LAYOUT_FIELDS, layout_by_name
from parley.learning.models import Model, sigmoid
from parley.learning.readers import Dense, Table, read
from parley.learning.records import encode_features
from parley.learning.schema import Schema, Uniform, schema_from_json
from parley.node.software import DISTRIBUTION, software_version, source_digest

Floats = NDArray[np.float64]
FORMAT = "parley model 1"
ARRAYS = ("theta", "description", "card")
MOST_JSON_BYTES = 1 << 21
BLOCK = 8192


@dataclass(frozen=True)
class LoadedModel:
    """A model to ask. `predict` takes raw values: the schema that trained it encodes them."""

    theta: Floats
    description: Mapping[str, Any]
    card: Mapping[str, Any]

    @cached_property
    def schema(self) -> Schema:
        return schema_from_json(columns_of(self.description["schema"]))

    @cached_property
    def model(self) -> Model:
        from parley.study.run_file import build_model  # the coordinator's algorithms come with it

        options = {name: value for name, value in self.description["model"].items() if name != "dimension"}
        return build_model(options, self.schema)

    def encoded(self, rows: Any) -> Floats:
        """Features as the model sees them, float64[rows, columns], the intercept's last: for use elsewhere."""
        found = encode_features(_given(rows, self.schema), self.schema, {})
        return np.asarray(found.take(np.arange(len(found))).dense() * 2.0**-found.bits)

    def scores(self, rows: Any) -> Floats:
        """Raw outputs, float64[rows, outputs]."""
        found = encode_features(_given(rows, self.schema), self.schema, {})
        blocks = [np.arange(start, min(start + BLOCK, len(found))) for start in range(0, len(found), BLOCK)]
        parts = [self.model.scores(found.take(block), self.theta) for block in blocks]
        return np.concatenate(parts) if parts else np.zeros((0, self.schema.outputs))

    def probabilities(self, rows: Any) -> Floats:
        """Of the positive label, float64[rows], or of each class, float64[rows, classes]."""
        scores = self.scores(rows)
        if self.schema.target.kind == "binary":
            return np.asarray(sigmoid(scores[:, 0]))
        if self.schema.target.kind == "number":
            raise ModelFileError("a model of a number has no probabilities: ask it to predict")
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))

    def predict(self, rows: Any) -> NDArray[Any]:
        """Labels as the data has them, or numbers in its unit."""
        scores, target = self.scores(rows), self.schema.target
        if target.kind == "number":
            return np.asarray(scores[:, 0] * target.spread + target.centre)
        if target.kind == "classes":
            return np.asarray(np.array(target.classes)[scores.argmax(axis=1)])
        return np.asarray(np.where(scores[:, 0] > 0, target.positive[0], target.negative[0]))


def write_model(
    path: Path,
    theta: Floats,
    manifest: Manifest,
    meaning: Meaning,
    evaluation: Mapping[str, float | None] | None = None,
    rounds: int | None = None,
) -> dict[str, Any]:
    """Write the file and its card, each in one step; the card is returned.

    `meaning` is the verified one, whose ε is for the whole run and holds for one that was stopped after `rounds` too.
    `evaluation` is of a PUBLIC set.
    """
    values = np.ascontiguousarray(theta, np.float64)
    if values.shape != (manifest.model.dimension,) or not np.isfinite(values).all():
        raise ModelFileError(f"theta is {values.shape}, or not finite: give {manifest.model.dimension:,} numbers")
    if meaning.manifest.digest != manifest.digest:
        raise ModelFileError("the verified meaning is of another manifest: verify this one")
    body = manifest.as_json()
    description = canonical_text({"format": FORMAT, "model": body["model"], "schema": body["schema"]}).encode()
    mechanism = manifest.mechanism
    card: dict[str, Any] = {
        "format": FORMAT,
        "run": manifest.run,
        "federation": manifest.federation,
        "manifest_digest": manifest.digest.hex(),
        "statement": meaning.statement,
        "epsilon": meaning.epsilon,
        "delta": meaning.delta,
        "security": manifest.noise.parts.security,
        "own": manifest.noise.parts.own,
        "epsilon_if_a_server_lies": meaning.epsilon_if_a_server_lies,
        "accountant": manifest.guarantee.accountant,
        "unit": mechanism.unit.name,
        "relation": mechanism.relation.value,
        "parties": {party: mechanism.sampler(party, 0).units for party in manifest.parties},
        "aggregators": body["aggregators"],
        "coordinator": body["coordinator"],
        "algorithm": manifest.algorithm.name,
        "rounds": manifest.releases if rounds is None else rounds,
        "rounds_planned": manifest.releases,
        "evaluation": dict(evaluation) if evaluation is not None else None,
        "software": {"name": DISTRIBUTION, "version": software_version(), "source_digest": source_digest()},
        "written": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "theta_digest": hashlib.sha256(values.astype("<f8").tobytes()).hexdigest(),
        "description_digest": hashlib.sha256(description).hexdigest(),
    }
    card["digest"] = card_digest(card)
    _write(path, values, description, card)
    return card


def copy_model(model: LoadedModel, path: Path) -> None:
    """The same file elsewhere, card and all."""
    _write(path, model.theta, canonical_text(model.description).encode(), dict(model.card))


def read_model(path: Path | str) -> LoadedModel:
    """The file, checked: plain arrays, digests that agree, and a card.json beside it, if any, that says the same."""
    path = Path(path)
    theta, description, card = _arrays(path)
    body = _json(description, f"{path.name}: description")
    said = _json(card, f"{path.name}: card")
    if body.get("format") != FORMAT or said.get("format") != FORMAT:
        raise ModelFileError(f"{path.name} is not of format {FORMAT!r}: read it with the parley that wrote it")
    _check_card(said, path.name)
    if said.get("theta_digest") != hashlib.sha256(theta.astype("<f8").tobytes()).hexdigest():
        raise ModelFileError(f"{path.name}: theta is not what the card is about: the file was altered")
    if said.get("description_digest") != hashlib.sha256(description).hexdigest():
        raise ModelFileError(f"{path.name}: the description is not what the card is about: the file was altered")
    beside = card_path(path)
    if beside.is_file():
        other = _json(beside.read_bytes()[: MOST_JSON_BYTES + 1], beside.name)
        _check_card(other, beside.name)
        if other != said:
            raise ModelFileError(f"{beside.name} is another model's card: give {path.name} a folder of its own")
    return LoadedModel(theta, body, said)


load = read_model


def card_path(path: Path) -> Path:
    """card.json beside model.npz; NAME.card.json beside any other NAME.npz, so that models can share a folder."""
    return path.with_name("card.json" if path.name == "model.npz" else f"{path.stem}.card.json")


def card_digest(card: Mapping[str, Any]) -> str:
    """SHA-256 over all of the card but the digest."""
    try:
        text = canonical_text({name: value for name, value in card.items() if name != "digest"})
    except ValueError:
        raise ModelFileError("the card holds a number that is not finite: leave it out, or give none") from None
    return hashlib.sha256(text.encode()).hexdigest()


def _check_card(card: Mapping[str, Any], name: str) -> None:
    if card.get("digest") != card_digest(card):
        raise ModelFileError(f"{name}: the card was altered: ask whoever led the run for it")


def _arrays(path: Path) -> tuple[Floats, bytes, bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {item.filename: item.file_size for item in archive.infolist()}
            if sorted(sizes) != sorted(f"{name}.npy" for name in ARRAYS) or len(archive.infolist()) != len(ARRAYS):
                raise ModelFileError(f"{path.name} is not a model file: it needs the arrays {', '.join(ARRAYS)}")
            # What was never compressed cannot unpack to more than the file.
            if any(item.compress_type != zipfile.ZIP_STORED for item in archive.infolist()):
                raise ModelFileError(f"{path.name} is compressed: parley writes model files that are not")
            if max(sizes["description.npy"], sizes["card.npy"]) > MOST_JSON_BYTES:
                raise ModelFileError(f"{path.name} has a card of over 2 MiB: that is not a card")
        with np.load(path, allow_pickle=False) as found:
            theta, description, card = (found[name] for name in ARRAYS)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, zipfile.BadZipFile, EOFError) as error:
        raise ModelFileError(
            f"{path.name} is not an archive of plain arrays ({error}): nothing in it was executed"
        ) from None
    if theta.dtype != np.float64 or theta.ndim != 1 or {description.dtype, card.dtype} != {np.dtype(np.uint8)}:
        raise ModelFileError(f"{path.name} has arrays of other types than a model file's")
    return theta, description.tobytes(), card.tobytes()


def _json(data: bytes, what: str) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise ModelFileError(f"{what} is not a JSON object: the file was altered")
    return body


def _write(path: Path, theta: Floats, description: bytes, card: Mapping[str, Any]) -> None:
    text = json.dumps(card, indent=2, ensure_ascii=False, allow_nan=False)
    arrays = {
        "theta": theta,
        "description": np.frombuffer(description, np.uint8),
        "card": np.frombuffer(canonical_text(card).encode(), np.uint8),
    }
    temporary = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # its stub takes the names for its own flag
            file.flush()
            os.fsync(file.fileno())
        card_path(path).unlink(missing_ok=True)  # never an old card beside a new model
        temporary.replace(path)
        card_path(path).write_text(text + "\n")
    except OSError as error:
        raise ModelFileError(f"{path} cannot be written: {error.strerror}") from None


def columns_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """Without what a file looked like, which model files of earlier versions say too."""
    return {name: value for name, value in body.items() if name not in LAYOUT_FIELDS}


def _given(rows: Any, schema: Schema) -> Any:
    """Rows as the readers of `party` give them."""
    if isinstance(rows, str | Path):
        path = Path(rows)
        return read([path], layout_by_name(path), schema.target.name)
    if isinstance(schema.features, Uniform):
        values = np.atleast_2d(np.asarray(rows, np.float64))
        return Dense(values, np.zeros(len(values)))
    names = [feature.name for feature in schema.features]
    listed: Sequence[Any] = list(rows)
    if listed and isinstance(listed[0], Mapping):
        return Table({name: [row.get(name) for row in listed] for name in names}, len(listed))
    if any(len(row) != len(names) for row in listed):
        raise ModelFileError(f"a row needs {len(names)} values in this order: {', '.join(names)}")
    return Table({name: [row[index] for row in listed] for index, name in enumerate(names)}, len(listed))
