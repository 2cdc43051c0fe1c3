"""What nodes' trails say of audits, laid side by side: `parley audit verify`.

A server writes down, with each sum of a run whose batches are audited, how many of the other one's batches it had
audited in that noise session, and in how many of its own it was audited; a party, what both servers' statements told
it. What one has made the other has passed, whoever writes it. Of evidence every trail says when it was kept, and when
its operator answered.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from parley.node.trail import Event, Verified


@dataclass(frozen=True)
class Word:
    """Of one node on one round of one run."""

    node: str
    epoch: str
    made: tuple[int, int]
    """By A of B's batches, by B of A's."""


@dataclass
class Kept:
    """One piece of evidence."""

    server: str
    by: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Audits:
    """What came of laying them side by side."""

    agree: int
    """Rounds of which two nodes or more say the same."""
    alone: int
    """Rounds of which one trail alone speaks."""
    contradicting: tuple[str, ...]
    """A line for each round of which two do not, and for each count that goes back."""
    evidence: dict[str, Kept]
    """By digest."""


def audits_in(trails: Sequence[Verified]) -> Audits:
    """Of whole trails, each node's once."""
    words: defaultdict[tuple[str, str, int], list[Word]] = defaultdict(list)
    evidence: dict[str, Kept] = {}
    answered: list[tuple[str, str]] = []
    wrong: list[str] = []
    for trail in trails:
        seen: dict[tuple[str, str], Word] = {}
        for event in trail.notes:
            if event.event == "evidence.kept":
                by = evidence.setdefault(event.fields["digest"], Kept(event.fields["peer"])).by
                by += [trail.name] * (trail.name not in by)  # a crash has it written down twice
            elif event.event == "evidence.answered":
                answered.append((event.fields["digest"], trail.name))
            elif (word := _word(trail.name, event)) is not None:
                # Other servers' runs of another manifest may have the same name.
                run, index = (event.fields["run"], event.fields["manifest"]), event.fields["round"]
                wrong += _back(run[0], index, seen.get(run), word)
                seen[run] = word
                words[*run, index].append(word)
    for digest, name in answered:
        if digest in evidence:
            evidence[digest].answered.append(name)
    differ = [line for (run, _, index), said in sorted(words.items()) for line in _different(run, index, said)]
    several = sum(len({word.node for word in said}) > 1 for said in words.values())
    return Audits(several - len(differ), len(words) - several, (*wrong, *differ), evidence)


def _word(node: str, event: Event) -> Word | None:
    fields = event.fields
    if "server" in fields:
        mine, passed = fields["audits_made"], fields["audits_passed"]
        return Word(node, fields["epoch"], (mine, passed) if fields["server"] == 0 else (passed, mine))
    if "audits" in fields:
        return Word(node, fields["epoch"], (fields["audits"][0], fields["audits"][1]))
    return None


def _back(run: str, index: int, before: Word | None, now: Word) -> Iterator[str]:
    if before is None or before.epoch != now.epoch:
        return
    if any(b < a for a, b in zip(before.made, now.made, strict=True)):
        yield f"{now.node} counts fewer audits in round {index} of run {run} than before"


def _different(run: str, index: int, said: Sequence[Word]) -> Iterator[str]:
    first = said[0]
    for other in said[1:]:
        if (first.epoch, first.made) != (other.epoch, other.made):
            yield (
                f"of round {index} of run {run}, {first.node} and {other.node} do not say the same: "
                f"{first.made[0]} audits by A and {first.made[1]} by B, or {other.made[0]} and {other.made[1]}"
            )
            return
