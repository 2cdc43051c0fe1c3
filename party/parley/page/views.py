"""What a party's pages show: plain values, put into words where a person has to decide.

`Own` holds what never leaves the institution, and nothing else does: its page marks every figure of it, no file and no
log of the page has one, and a signed report has no field for it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """What stands around every page."""

    node: str
    federation: str
    title: str
    csrf: str
    """Empty for who is not signed in."""


@dataclass(frozen=True)
class RunHead:
    """One run in a list."""

    digest: str
    name: str
    state: str
    tone: str
    waits: str
    """Whom it waits for, or what came of it."""
    asks_you: bool
    """A person of this institution has to decide."""
    purpose: str
    lead: str
    """Legal entity of whoever leads it."""
    at: str
    """When that state was noted, UTC, ISO 8601."""
    answered: int
    rounds: int


@dataclass(frozen=True)
class Charged:
    """One run in the ledger."""

    name: str
    charged: str
    """When; empty where the trail does not say."""
    epsilon: float
    delta: float
    lying: str
    released: int
    planned: int
    by: str
    """Who admitted it, and when."""
    end: str


@dataclass(frozen=True)
class Budget:
    """Of one population, over all runs."""

    population: str
    unit: str
    rule: str
    epsilon: float
    epsilon_cap: float
    epsilon_left: float
    delta: float
    delta_cap: float
    delta_left: float
    lying: str
    caught: str
    runs: tuple[Charged, ...]
    fits: bool = True
    """Whether a run that is asked for does."""
    asked: float = 0.0
    """ε of a run that is asked for, beside what was spent: for the picture."""


@dataclass(frozen=True)
class Proof:
    """Evidence that an aggregator did not follow the protocol."""

    digest: str
    server: str
    at: str
    runs: str
    answered: str
    command: str
    """To be pasted; empty where it was answered."""


@dataclass(frozen=True)
class Peer:
    name: str
    role: str
    address: str
    said: str = ""
    """What came of the last look; empty before one."""
    tone: str = ""


@dataclass(frozen=True)
class Records:
    """One data set: what its operator declared, and no figure of a record."""

    name: str
    population: str
    sealed: bool
    age: str


@dataclass(frozen=True)
class Standing:
    """Whether the node runs."""

    words: str
    tone: str


@dataclass(frozen=True)
class NodeView:
    """The first page."""

    standing: Standing
    runs: tuple[RunHead, ...]
    budgets: tuple[Budget, ...]
    evidence: tuple[Proof, ...]
    peers: tuple[Peer, ...]
    records: tuple[Records, ...]
    problems: tuple[str, ...]
    folder: str


@dataclass(frozen=True)
class Fact:
    """A line of a description list."""

    name: str
    words: str


@dataclass(frozen=True)
class Member:
    name: str
    role: str
    legal_entity: str
    contact: str
    units: int | None


@dataclass(frozen=True)
class Cost:
    """What the run would spend, verified here, and what would be left."""

    state: str
    """`ready`, `computing`, or why it cannot be computed."""
    epsilon: float | None = None
    delta: float | None = None
    lying: str = ""
    plainly: tuple[str, ...] = ()
    security: str = ""
    whom: str = ""
    spent: bool = False
    """Whether the budget beside it has this run already."""


@dataclass(frozen=True)
class Left:
    """What leaves, or left, this site."""

    to: str
    entity: str
    kind: str
    most: int | None
    """Bytes at most, over the whole run; None where they are not counted."""
    sent: int | None


@dataclass(frozen=True)
class Reason:
    words: str
    final: bool
    mendable: bool


@dataclass(frozen=True)
class Admitted:
    how: str
    by: str
    at: str
    withdrawn: bool
    overridden: tuple[str, ...]


@dataclass(frozen=True)
class Signature:
    """A reviewer's."""

    reviewer: str
    at: str
    expires: str
    counts: bool
    why_not: str


@dataclass(frozen=True)
class Objection:
    reviewer: str
    reason: str
    at: str
    digest: str


@dataclass(frozen=True)
class Refused:
    """By this node, for good."""

    by: str
    reason: str
    at: str


@dataclass(frozen=True)
class Review:
    """What reviewers have said, where the policy asks for their signatures."""

    needed: int = 0
    enough: bool = False
    signatures: tuple[Signature, ...] = ()
    objections: tuple[Objection, ...] = ()
    refused: Refused | None = None
    command: str = ""
    """That a reviewer pastes: keys never pass through a browser."""


@dataclass(frozen=True)
class End:
    """An aggregator's signed word."""

    aggregator: str
    openings: int


@dataclass(frozen=True)
class Cut:
    """Cells of one column."""

    column: str
    count: int


@dataclass(frozen=True)
class Own:
    """Of this institution's records: never leaves it, and is in no file, log, report or trail."""

    state: str
    """`not computed`, `computing`, `ready`, or why not."""
    records: int = 0
    units: int = 0
    cut: tuple[Cut, ...] = ()
    loss: float | None = None
    loss_of: str = ""
    clipped: float | None = None
    """Share of this party's units whose term is shortened at that model."""
    clipped_why: str = ""
    excluded: tuple[str, ...] = ()
    """Lines about units that are left out."""


@dataclass(frozen=True)
class RunView:
    """One run, as a person of this institution decides on it."""

    head: RunHead
    said: tuple[Fact, ...]
    """The word of whoever wrote the manifest."""
    uses: tuple[Fact, ...]
    members: tuple[Member, ...]
    """The first of many."""
    parties: int
    cost: Cost
    budget: Budget | None
    left: tuple[Left, ...]
    policy: str
    """What the policy says in one line."""
    reasons: tuple[Reason, ...]
    admitted: Admitted | None
    review: Review
    evidence: tuple[Proof, ...]
    ends: tuple[End, ...]
    seen: str
    own: Own
    may_approve: bool
    may_refuse: bool
    may_withdraw: bool
    why_not: str
    """Why this page does not approve it, where it does not."""
    problems: tuple[str, ...]
    folder: str
    shown: str = ""
    """Digest of everything that a decision rests on."""
