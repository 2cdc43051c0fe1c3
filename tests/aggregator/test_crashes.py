"""Kill -9 at every durable transition of either server, then a restart: one opening, and the same bytes ever after."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parley.federation.manifest import Manifest
from parley.v1 import aggregator_pb2 as wire
from tests.support import documents
from tests.support.servers import WAIT, Federation, contributions, is_noised
from tests.support.until import until

OPENED = wire.OpenResponse.STATE_OPENED
POINTS = ("preparing", "prepared", "agreeing", "committing", "committed")
QUICK = ("prepared", "agreeing")
"""The others are as quick, but there are many."""


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    made = Federation(tmp_path)
    yield made
    made.close()


def opened_over(federation: Federation, manifest: Manifest, index: int, crash: Any) -> list[Any]:
    """What both servers say in the end, while `crash` happens."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.extend(federation.open(manifest, index)))
    thread.start()
    crash()
    thread.join(2 * WAIT)
    assert [answer.state for answer in answers] == [OPENED] * 2, answers
    return answers


@pytest.mark.parametrize("role", [0, 1], ids=["A", "B"])
@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=() if point in QUICK else (pytest.mark.slow,)) for point in POINTS]
)
def test_a_crash_leaves_one_opening(federation: Federation, role: int, point: str) -> None:
    manifest = documents.manifest(run="crash")
    federation.admit(manifest)
    label = f"aggregator.{point}:2"  # the second round: there are counts to compare
    federation.start(*(label if role == each else None for each in (0, 1)))
    for each in (0, 1):
        federation.propose(each, manifest)
    federation.upload_all(contributions(manifest, 0))
    assert [answer.state for answer in federation.open(manifest, 0)] == [OPENED] * 2
    made = contributions(manifest, 1)
    federation.upload_all(made)

    def crash() -> None:
        federation.servers[role].died()
        federation.restart(role)
        federation.propose(role, manifest)
        for each in made:
            federation.upload(role, each)  # too late, or counted: a party does not know

    answers = opened_over(federation, manifest, 1, crash)
    assert answers[0].opening == answers[1].opening
    assert is_noised(manifest, 1, answers, 6.0)
    again = federation.open(manifest, 1)
    assert [answer.share for answer in again] == [answer.share for answer in answers]
    federation.upload_all(contributions(manifest, 2))
    assert is_noised(manifest, 2, federation.open(manifest, 2), 6.0)
    assert [end.openings for end in federation.end(manifest)] == [3, 3]


@pytest.mark.parametrize("role", [0, 1], ids=["A", "B"])
@pytest.mark.slow
def test_a_crash_while_a_prepared_share_is_discarded_or_a_run_ends(federation: Federation, role: int) -> None:
    """One server dies before it has prepared, so the other discards what it has, and dies of that; then both end."""
    manifest = documents.manifest(run="discard")
    federation.admit(manifest)
    points: list[str | None] = [None, None]
    points[role], points[1 - role] = "aggregator.discarded", "aggregator.preparing"
    federation.start(*points)
    for each in (0, 1):
        federation.propose(each, manifest)
    made = contributions(manifest, 0)
    federation.upload_all(made)

    def back(each: int, next_point: str | None = None) -> None:
        federation.restart(each, next_point)
        federation.propose(each, manifest)
        for contribution in made:
            federation.upload(each, contribution)

    def crash() -> None:
        federation.servers[1 - role].died()
        back(1 - role, "aggregator.ended")
        other = federation.servers[role].process
        assert other is not None
        until(lambda: other.poll() is not None or federation.committed(1 - role, manifest, 0))
        if other.poll() is not None:  # else the first kill came before this server had prepared anything
            back(role)

    answers = opened_over(federation, manifest, 0, crash)
    assert is_noised(manifest, 0, answers, 6.0)
    ends: list[Any] = []
    thread = threading.Thread(target=lambda: ends.extend(federation.end(manifest)))
    thread.start()
    federation.servers[1 - role].died()
    federation.restart(1 - role)
    federation.propose(1 - role, manifest)
    thread.join(2 * WAIT)
    assert [end.openings for end in ends] == [1, 1], ends


@pytest.mark.parametrize("role", [0, 1], ids=["A", "B"])
@pytest.mark.parametrize("behind", [1, 2], ids=["by one round", "by two"])
@pytest.mark.slow
def test_a_server_restored_from_an_old_snapshot_is_refused(federation: Federation, role: int, behind: int) -> None:
    manifest = documents.manifest(run="snapshot")
    federation.admit(manifest)
    federation.start()
    for each in (0, 1):
        federation.propose(each, manifest)
    state = federation.servers[role].path / "state"
    for index in range(3):
        if index == 3 - behind:
            federation.servers[role].stop()
            shutil.copytree(state, state.with_name("snapshot"))
            federation.restart(role)
            federation.propose(role, manifest)
        federation.upload_all(contributions(manifest, index))
        assert [answer.state for answer in federation.open(manifest, index)] == [OPENED] * 2
    federation.servers[role].stop()
    shutil.rmtree(state)
    shutil.copytree(state.with_name("snapshot"), state)
    federation.restart(role)
    federation.propose(role, manifest)
    index = 3 - behind  # it would open this round a second time
    for made in contributions(manifest, index):
        federation.upload(role, made)
    answers = federation.open(manifest, index)
    assert answers[1 - role].state == OPENED  # what was released stays released
    assert getattr(answers[role], "name", None) == "lost", answers
    assert [answer.name for answer in federation.open(manifest, 3)] == ["lost"] * 2
    assert len({end.openings for end in federation.end(manifest)}) == 2  # which settles no party's ledger
