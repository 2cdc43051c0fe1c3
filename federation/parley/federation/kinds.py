"""Which kind of question each algorithm asks in which round: one table, by which a party refuses every other question.

A party knows queries and not algorithms, and every kind is accounted alike. But its policy names algorithms, and the
name means something only if a coordinator cannot ask under it what another algorithm asks. An algorithm that is not
here is asked nothing.
"""

from dataclasses import dataclass

AUTO_STEPS, NETWORK_STEPS = 200, 300
"""Rounds of descent of `auto`, after what it prepares."""


@dataclass(frozen=True)
class Programme:
    """The kinds of a run's rounds, in order."""

    then: tuple[str, ...] = ("gradient",)
    """Of all rounds after the first ones, in turn."""
    first: tuple[str, ...] = ()
    releases: int | None = None
    """Of the whole run, where the algorithm fixes it: two programmes of one algorithm differ by that."""

    def kind(self, round_index: int) -> str:
        if round_index < len(self.first):
            return self.first[round_index]
        return self.then[(round_index - len(self.first)) % len(self.then)]


GRADIENTS = (Programme(),)
SOLUTION = (Programme(("solution",), releases=1),)
TABLE = (
    "norms", *["means"] * 5, "framed norms", *["absolute means"] * 4, *["square means"] * 4, "framed norms",
)  # fmt: skip
LABELS = ("framed gradient",) * 8
VIEW = (*TABLE, *LABELS)
NUMBERS = (*TABLE, "framed norms", *LABELS, "framed norms")
CENTRE = ("norms", *["means"] * 5, "framed norms")
PROGRAMMES: dict[str, tuple[Programme, ...]] = {
    **dict.fromkeys(("ddp-srm", "dp-srm", "ddp-srm-theory", "storm"), GRADIENTS),
    **dict.fromkeys(("dp-gd", "dp-sgd", "rrpsgd", "dp-rmsprop", "dp-adam", "nsgd", "proxgd"), GRADIENTS),
    "dp-agd": (Programme(("gradient", "losses")),),
    "output-perturbation": SOLUTION,
    "out-sgd": SOLUTION,
    "auto": (
        Programme(("gradient",), ("norms",), 1 + AUTO_STEPS),
        Programme(("framed gradient",), VIEW, len(VIEW) + AUTO_STEPS),
        Programme(("framed gradient",), NUMBERS, len(NUMBERS) + AUTO_STEPS),
        Programme(("framed gradient",), CENTRE, len(CENTRE) + AUTO_STEPS),
        Programme(("gradient",), ("norms", "norms"), 2 + NETWORK_STEPS),
    ),
}

CENTRAL = ("amp", "objective-perturbation", "pure-output-perturbation")
"""Methods whose noise is a party's own (`research`): a simulation may name them, a manifest never."""


def programme_of(algorithm: str, releases: int) -> Programme | None:
    """Of a run of so many rounds; None where there is no such run of this algorithm."""
    fitting = (each for each in PROGRAMMES.get(algorithm, ()) if each.releases in (None, releases))
    return next(fitting, None)


def kind_of(algorithm: str, releases: int, round_index: int) -> str | None:
    """The one kind that this round may ask for; None where nothing may be asked."""
    found = programme_of(algorithm, releases)
    return None if found is None else found.kind(round_index)


def asks(algorithm: str, releases: int, round_index: int, kind: str) -> bool:
    """Whether the algorithm asks this kind in this round."""
    return kind_of(algorithm, releases, round_index) == kind
