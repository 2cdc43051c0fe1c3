"""What a run leaves to take away: its model file, and its card as a page, both as the coordinator wrote them.

The file is checked before it leaves: digests that agree, and the manifest of this very run. Nothing is written.
"""

from dataclasses import dataclass
from pathlib import Path

from parley.coordinator.errors import CoordinatorError
from parley.coordinator.store import RunRow
from parley.learning.card_page import page
from parley.learning.errors import ModelFileError
from parley.learning.model_archive import read_archive

MODEL, CARD = "model.npz", "card.html"
KINDS = {MODEL: "application/octet-stream", CARD: "text/html; charset=utf-8"}


@dataclass(frozen=True)
class Download:
    """A file as a browser gets it."""

    name: str
    kind: str
    content: bytes


def has_model(models: Path, row: RunRow) -> bool:
    """Whether the coordinator has written the run's model."""
    return _path(models, row).is_file()


def download(models: Path, row: RunRow, what: str) -> Download | None:
    """None where there is none yet; refused where the file is not what the run wrote."""
    path = _path(models, row)
    if what not in KINDS or not path.is_file():
        return None
    try:
        theta, description, card = read_archive(path)
        content = page(len(theta), description, card).html().encode() if what == CARD else path.read_bytes()
    except (ModelFileError, OSError) as error:
        raise CoordinatorError(f"the model of {row.run} cannot be handed out: {error}") from None
    if card.get("manifest_digest") != row.digest.hex():
        raise CoordinatorError(f"the file beside {row.run} is another run's model: parley export writes this one's")
    return Download(f"{row.run}.{'npz' if what == MODEL else what}", KINDS[what], content)


def _path(models: Path, row: RunRow) -> Path:
    return models / f"{row.run}.npz"
