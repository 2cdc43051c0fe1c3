"""What the pages are made of. A template sees these objects only; `allowed` says why each field may show."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One curve: already thinned to what a screen can show."""

    name: str
    style: str
    """A class of the style sheet: `main`, `second`, `reference`, `planned`."""
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Chart:
    """Curves over rounds."""

    key: str
    title: str
    about: str
    unit: str
    lines: tuple[Line, ...]
    first: float
    last: float
    """The axis of rounds."""
    now: float | None = None
    """A mark on it."""
    value: str = ""
    """The newest figure, in words."""


@dataclass(frozen=True)
class Phase:
    """One phase over the rounds that are shown, and its share."""

    key: str
    name: str
    seconds: float
    """The median of a round."""


@dataclass(frozen=True)
class RoundTimes:
    """One column of the timeline."""

    round: int
    at: float
    seconds: float
    phases: tuple[float, ...]
    present: int
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Evaluated:
    """One row of the table beside the curves: what a round's model does on the public set."""

    round: int
    figures: tuple[float | None, ...]
    """One for each curve; None for what is no finite number."""


@dataclass(frozen=True, kw_only=True)
class PartyView:
    """A party, as far as anybody may know it."""

    name: str
    state: str
    tone: str
    reason: str
    units: int
    rounds_present: int
    rounds: int
    last_missed: int | None
    strip: tuple[float, ...]
    """Share of rounds present, in equal parts of the history."""


@dataclass(frozen=True, kw_only=True)
class AuditedPoolView:
    """An aggregator's pool of audited noise."""

    available: int
    capacity: int
    lanes: int
    audits_made: int
    audits_passed: int
    resting: str


@dataclass(frozen=True, kw_only=True)
class PoolView:
    """An aggregator's noise pool and health."""

    name: str
    legal_entity: str
    answers: bool
    available: int = 0
    capacity: int = 0
    produced: int = 0
    used: int = 0
    lost: int = 0
    error: str = ""
    version: str = ""
    share_bytes: int = 0
    audited: AuditedPoolView | None = None
    """None where no run has ever asked for it."""
    evidence: int = 0
    """Pieces against the other server that its operator has not answered."""


@dataclass(frozen=True)
class SpentView:
    """What the rounds so far have cost, and what all will."""

    state: str
    """`ready`, `computing` or why there is none."""
    pld: float | None
    rdp: float | None
    pld_end: float | None
    rdp_end: float | None
    upto: int
    """The spent figures cover this many rounds, at least those that were released."""
    exact: bool
    """Whether no closer reading is on its way, of a run that rests."""
    claimed: float
    delta: float
    accountant: str
    party: str
    chart: Chart | None


@dataclass(frozen=True)
class LogLine:
    """One line of the node's log or trail, its fields checked again."""

    time: str
    level: str
    event: str
    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class LogView:
    """The newest lines."""

    source: str
    lines: tuple[LogLine, ...]
    seen: int
    """How many there have been: a stream goes on from there."""


@dataclass(frozen=True)
class RunHead:
    """One run in a line."""

    name: str
    digest: str
    state: str
    tone: str
    outcome: str
    round: int
    rounds: int
    submitted: float
    started: float | None
    ended: float | None
    seconds_left: float | None
    epsilon: float | None
    delta: float
    lying: str
    """What holds if a server lies, in words; empty before it is known."""
    claimed: float
    model: str
    algorithm: str
    present: int
    parties: int
    can_stop: bool
    can_resume: bool


@dataclass(frozen=True)
class Totals:
    """Over the whole run so far."""

    seconds: float
    seconds_per_round: float | None
    bytes_down: int
    bytes_up: int
    bytes_per_round: float | None


@dataclass(frozen=True)
class TroubleView:
    """What is wrong with a node."""

    node: str
    words: str
    lasting: bool
    seconds: float
    """How long it has lasted; if it is over, how long ago it was."""


@dataclass(frozen=True)
class RunView:
    """A run's page."""

    head: RunHead
    has_model: bool
    """Whether there is a file to take."""
    has_examples: bool
    """Whether there are public pictures to look at."""
    troubles: tuple[TroubleView, ...]
    totals: Totals
    spent: SpentView
    norms: Chart | None
    evaluations: tuple[Chart, ...]
    evaluated: tuple[Evaluated, ...]
    phases: tuple[Phase, ...]
    timeline: tuple[RoundTimes, ...]
    parties: tuple[PartyView, ...]
    pools: tuple[PoolView, ...]
    waiting: tuple[str, ...]
    """Whose contribution the open round still lacks; while it gathers, whose answer."""
    joined: int | None
    """Parties that take part, of a run that is being gathered."""
    waiting_until: float | None
    """When it ends to wait for answers; None where nobody waits for any."""


@dataclass(frozen=True)
class ExampleView:
    """One picture of the public set, and what the run's newest model says of it."""

    place: int
    """Which of the page's pictures it is, in its address."""
    row: int
    truth: str
    answer: str
    chance: float | None


@dataclass(frozen=True)
class ExamplesView:
    """Right and wrong answers on the public set."""

    head: RunHead
    round: int
    wrong: tuple[ExampleView, ...]
    right: tuple[ExampleView, ...]


@dataclass(frozen=True)
class BudgetRun:
    """One run in the coordinator's ledger."""

    run: str
    epsilon: float
    delta: float
    lying: str
    charged: int
    recorded: int
    ended: bool


@dataclass(frozen=True)
class Budget:
    """One population in the coordinator's ledger."""

    population: str
    unit: str
    epsilon: float
    delta: float
    lying: str
    epsilon_cap: float
    delta_cap: float
    runs: tuple[BudgetRun, ...]


@dataclass(frozen=True)
class Books:
    """The coordinator's ledger and audit trail."""

    state: str
    """`ready`, `computing` or why there is none."""
    rule: str
    ledger_head: str
    budgets: tuple[Budget, ...]
    trail_state: str
    trail_head: str
    fresh: bool
    """Whether no newer reading is on its way."""


@dataclass(frozen=True)
class RunsView:
    """The first page."""

    runs: tuple[RunHead, ...]
    books: Books


@dataclass(frozen=True)
class Member:
    """Who takes part, and in what way."""

    name: str
    role: str
    legal_entity: str
    units: int | None
    answer: str
    reason: str
    data_set: str
    """A party's, where the manifest names it."""


@dataclass(frozen=True)
class Ending:
    """An aggregator's signed word."""

    aggregator: str
    openings: int


@dataclass(frozen=True)
class PrivacyView:
    """The printable page."""

    head: RunHead
    statement: str
    epsilon: float | None
    delta: float
    lying: str
    """What holds if a server lies, in words."""
    epsilon_added: float | None
    delta_added: float | None
    worst_party: str
    accountant: str
    unit: str
    relation: str
    sampling: str
    noise: str
    precision: str
    spent: SpentView
    coalition: str
    books: Books
    members: tuple[Member, ...]
    endings: tuple[Ending, ...]
    manifest_digest: str
    mechanism_digest: str
    bytes_up: int
    bytes_down: int
    printed: float


@dataclass(frozen=True)
class Page:
    """Around every page."""

    node: str
    federation: str
    title: str
    csrf: str
    """"" on a page for nobody in particular."""
