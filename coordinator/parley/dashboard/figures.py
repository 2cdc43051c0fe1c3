"""Views of runs, from the store and the histories. Reads, computes nothing that is not shown, writes nothing."""

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from parley.coordinator.attendance import by_answers, each_named
from parley.coordinator.operator_client import Presence
from parley.coordinator.store import RunRow, RunStore, State
from parley.dashboard.history import PHASES, RECENT, History
from parley.dashboard.views import (
    Books,
    Chart,
    Ending,
    Evaluated,
    ExamplesView,
    ExampleView,
    Line,
    Member,
    PartyView,
    Phase,
    PoolView,
    PrivacyView,
    RoundTimes,
    RunHead,
    RunView,
    SpentView,
    Totals,
    TroubleView,
)
from parley.federation.manifest import Manifest
from parley.federation.meaning import against_whom, made_of
from parley.federation.mechanism import sampling_sentence
from parley.federation.names import NodeName, Role
from parley.learning.pictures import Example
from parley.node.vigil import DISK_FULL, RESTARTED, SILENT, UNREACHABLE
from parley.privacy.lying import in_words
from parley.v1 import common_pb2
from parley.web import spelling

MOST_LABEL = 200
"""Characters of a class's name."""
STRIP = 48
"""Cells of a party's presence."""
LATE_FACTOR = 3.0
"""Times the usual wait after which a contribution that is not there counts as late."""
LEAST_LATE_SECONDS = 2.0
TONES = {
    State.finished: "good",
    State.stalled: "warn",
    State.stopped: "warn",
    State.failed: "bad",
    State.refused: "bad",
}
NAMES = {
    "loss": ("Loss", "mean over records"),
    "objective": ("Objective", "loss and regulariser"),
    "error": ("Error", "share misclassified"),
    "accuracy": ("Accuracy", "share classified right"),
    "auc": ("AUC", "area under the curve"),
}
TROUBLES = {
    SILENT: "does not answer",
    UNREACHABLE: "cannot be reached",
    DISK_FULL: "has no space on its disk",
    RESTARTED: "was restarted",
}
TOGETHER = "Only the two aggregators together could break it."


def head(row: RunRow, manifest: Manifest, history: History) -> RunHead:
    active = row.state in (State.running, State.gathering, State.verifying, State.ending)
    last = history.records[-1] if history.records else None
    return RunHead(
        name=row.run,
        digest=row.digest.hex(),
        state=row.state.value,
        tone=TONES.get(row.state, "live"),
        outcome=row.outcome[:1000],
        round=history.released,
        rounds=manifest.releases,
        submitted=row.submitted,
        started=row.started,
        ended=row.ended,
        seconds_left=history.seconds_left(manifest.releases) if active else None,
        epsilon=_number(row.claim.get("epsilon")),
        delta=manifest.guarantee.delta,
        lying=_if_a_server_lies(row, manifest),
        claimed=manifest.guarantee.epsilon,
        model=f"{manifest.model.kind}, {manifest.model.dimension:,} parameter{'s' * (manifest.model.dimension != 1)}",
        algorithm=manifest.algorithm.name,
        present=len(last.contributors) if last else 0,
        parties=len(manifest.parties),
        can_stop=not row.state.final,
        can_resume=row.state.resumable,
    )


def exposed(row: RunRow, manifest: Manifest, history: History, ends: dict[str, bytes]) -> int:
    """How many sums can have been opened: never less than were, whatever the coordinator got to write down.

    By the word of both aggregators, or the rounds on record and the one that was asked: a stop or a crash can come
    between its opening and its record.
    """
    signed = [_ending(word).openings for word in ends.values()]
    if len(signed) == len(manifest.aggregators):
        return min(manifest.releases, max(history.released, *signed))
    asked = row.started is not None
    return min(manifest.releases, history.released + asked)


def run_view(
    row: RunRow,
    manifest: Manifest,
    history: History,
    answers: dict[str, tuple[str, str]],
    spent: SpentView,
    pools: tuple[PoolView, ...],
    presence: Presence | None,
    has_model: bool,
    has_examples: bool,
) -> RunView:
    """A run's page."""
    recent = history.records[-RECENT:]
    running = row.state is State.running
    open_round = presence if presence and running and presence.round >= 0 else None
    parties = tuple(_party(name, manifest, history, answers, open_round) for name in manifest.parties)
    times = [history.phases(record) for record in recent]
    count, seen, wrong = len(history.records), head(row, manifest, history), troubles(row, presence)
    seconds = sum(record.seconds for record in history.records)
    late = tuple(each.name for each in parties if each.state in ("late", "working"))
    until = presence.gathering_until if presence else 0.0
    gathering = by_answers(manifest, answers, until) if row.state is State.gathering else None
    return RunView(
        head=replace(seen, seconds_left=None) if any(each.lasting for each in wrong) else seen,
        has_model=has_model,
        has_examples=has_examples,
        troubles=wrong,
        totals=Totals(
            seconds=seconds,
            seconds_per_round=history.pace(),
            bytes_down=history.bytes_down,
            bytes_up=history.bytes_up,
            bytes_per_round=(history.bytes_down + history.bytes_up) / count if count else None,
        ),
        spent=spent,
        norms=_norms(manifest, history),
        evaluations=_evaluations(manifest, history),
        evaluated=_evaluated(history),
        phases=tuple(
            Phase(key, name, median(each[place] for each in times) if times else 0.0)
            for place, (key, name) in enumerate(PHASES)
        ),
        timeline=tuple(
            RoundTimes(record.round, record.at, record.seconds, phases, len(record.contributors), tuple(record.missing))
            for record, phases in zip(recent, times, strict=True)
        ),
        parties=parties,
        pools=pools,
        waiting=late if gathering is None else tuple(each_named(gathering.waiting)),
        joined=None if gathering is None else gathering.joined,
        waiting_until=None if gathering is None else gathering.until or None,
    )


