"""Evidence that is forged: nothing that an accuser writes convicts who has followed the protocol."""

from collections.abc import Iterator

import pytest

from parley.attacks.covert_forgery import all_of, anybody, convicting, under_another_key
from parley.attacks.covert_server import Task
from parley.attacks.covert_trial import TwoServers
from parley.mpc.evidence import Evidence

pytestmark = pytest.mark.slow
STEP = 3
"""Of evidence every so manyth byte is changed; all are in `make test-long`."""


@pytest.fixture(scope="module")
def servers() -> Iterator[TwoServers]:
    with TwoServers() as both:
        yield both


def held(servers: TwoServers, lie: str, liar: int, holder: int, audits: int) -> list[Evidence]:
    """Two pieces, of two sessions, that a server has of the other one."""
    found: list[Evidence] = []
    while len(found) < 2:
        answer = servers.session(Task(12, 64, audits, lie, liar))[holder]
        found += [Evidence.decode(servers.evidence(holder, name)) for name in answer["evidence"][:1]]
    return found


@pytest.mark.parametrize("liar", [0, 1])
@pytest.mark.parametrize("lie", ["accuses", "one-bit"])
def test_no_forgery_convicts_an_honest_server(servers: TwoServers, lie: str, liar: int) -> None:
    accusation, other = held(servers, lie, liar, holder=liar, audits=8)
    assert accusation.accused_key == servers.keys[1 - liar]
    files, found = convicting(all_of(accusation, other, STEP), servers.keys[1 - liar])
    assert files > 600
    assert found == []


def test_what_convicts_a_liar_convicts_it_only_as_it_is_or_in_another_spelling(servers: TwoServers) -> None:
    """So the forgeries above are refused for what was changed. A signature has two spellings: nodes count a session."""
    evidence, other = held(servers, "one-bit", 1, holder=0, audits=1)
    _, found = convicting(all_of(evidence, other, STEP), servers.keys[1])
    assert [each.partition(":")[0] for each in found] == ["as it is", "signature in another spelling"]
    assert convicting(all_of(evidence, other, STEP), servers.keys[0])[1] == []  # and its accuser in no way


def test_under_a_key_of_ones_own_making_one_convicts_oneself_at_most(servers: TwoServers) -> None:
    """A verdict names a key; nobody has pinned this one."""
    evidence, other = held(servers, "one-bit", 1, holder=0, audits=1)
    verdicts = [anybody(Evidence.decode(forged.data)) for forged in under_another_key(evidence, other)
                if forged.how == "under another key"]  # fmt: skip
    assert [verdict.guilty for verdict in verdicts] == [True]
    assert not {verdict.key for verdict in verdicts} & {*servers.keys}
