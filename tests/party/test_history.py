"""What a party wants to see of a round before it answers the next: both servers' signed word, in order."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.attacks.words import Signed, digest
from parley.federation.manifest import Manifest
from parley.federation.names import Role
from parley.federation.rounds import BLIND_BYTES
from parley.party.errors import AskAgainError, RefusedRunError
from parley.party.history import MOST_FORGOTTEN, beginning
from parley.party.outbox import Outbox
from parley.v1 import common_pb2
from tests.support.documents import manifest as made_manifest
from tests.support.histories import QUERY, UPLOAD, Word, World
from tests.support.party_process import Running
from tests.support.stage import PARTY, Stage, State, question
from tests.support.until import until


def refused(act: Callable[[], Any]) -> str:
    with pytest.raises(RefusedRunError) as caught:
        act()
    assert caught.value.refusal == common_pb2.REFUSAL_STATEMENT
    return str(caught.value)


def spoilt(signature: bytes) -> bytes:
    """With another last byte, whatever it was."""
    return signature[:-1] + bytes([signature[-1] ^ 1])


def test_an_honest_history_costs_no_question_to_the_servers(world: World) -> None:
    world.follow(0, handed=[])
    for index in range(1, 4):
        world.state()
        world.follow(index, world.answer(index - 1, roles=(0,)))
    assert world.asked == []
    assert world.history.seen.round == 2


def test_what_the_coordinator_keeps_back_or_spoils_is_asked_of_the_servers(world: World) -> None:
    world.state()
    spoiled = world.handed(1)
    spoiled[0].signature = spoilt(spoiled[0].signature)
    for handed in ([], world.handed(1)[:1], world.handed(1)[::-1], spoiled, [Word(), Word()]):
        world.history = world.new()
        world.asked.clear()
        world.follow(1, world.answer(), handed)
        assert {role for role, _, _ in world.asked} == {0, 1}


def test_without_both_servers_word_a_party_waits(world: World) -> None:
    world.state()
    world.away = {1}
    with pytest.raises(AskAgainError):
        world.follow(1, world.answer(), [])
    world.away = set()
    world.state(mine=False)
    with pytest.raises(AskAgainError):
        world.follow(3, world.answer(), [])
    assert world.history.seen.round == -1


def test_who_was_away_asks_for_what_lies_between_and_goes_on(world: World) -> None:
    for _ in range(5):
        world.state(mine=False)
    world.follow(5)
    assert world.history.seen.round == 4


def test_a_replayed_statement_is_no_word_about_this_round(world: World) -> None:
    world.state()
    world.follow(1, world.answer())
    old = world.handed(1)
    world.signed.words[1].append(world.signed.words[1][0])
    world.signed.words[0].append(world.signed.words[0][0])
    with pytest.raises(RefusedRunError):
        world.follow(2, None, old)


def test_statements_in_each_others_place_are_nobodys_word(world: World) -> None:
    world.state()
    world.signed.words.reverse()
    assert "not a statement of round 0 by north" in refused(lambda: world.follow(1, world.answer()))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"start": 8}, "not of the opening"),
        ({"query": digest("other")}, "different sums"),
        ({"share": b"short"}, "a digest of another length"),
        ({"epoch": b"short"}, "a digest of another length"),
        ({"contributions": ()}, "0 parties, the run needs"),
        ({"contributions": (("hospital-a", UPLOAD),)}, "1 parties, the run needs"),
        ({"contributions": (("hospital-a", UPLOAD), ("nobody", UPLOAD))}, "others than the run's"),
        ({"contributions": (("hospital-b", UPLOAD), ("hospital-a", UPLOAD))}, "others than the run's"),
        ({"contributions": (("hospital-a", UPLOAD), ("hospital-a", UPLOAD))}, "others than the run's"),
    ],
)
def test_what_one_server_states_against_the_rules_ends_the_run_here(
    world: World, changes: dict[str, Any], what: str
) -> None:
    world.state(**changes)
    said = refused(lambda: world.follow(1, world.answer()))
    assert what in said
    assert "south" in said


def test_an_upload_with_both_receipts_has_to_be_in_the_sum(world: World) -> None:
    world.state(mine=False)
    said = refused(lambda: world.follow(1, world.answer()))
    assert "receipt" in said
    assert "north and south" in said


@pytest.mark.parametrize("roles", [(), (0,), (1,)])
def test_who_holds_no_two_receipts_was_late_and_goes_on(world: World, roles: tuple[int, ...]) -> None:
    world.state(mine=False)
    world.follow(1, world.answer(roles=roles))
    assert world.history.left_out


def test_a_receipt_that_is_missing_is_asked_of_its_server(world: World) -> None:
    """As after a round in which B's half went through A."""
    world.state(mine=False)
    answer = world.answer(roles=(0,))
    world.receipts[1] = Word.FromString(world.signed.receipt(1, 0, QUERY, UPLOAD))
    assert "receipt" in refused(lambda: world.follow(1, answer))


