"""Where a run starts and when it may stop before its last round: the coordinator's choices, which cost no privacy.

Parties answer at whatever model they are sent, and what they answer is clipped and noised all the same; a stop that is
decided on released values and a public set is post-processing. Both stand in the manifest so that whoever admits a run
sees them, and a coordinator that is started again goes on by them.

    [start]                        # optional: a public model file instead of the model's own first parameters
    digest = "9c2e…"               # of the file's card, as card.json says it
    private = true                 # whether by its card it was itself trained on private records
    [rounds]
    stop_early = { patience = 5 }  # optional; also least = 0.001, the smallest fall of the loss that counts
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from parley.federation.fields import Fields

DIGEST = re.compile("[0-9a-f]{64}")
MOST_PATIENCE = 1000
LARGEST_LEAST = 1e6
LONGEST_DEADLINE_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True)
class Start:
    """A model file that a run starts from."""

    digest: str
    """Of its card, which covers parameters, model and schema."""
    private: bool
    """Whether it was trained on private records, by its card."""

    def as_json(self) -> dict[str, Any]:
        return {"digest": self.digest, "private": self.private}


@dataclass(frozen=True)
class StopEarly:
    """A run ends when its loss on the public set has not fallen for `patience` evaluations in a row.

    Its model is then the best of those that were evaluated, and so it is where no stop came.
    """

    patience: int
    least: float = 0.0
    """A fall of less counts as none."""

    def as_json(self) -> dict[str, Any]:
        return {"patience": self.patience, "least": self.least}


class Optional(Protocol):
    """What a manifest has where somebody chose it."""

    def as_json(self) -> Mapping[str, Any]: ...


def optional(name: str, choice: Optional | None) -> dict[str, Any]:
    """A field of a manifest's table: absent where nothing was chosen."""
    return {} if choice is None else {name: choice.as_json()}


def start_of(document: Fields) -> Start | None:
    """The optional table `start` of a manifest."""
    if not document.has("start"):
        return None
    fields = document.table("start")
    digest = fields.text("digest")
    if not DIGEST.fullmatch(digest):
        raise fields.refuse("digest", f"is {digest[:80]!r}: give the 64 digits of the card's digest")
    start = Start(digest, fields.flag("private"))
    fields.finish()
    return start


def stop_early_of(rounds: Fields) -> StopEarly | None:
    """The optional field `stop_early` of a manifest's or a study's table [rounds]."""
    if not rounds.has("stop_early"):
        return None
    fields = rounds.table("stop_early")
    least = fields.number("least", -1, LARGEST_LEAST) + 0.0 if fields.has("least") else 0.0
    if least < 0:
        raise fields.refuse("least", f"is {least:g}: give 0 or more")
    found = StopEarly(fields.whole("patience", 1, MOST_PATIENCE), least)
    fields.finish()
    return found


def sentences(start: Start | None, stop_early: StopEarly | None) -> list[str]:
    """For the person who has to approve a run."""
    found = []
    if start is not None:
        trained = "trained on private records, whose privacy it has cost already" if start.private else "public"
        found.append(
            f"Start: the model whose card has the digest {start.digest}, by its card {trained}. It costs this run's "
            "records nothing: parties answer at whatever model the coordinator sends, and could not tell."
        )
    if stop_early is not None:
        least = f" by {stop_early.least:g} or more" if stop_early.least else ""
        found.append(
            f"Early stop: after {stop_early.patience} evaluations in a row without a fall of the loss{least} on the "
            "coordinator's public set. The whole run is charged. A ledger of the rule basic gets nothing back for "
            "rounds that were not made, one of the rule rdp gets them back."
        )
    return found


Uploads = Literal["packed", "words"]
PACKED: Uploads = "packed"
"""In [rounds] uploads: as wide as the opening needs. A manifest without it is of words of 8 bytes, as all were once."""
UPLOADS: tuple[Uploads, ...] = get_args(Uploads)
"""What a study may ask for."""


def uploads_table(packed: bool) -> dict[str, str]:
    """A manifest's field `uploads`: absent where it was before there was a choice."""
    return {"uploads": PACKED} if packed else {}


def rounds_of(fields: Fields) -> dict[str, Any]:
    """A manifest's [rounds]."""
    rounds = {
        "minimum_parties": fields.whole("minimum_parties", 2, 1_000_000),
        "deadline_seconds": fields.number("deadline_seconds", 0, LONGEST_DEADLINE_SECONDS),
        "stop_early": stop_early_of(fields),
        "packed": fields.has("uploads") and bool(fields.choice("uploads", (PACKED,))),
    }
    fields.finish()
    return rounds
