"""The form of a model file: three plain arrays that NumPy alone opens, digests that agree, and a card beside it.

An NPZ archive (docs/model-file.md, also for PyTorch):

    theta         float64[dimension]
    description   uint8: JSON with `model` and `schema`, as the manifest has them
    card          uint8: JSON, the same as in card.json beside the file

The card's digests cover the other two arrays and itself, so a figure that was edited by hand is refused when the file
is read. They are no signature: whoever can recompute them can write another card, and the manifest's digest in it is
what the parties have in their own records. Whoever leads a run writes one; `parley.study.model_file` reads it.
"""

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.federation.files import endless
from parley.learning.errors import ModelFileError
from parley.privacy.canonical import canonical_json

Floats = NDArray[np.float64]
FORMAT = "parley model 1"
ARRAYS = ("theta", "description", "card")
MOST_JSON_BYTES = 1 << 21


def with_digests(card: Mapping[str, Any], theta: Floats, description: Mapping[str, Any]) -> dict[str, Any]:
    """A card that is finished: with digests over the two other arrays and over itself."""
    made = {
        **card,
        "theta_digest": hashlib.sha256(theta.astype("<f8").tobytes()).hexdigest(),
        "description_digest": hashlib.sha256(canonical_json(description).encode()).hexdigest(),
    }
    made["digest"] = card_digest(made)
    return made


def write_archive(path: Path, theta: Floats, description: Mapping[str, Any], card: Mapping[str, Any]) -> None:
    """The file and its finished card, each in one step."""
    text = json.dumps(card, indent=2, ensure_ascii=False, allow_nan=False)
    arrays = {
        "theta": theta,
        "description": np.frombuffer(canonical_json(description).encode(), np.uint8),
        "card": np.frombuffer(canonical_json(card).encode(), np.uint8),
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


def read_archive(path: Path) -> tuple[Floats, dict[str, Any], dict[str, Any]]:
    """θ, description and card, checked: digests that agree, and a card.json beside it, if any, that says the same."""
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
    return theta, body, said


def card_path(path: Path) -> Path:
    """card.json beside model.npz; NAME.card.json beside any other NAME.npz, so that models can share a folder."""
    return path.with_name("card.json" if path.name == "model.npz" else f"{path.stem}.card.json")


def card_digest(card: Mapping[str, Any]) -> str:
    """SHA-256 over all of the card but the digest."""
    try:
        text = canonical_json({name: value for name, value in card.items() if name != "digest"})
    except ValueError:
        raise ModelFileError("the card holds a number that is not finite: leave it out, or give none") from None
    return hashlib.sha256(text.encode()).hexdigest()


def _check_card(card: Mapping[str, Any], name: str) -> None:
    if card.get("digest") != card_digest(card):
        raise ModelFileError(f"{name}: the card was altered: ask whoever led the run for it")


def _arrays(path: Path) -> tuple[Floats, bytes, bytes]:
    if endless(path):
        raise ModelFileError(f"{path} is no regular file: give the model's own")
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