@pytest.mark.parametrize("spoil", ["signature", "round", "upload", "other server"])
def test_a_receipt_that_is_not_the_servers_counts_for_nothing(world: World, spoil: str) -> None:
    world.state(mine=False)
    answer = world.answer()
    if spoil == "signature":
        answer.receipts[1].signature = spoilt(answer.receipts[1].signature)
    else:
        role, index = (0, 0) if spoil == "other server" else (1, int(spoil == "round"))
        upload = digest("another") if spoil == "upload" else UPLOAD
        answer.receipts[1] = Word.FromString(world.signed.receipt(role, index, QUERY, upload))
    world.follow(1, answer)
    assert world.history.left_out


def test_a_server_that_was_restarted_may_forget_three_times(world: World) -> None:
    for index in range(MOST_FORGOTTEN):
        world.state(mine=False)
        world.follow(index + 1, world.answer(index, life=b"m" * 16))
    assert world.history.seen.forgotten == MOST_FORGOTTEN
    world.state(mine=False)
    assert "after a restart" in refused(lambda: world.follow(4, world.answer(3, life=b"m" * 16)))


def test_another_upload_another_question_or_one_never_made_are_refused(world: World) -> None:
    world.state()
    other = world.answer()
    other.upload = digest("mine")
    assert "another upload" in refused(lambda: world.follow(1, other))
    other = world.answer()
    other.query = digest("mine")
    assert "another question" in refused(lambda: world.follow(1, other))
    assert world.history.blamed == ("north", "south")
    assert "has not made" in refused(lambda: world.follow(1, None))


def test_who_is_asked_another_question_than_the_others_accuses_no_server(world: World) -> None:
    """A coordinator could have honest servers accused: they refuse what answers its second question."""
    other = world.answer()
    other.query = digest("mine")
    world.state(mine=False)
    assert "another question" in refused(lambda: world.follow(1, other))
    assert world.history.blamed == ()


def test_who_is_asked_for_another_length_than_the_servers_open_accuses_no_server(world: World) -> None:
    """The length is a word of the coordinator's to each: servers drop what does not fit theirs, receipts or not."""
    world.state(mine=False)
    other = world.answer()  # with both receipts
    other.payload_a = bytes(BLIND_BYTES + 8)
    assert "another question" in refused(lambda: world.follow(1, other))
    assert world.history.blamed == ()


def test_a_server_that_tells_another_history_later_is_found_out(world: World) -> None:
    world.state()
    world.follow(1, world.answer())
    forked = World()
    forked.identities, forked.signed = world.identities, Signed(world.manifest, world.identities)
    forked.state(mine=False)
    world.signed.words[1][0] = forked.signed.words[1][0]
    with pytest.raises(Exception, match="south has stated round 0 in two ways"):
        world.history.close(world.answer())


