"""How a process of ours ends: an error that a user can mend is one line and a code, a defect is a stack trace."""

from collections.abc import Callable

import pytest

from parley.errors import ParleyError
from parley.federation.errors import PeerRefusedError
from parley.learning.errors import ModelError
from parley.mpc.errors import MpcError, PeerClosedError, PeerError
from parley.node.entry import EXIT_PEER, EXIT_USAGE, enter


def raising(error: BaseException) -> Callable[[], None]:
    def run() -> None:
        raise error

    return run


def test_what_works_ends_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    done = list[int]()
    enter(lambda: done.append(1))
    assert (done, capsys.readouterr()) == ([1], ("", ""))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ParleyError("wrong: change it"), EXIT_USAGE),
        (ModelError("wrong: change it"), EXIT_USAGE),
        (MpcError("wrong: change it"), EXIT_USAGE),
        (PeerError("wrong: change it"), EXIT_PEER),
        (PeerClosedError("wrong: change it"), EXIT_PEER),
        (PeerRefusedError("wrong: change it"), EXIT_PEER),
    ],
    ids=lambda given: type(given).__name__,
)
def test_an_expected_error_is_one_line_and_whether_a_peer_is_to_blame_is_in_the_code(
    error: ParleyError, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        enter(raising(error))
    assert ended.value.code == code
    assert capsys.readouterr() == ("", "error: wrong: change it\n")


@pytest.mark.parametrize(
    ("module", "says"),
    [("scipy.stats", "pip install 'parley-federation[accounting]'"), ("parley.dashboard", "is not in this image")],
)
def test_what_an_installation_lacks_is_said_in_one_line(
    module: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        enter(raising(ModuleNotFoundError("no", name=module)))
    assert ended.value.code == EXIT_USAGE
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "defect",
    [ModuleNotFoundError("no", name="parley.party.proces"), ImportError("no"), KeyError("x"), KeyboardInterrupt()],
    ids=lambda given: type(given).__name__,
)
def test_a_defect_keeps_its_stack_trace(defect: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(type(defect)):
        enter(raising(defect))
    assert capsys.readouterr().err == ""
