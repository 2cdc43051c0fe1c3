"""A process with somebody's code: whatever it does, whoever asked gets what was due, or is told that it is lost."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from parley.models.child import MOST_SAID, Child, ModuleLostError, ModuleRefusedError, environment
from tests.support.until import until

ROOT = Path(__file__).parents[2]
DUE = (("int64", (3,)),)


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PARLEY_DATABASE_PASSWORD", "secret")
    made = Child(1, "tests.support.other_end")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("kind", "said"), [("ValueError", "ValueError"), ("Patient4711", "its own error"), ("print", "its own error")]
)
def test_a_class_of_the_modules_own_is_not_repeated(child: Child, kind: str, said: str) -> None:
    """Its name could be made of a record."""
    with pytest.raises(ModuleLostError, match=f"could not compute: {said}$"):
        child.ask({"ask": "lost", "kind": kind}, due=DUE, seconds=60)


def pipes() -> set[str]:
    """Those that this process holds; what other threads of it open meanwhile is no pipe."""
    found = set()
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the folder's own, for one
            found.add(os.readlink(f"/proc/self/fd/{each}"))
    return {each for each in found if each.startswith("pipe:")}


def gone(process: int) -> bool:
    """Ended, or waited for by nobody."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_what_is_asked_is_answered_by_arrays_of_every_kind(child: Child) -> None:
    arrays = [np.arange(6, dtype=kind).reshape(2, 3) for kind in ("uint8", "int16", "int32", "int64", "float64")]
    arrays += [np.zeros((0, 4)), np.array([True, False]), np.float32(1.5) * np.ones(1 << 20, np.float32)]
    due = [(each.dtype.name, each.shape) for each in arrays]
    answer = child.ask({"ask": "echo", "said": "grüß"}, arrays, due, seconds=60)
    assert answer.header == {"said": "grüß"}
    assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(answer.arrays, arrays, strict=True))


@pytest.mark.parametrize("what", ["exit", "abort", "garbage", "half", "long", "lost"])
def test_a_process_that_does_anything_else_is_lost_for_good(child: Child, what: str) -> None:
    process = child.process.pid
    with pytest.raises(ModuleLostError):
        child.ask({"ask": what}, due=DUE, seconds=60)
    assert gone(process)
    with pytest.raises(ModuleLostError, match="lost before"):
        child.ask({"ask": "print"}, due=DUE, seconds=60)


def test_who_stops_a_whole_node_does_not_end_it_before_its_node(child: Child) -> None:
    """A service manager tells every process of a node to end; this thread hears signals as it did."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        child.process.send_signal(number)
    answer = child.ask({"ask": "echo", "said": ""}, [np.arange(3)], DUE, seconds=60)
    assert answer.arrays[0].tolist() == [0, 1, 2]
    assert not child.gone
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


def test_one_that_hangs_is_ended_when_its_time_is_over(child: Child) -> None:
    began = time.monotonic()
    with pytest.raises(ModuleLostError, match="in time"):
        child.ask({"ask": "hang"}, due=DUE, seconds=0.3)
    assert time.monotonic() - began >= 0.3
    assert gone(child.process.pid)


def test_what_it_prints_goes_nowhere(child: Child, capfd: pytest.CaptureFixture[str]) -> None:
    answer = child.ask({"ask": "print"}, due=DUE, seconds=60)
    assert answer.arrays[0].tolist() == [0, 1, 2]
    assert capfd.readouterr() == ("", "")


def test_what_it_has_forked_ends_with_it_and_is_not_waited_for(child: Child, tmp_path: Path) -> None:
    note = tmp_path / "grandchild"
    with pytest.raises(ModuleLostError, match="ended"):
        child.ask({"ask": "fork", "note": str(note)}, due=DUE, seconds=600)
    until(lambda: note.exists() and note.read_text() != "")
    until(lambda: gone(int(note.read_text())))


def test_what_it_has_started_in_a_session_of_its_own_ends_with_it(child: Child) -> None:
    started = child.ask({"ask": "session"}, due=DUE, seconds=60).header["started"]
    assert not gone(started)
    child.close()
    until(lambda: gone(started))


def test_it_knows_neither_this_process_s_environment_nor_its_folder(child: Child) -> None:
    seen = child.ask({"ask": "sees"}, seconds=60).header
    assert "PARLEY_DATABASE_PASSWORD" not in seen["environment"]
    assert (seen["folder"], seen["handles"]) == ("/", ["/dev/null"])
    assert environment(3)["OMP_NUM_THREADS"] == "3"


def test_why_it_refuses_is_one_short_line(child: Child) -> None:
    with pytest.raises(ModuleRefusedError) as caught:
        child.ask({"ask": "refused"}, seconds=60)
    assert str(caught.value).startswith("use nn.GroupNorm ?[31m")
    assert len(str(caught.value)) == MOST_SAID


def test_it_is_ended_once_and_by_its_own_number(child: Child) -> None:
    process = child.process.pid
    assert not child.gone
    child.close()
    child.close()
    assert gone(process)
    assert child.gone
    before = pipes()
    other = Child(1, "tests.support.other_end")
    assert pipes() > before
    other.close()
    assert pipes() == before


START = """
import time
from parley.models.child import Child
from parley.models.frames import Deadline, Frame, read, write
child = Child(1)
write(child._write, Frame({"ask": "nothing"}), Deadline())
read(child._read, Deadline())  # so that it has said by now that it ends with this process
print(child.process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("stopped", [False, True])
def test_it_ends_with_whoever_started_it_even_while_it_cannot_listen(stopped: bool) -> None:
    starter = subprocess.Popen([sys.executable, "-P", "-c", START], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    process = int(starter.stdout.readline())
    if stopped:
        os.kill(process, signal.SIGSTOP)
    starter.kill()
    starter.wait()
    starter.stdout.close()
    until(lambda: gone(process))