def test_a_statement_that_was_seen_needs_no_key_any_more(world: World) -> None:
    """A server's key was replaced, and the one that it signed with is pinned no longer: the server is honest."""
    world.state()
    world.follow(1, world.answer())
    south = world.manifest.identities(Role.aggregator)[1]
    world.authority.replace_key(south)
    world.identities = {name: world.authority.issue_as(name) for name in world.identities}
    pins = next(iter(world.identities.values())).pins
    world.history.pins = lambda: pins
    world.signed.identities[1] = world.identities[south]
    world.state()
    world.follow(2, world.answer(1), [])  # the servers are asked, from the round that was seen on
    assert world.history.seen.round == 1


def test_the_end_is_looked_at_with_the_servers_themselves(world: World) -> None:
    for _ in range(3):
        world.state()
    world.follow(1, world.answer())
    last = world.answer(1)
    with pytest.raises(Exception, match="has not made"):  # round 2 names this party, who has answered 0 and 1 only
        world.history.close(last)


def test_a_servers_silence_at_the_end_is_no_fault(world: World) -> None:
    world.state()
    world.away = {0}
    assert world.history.close(world.answer()).round == -1
    world.away = set()
    assert world.history.close(world.answer()).round == 0


def test_what_was_seen_outlives_the_process(world: World, tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.sqlite")
    assert outbox.seen(world.manifest.digest) is None
    world.state()
    answer = world.answer()
    outbox.put(world.manifest.digest, answer, None, world.history.seen)
    outbox.keep_receipts(world.manifest.digest, answer)
    outbox.close()
    outbox = Outbox(tmp_path / "outbox.sqlite")
    found = outbox.last(world.manifest.digest)
    assert found is not None
    assert found.receipts == answer.receipts
    seen = outbox.seen(world.manifest.digest)
    assert seen == beginning(world.manifest)
    outbox.close()


def asked_of(made: Manifest, index: int) -> Any:
    points = [np.full(3, 0.1 * each) for each in range(index, max(index - 2, -1), -1)]
    return question(made, index, points)


@pytest.mark.usefixtures("verified_in_process")
def test_a_party_leaves_a_run_whose_history_is_forked_for_good(stage: Stage) -> None:
    made = made_manifest()
    stage.offer(made)
    with Running(stage):
        stage.coordinator.ask(asked_of(made, 0))
        stage.opened(0)
        until(lambda: 0 in stage.a.uploads and 0 in stage.b.uploads)
        stage.stated(1)
        signed = stage.signed
        assert signed is not None
        signed.words[1].pop()
        with_others = tuple(sorted({PARTY.name: stage.b.uploads[0], "hospital-c": digest("c")}.items()))
        signed.words[1].append(signed.word(1, stage.coordinator.asked[0], with_others, {}))
        stage.coordinator.ask(asked_of(made, 1))
        refusal = until(lambda: next((each for each in stage.coordinator.joins if not each.accepted), None))
    assert refusal is not None
    assert refusal.reason.startswith("aggregators north and south state different sums of round 0")
    events = [json.loads(line) for line in (stage.node / "state" / "trail.jsonl").read_text().splitlines()]
    (found,) = [each["fields"] for each in events if each["event"] == "statement.refused"]
    assert (found["round"], found["members"]) == (0, ["north", "south"])
    assert 1 not in stage.a.payloads
    stage.coordinator.joins.clear()
    with Running(stage):
        time.sleep(1.0)
    assert 1 not in stage.a.payloads


@pytest.mark.usefixtures("verified_in_process")
@pytest.mark.slow
def test_a_party_answers_nothing_until_both_servers_have_spoken(stage: Stage) -> None:
    made = made_manifest()
    stage.offer(made)
    with Running(stage):
        stage.coordinator.ask(asked_of(made, 0))
        stage.opened(0)
        asked = asked_of(made, 1)
        stage.coordinator.say(State(state=State.STATE_ROUND, round=asked))
        until(lambda: len(stage.coordinator.requests) > 4)
        assert 1 not in stage.a.payloads
        until(lambda: 0 in stage.a.uploads and 0 in stage.b.uploads)
        stage.stated(1)  # the coordinator hands nothing still: the servers are asked
        stage.opened(1)