def troubles(row: RunRow, presence: Presence | None) -> tuple[TroubleView, ...]:
    """Of a run that has ended nobody asks any more."""
    if presence is None or row.state.final:
        return ()
    return tuple(
        TroubleView(node, TROUBLES[kind], kind != RESTARTED, seconds)
        for node, kind, seconds in presence.troubles
        if kind in TROUBLES
    )


def _party(
    name: str, manifest: Manifest, history: History, answers: dict[str, tuple[str, str]], open_round: Presence | None
) -> PartyView:
    uri = NodeName(manifest.federation, Role.party, name).uri
    answer, reason = answers.get(uri, ("", ""))
    last = history.records[-1] if history.records else None
    missed = history.missed.get(name, [])
    first = {record.round for record in history.records[:1]}
    rounds = len(history.records)
    present = rounds - len(missed) if answer == "joined" else 0
    if answer == "refused":
        state, tone = "refused", "bad"
    elif answer != "joined":
        state, tone = "not answered", "quiet"
    elif open_round is not None and name in open_round.absent:
        state, tone = "missing", "bad"
    elif open_round is not None and name in open_round.uploaded:
        state, tone = "uploaded", "good"
    elif open_round is not None:
        state, tone = ("late", "warn") if open_round.open_seconds > usual_wait(history) else ("working", "good")
    elif last is None:
        state, tone = "joined", "quiet"
    elif name in last.contributors:
        state, tone = "present", "good"
    else:
        state, tone = "missing", "bad"
    return PartyView(
        name=name,
        state=state,
        tone=tone,
        reason=reason[:300],
        units=manifest.mechanism.sampler(name, 0).units,
        rounds_present=present,
        rounds=rounds,
        last_missed=missed[-1] if missed else None,
        strip=_strip(missed, rounds, min(first, default=0)) if present else (),
    )


def usual_wait(history: History) -> float:
    """Seconds of a round after which whoever has not contributed is late."""
    waits = [record.waited_seconds for record in history.records[-RECENT:]]
    return max(LEAST_LATE_SECONDS, LATE_FACTOR * median(waits)) if waits else float("inf")


