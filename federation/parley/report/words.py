"""The guarantee of a run for a lawyer, in two sentences, and what no run promises. Figures are rounded against us."""

import math

from parley.federation.manifest import Manifest
from parley.mpc.parts import NoiseParts
from parley.privacy.lying import guaranteed

ANYBODY = "the coordinator, all other parties and one of the two aggregators"
LONGEST_NAME = 60


def up(value: float, digits: int = 3) -> str:
    """Rounded up: what is promised is never less than what is written."""
    if value <= 0 or not math.isfinite(value):
        return "0" if value == 0 else "no number"
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(value)))
    # A figure that is round already has an error in its last bit, and not a digit more.
    return f"{math.ceil(value * scale * (1 - 1e-12)) / scale:,.{digits}g}" if value < 1e6 else f"{value:.3g}"


def small(value: float) -> str:
    """A δ as people read it: 0.00001, and 1e-9 where nobody counts the zeros."""
    if value == 0 or value >= 1e-6:
        return f"{value:.12f}".rstrip("0").rstrip(".") if value < 1 else f"{value:g}"
    return f"{value:.3g}".replace("e-0", "e-")


def factor(epsilon: float) -> str:
    """How many times as likely something may become."""
    value = math.exp(min(epsilon, 700.0))
    return up(value) if value < 1000 else f"{math.ceil(value):,}" if value < 1e6 else f"{value:.2g}"


def chance(delta: float) -> str:
    """As people say a small probability: never smaller than it is."""
    return f"1 in {math.floor(1 / delta * (1 + 1e-9)):,}" if delta > 1e-15 else f"{delta:.3g}"


def one_unit(column: str | None) -> str:
    """Whose data is protected."""
    return "any one record" if column is None else f"any one {cut(column)} at one institution"


def cut(text: str, longest: int = LONGEST_NAME) -> str:
    """What a stranger called something, as one short line."""
    line = " ".join("".join(each if each.isprintable() else " " for each in text[: 4 * longest]).split())
    return (line if len(line) <= longest else line[: longest - 1] + "…") or "–"


def plainly(
    parts: NoiseParts, epsilon: float, lying: float | None, delta: float, column: str | None, caught: bool = False
) -> list[str]:
    """Two sentences: what holds, and what holds otherwise. `caught`: one of the two aggregators is known to have
    departed from the protocol.
    """
    lying = guaranteed(lying)
    times = factor(epsilon)
    if not parts.joint:
        return [
            _promise(times, delta, column) + ", whatever that aggregator does.",
            "Against both aggregators together nothing is promised, and that the result is right is not promised.",
        ]
    audits = ", though one that departs from it again and again is found out, with proof" if parts.audit else ""
    if caught:
        less = "nothing is promised" if lying is None else _promise(factor(lying), delta, column)
        return [
            "An aggregator that this run names is proved to have departed from the protocol, so nothing that rests on "
            "its keeping to it may be relied on here.",
            f"What is left: {less}.",
        ]
    otherwise = f"the factor is {factor(lying)} in place of {times}" if lying is not None else "nothing is promised"
    both = "and against both aggregators together nothing is promised at all"
    return [
        _promise(times, delta, column) + ", as long as that aggregator keeps to the protocol.",
        f"If it does not, {otherwise}{audits}; {both}.",
    ]


def _promise(times: str, delta: float, column: str | None) -> str:
    return (
        f"If the data of {one_unit(column)} had been different, nothing that {ANYBODY} together learn from this run "
        f"would have become more than {times} times as likely or as unlikely, but for a probability of at most "
        f"{chance(delta)}"
    )


def not_promised(manifest: Manifest) -> list[str]:
    """Read before this report is relied on."""
    first, second = (cut(operator.legal_entity) for operator in manifest.aggregators)
    unit = manifest.mechanism.unit.column
    once = (
        "One row is protected: a person with several rows is protected less, with each row more."
        if unit is None
        else f"The data of one {cut(unit)} is protected at each institution by itself: at two, twice the cost."
    )
    return [
        "That the model is right, or fair, or fit for a use. One party or one server can spoil it unseen.",
        f"That {first} and {second} are independent of each other. Each institution wrote that into its policy; no "
        "software can check it.",
        "That what stands under “What it was for” is true. It is the word of whoever wrote the manifest.",
        f"More than the figures say. {once} What a model tells of people in general it may tell of everybody.",
        "That anything can be taken back. Whoever withdraws answers no further round; what was released stays.",
        "That this node's books are complete. The signature shows which key signed them. Keep the two heads below: "
        "they show any later rewriting. The guarantee rests on today's cryptography.",
    ]
