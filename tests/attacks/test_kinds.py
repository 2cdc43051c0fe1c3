"""How a guard is taken away for an experiment, and that it is there again whatever happened in between."""

import pytest

from parley.attacks.kinds import Guard, removed
from parley.federation.rounds import bounded_wait
from parley.node import connections
from parley.node.node_file import Address

OPTION = Guard("connections", "parley.node.connections:MOST_CONNECTIONS", "no.such.option")
WAIT = Guard("wait", "parley.federation.rounds:bounded_wait", lambda asked: asked)
LOCAL = Guard("loopback", "parley.node.node_file:Address.loopback", property(lambda self: True))
PARSED = Guard("parsed", "parley.node.node_file:Address.parse", classmethod(lambda cls, text: text))


def test_a_constant_a_function_a_property_and_a_class_method_can_be_taken_away() -> None:
    from parley.federation import rounds

    with removed(OPTION, WAIT, LOCAL, PARSED):
        assert connections.listening(7)[-1] == ("no.such.option", 7)
        assert rounds.bounded_wait(1e9) == 1e9
        assert Address("192.0.2.1", 1).loopback
        assert Address.parse("anything") == "anything"  # type: ignore[comparison-overlap]
    assert connections.listening(7)[-1] == ("grpc.max_allowed_incoming_connections", 7)
    assert rounds.bounded_wait is bounded_wait
    assert not Address("192.0.2.1", 1).loopback
    assert Address.parse("127.0.0.1:1") == Address("127.0.0.1", 1)


def test_a_guard_is_back_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), removed(OPTION):
        _ = 1 / 0
    assert connections.MOST_CONNECTIONS == "grpc.max_allowed_incoming_connections"


@pytest.mark.parametrize("target", ["parley.node.connections:MOST", "parley.node.node_file:Address.nothing"])
def test_a_guard_that_is_not_there_is_an_error_and_the_others_come_back(target: str) -> None:
    """The product has moved: an experiment without the guard would show nothing."""
    with pytest.raises(KeyError), removed(OPTION, Guard("gone", target, None)):
        pytest.fail("the experiment began")
    assert connections.MOST_CONNECTIONS == "grpc.max_allowed_incoming_connections"


@pytest.mark.parametrize("nested", [False, True])
def test_one_guard_taken_away_twice_is_back_as_it_was_first(nested: bool) -> None:
    other = Guard("again", OPTION.target, "another")
    if nested:
        with removed(OPTION), removed(other):
            assert connections.MOST_CONNECTIONS == "another"
    else:
        with removed(OPTION, other):
            assert connections.MOST_CONNECTIONS == "another"
    assert connections.MOST_CONNECTIONS == "grpc.max_allowed_incoming_connections"