def _strip(missed: list[int], rounds: int, first: int) -> tuple[float, ...]:
    cells = min(STRIP, rounds)
    sizes = [(place + 1) * rounds // cells - place * rounds // cells for place in range(cells)]
    gaps = [0] * cells
    for each in missed:
        gaps[min(cells - 1, ((each - first + 1) * cells - 1) // rounds)] += 1
    return tuple(1 - gap / size for gap, size in zip(gaps, sizes, strict=True))


def _norms(manifest: Manifest, history: History) -> Chart | None:
    if not history.records:
        return None
    last = history.records[-1]
    return Chart(
        "norms",
        "Released estimator",
        "Norm of the noised estimate of each round, beside the norm that its noise alone is expected to have.",
        "",
        (
            Line(
                "expected noise",
                "reference",
                spelling.thin([(float(r.round + 1), r.noise_norm) for r in history.records]),
            ),
            Line(
                "released estimator",
                "main",
                spelling.thin([(float(r.round + 1), r.estimator_norm) for r in history.records]),
            ),
        ),
        0.0,
        spelling.axis_end(history.released),
        value=f"{spelling.number(last.estimator_norm)} against {spelling.number(last.noise_norm)} of noise",
    )


def _evaluations(manifest: Manifest, history: History) -> tuple[Chart, ...]:
    if not history.evaluated:
        return ()
    found = []
    for key in history.evaluated[-1].evaluation:
        points = [
            (float(record.round + 1), float(record.evaluation[key]))
            for record in history.evaluated
            if _number(record.evaluation.get(key)) is not None
        ]
        title, about = NAMES.get(key, (key.replace("_", " ").capitalize(), ""))
        if points:
            found.append(
                Chart(
                    key, title, about, "", (Line(title.lower(), "main", spelling.thin(points)),), 0.0,
                    spelling.axis_end(history.released), value=f"{points[-1][1]:.4g}",
                )
            )  # fmt: skip
    return tuple(found)


def _evaluated(history: History) -> tuple[Evaluated, ...]:
    """The newest first; columns as `_evaluations` has its charts."""
    keys = [key for key in (history.evaluated[-1].evaluation if history.evaluated else ()) if _any(history, key)]
    return tuple(
        Evaluated(record.round, tuple(_number(record.evaluation.get(key)) for key in keys))
        for record in reversed(history.evaluated)
    )


def _any(history: History, key: str) -> bool:
    return any(_number(record.evaluation.get(key)) is not None for record in history.evaluated)


def examples_view(
    row: RunRow, manifest: Manifest, history: History, found: tuple[int, Sequence[Example]]
) -> ExamplesView:
    """The page of public pictures."""
    views = [
        (each.right, ExampleView(place, each.row, each.truth[:MOST_LABEL], each.answer[:MOST_LABEL], each.chance))
        for place, each in enumerate(found[1])
    ]
    wrong, right = (tuple(view for is_right, view in views if is_right == kind) for kind in (False, True))
    return ExamplesView(head(row, manifest, history), found[0], wrong, right)


def privacy_view(
    row: RunRow,
    manifest: Manifest,
    history: History,
    answers: dict[str, tuple[str, str]],
    spent: SpentView,
    books: Books,
    ends: dict[str, bytes],
) -> PrivacyView:
    """The printable page."""
    mechanism, noise, claim = manifest.mechanism, manifest.noise, row.claim
    first, second = manifest.aggregators
    return PrivacyView(
        head=head(row, manifest, history),
        statement=str(claim.get("statement", "")),
        epsilon=_number(claim.get("epsilon")),
        delta=manifest.guarantee.delta,
        lying=_if_a_server_lies(row, manifest),
        epsilon_added=_number(claim.get("epsilon_added")),
        delta_added=_number(claim.get("delta_added")),
        worst_party=str(claim.get("worst_party", "")),
        accountant=manifest.guarantee.accountant,
        unit=mechanism.unit.name,
        relation=f"{mechanism.relation.value}: one unit's data exchanged for any other; how many there are is public",
        sampling=sampling_sentence(manifest.mechanism),
        noise=f"{mechanism.noise_multiplier:.4g} times the sensitivity of the sum, however many parties are present; "
        f"{made_of(noise.parts)}",
        precision=f"{noise.precision} ({noise.cover}), {noise.fraction_bits} fraction bits",
        spent=spent,
        coalition=f"{TOGETHER} {_against(row, manifest)} The aggregators are {first.name} of {first.legal_entity} and "
        f"{second.name} of {second.legal_entity}.",
        books=books,
        members=_members(manifest, answers),
        endings=tuple(_ending(word) for word in ends.values()),
        manifest_digest=row.digest.hex(),
        mechanism_digest=mechanism.digest,
        bytes_up=history.bytes_up,
        bytes_down=history.bytes_down,
        printed=time.time(),
    )


def _if_a_server_lies(row: RunRow, manifest: Manifest) -> str:
    """Beside ε, in words; nothing before it is known."""
    if _number(row.claim.get("epsilon")) is None:
        return ""
    if not manifest.noise.parts.joint:
        return "also if one server does anything at all"
    return in_words(_number(row.claim.get("epsilon_if_a_server_lies")), manifest.guarantee.delta)


def _against(row: RunRow, manifest: Manifest) -> str:
    """Whatever the coalition is, one server of it follows or does not."""
    epsilon, lying = (_number(row.claim.get(name)) for name in ("epsilon", "epsilon_if_a_server_lies"))
    if epsilon is None:
        return ""
    words = against_whom(manifest.noise.parts, epsilon, lying, manifest.guarantee.delta)
    return f"Against any coalition of the coordinator, one aggregator and all other parties, {words}"


def _members(manifest: Manifest, answers: dict[str, tuple[str, str]]) -> tuple[Member, ...]:
    entities = {operator.name: operator.legal_entity for operator in (*manifest.aggregators, manifest.coordinator)}
    found = []
    for role in (Role.party, Role.aggregator, Role.coordinator):
        for place, name in enumerate(manifest.identities(role)):
            answer, reason = answers.get(name.uri, ("leads" if role is Role.coordinator else "not answered", ""))
            party = role is Role.party
            found.append(
                Member(
                    name.name,
                    f"aggregator {'AB'[place]}" if role is Role.aggregator else role.value,
                    "" if party else entities[name.name],
                    manifest.mechanism.sampler(name.name, 0).units if party else None,
                    answer,
                    reason[:300],
                    manifest.data_set_of(name.name) if party else "",
                )
            )
    return tuple(found)


def _ending(word: bytes) -> Ending:
    end = common_pb2.SignedEnd.FromString(word)
    return Ending(end.aggregator[:200], end.openings)


def _number(value: object) -> float | None:
    right = isinstance(value, int | float) and not isinstance(value, bool) and value - value == 0
    return float(value) if right and isinstance(value, int | float) else None


def find(store: RunStore, run: str) -> RunRow | None:
    """A run by its name; None where there is none."""
    return next((row for row in store.runs() if row.run == run), None)
