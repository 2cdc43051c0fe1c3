"""Who is told that something waits for a person: by a real server on loopback and by real programs, never by a shell,
and with nothing in it but public facts; whatever becomes of it, the node goes on.
"""

import json
import os
import ssl
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from parley.cli.commands.doctor import examine
from parley.federation.names import NodeName, Role
from parley.node import bell
from parley.node.bell import APPROVAL, EVIDENCE, MOST_TOLD, NOTIFIED, STALLED, Bell, environment, message, tell
from parley.node.doctor import FAILED, OK, UNKNOWN
from parley.node.notify_settings import NotifySettings
from tests.support.command import answer, parley
from tests.support.documents import manifest
from tests.support.examined import by_check
from tests.support.party_process import EVERYONE, Running
from tests.support.stage import Stage
from tests.support.until import until

NAME = NodeName("cardio", Role.party, "hospital-a")
NORTH = NodeName("cardio", Role.aggregator, "north")
DIGEST = "ab" * 32


class Listening:
    """An HTTP server on loopback, and what it was sent."""

    def __init__(self, status: int = 200, location: str = "", drip: bool = False) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.status, self.location, self.drip = status, location, drip
        self.stop = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.headers.append(dict(self.headers))
                outer.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                while outer.drip and not outer.stop.wait(0.05):
                    try:
                        self.wfile.write(b"H")  # an answer's first line that never ends
                    except OSError:
                        return
                self.send_response(outer.status)
                if outer.location:
                    self.send_header("Location", outer.location)
                self.end_headers()

            def do_GET(self) -> None:
                outer.bodies.append(b"GET")

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/hooks/8d1c?key=secret"

    def close(self) -> None:
        self.stop.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def listening() -> Iterator[Callable[..., Listening]]:
    made: list[Listening] = []

    def make(*given: object, **named: object) -> Listening:
        made.append(Listening(*given, **named))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bell, "TOGETHER_SECONDS", 0.1)


def program(folder: Path, text: str) -> Path:
    """Of Python: what a command is told ends up in `folder`."""
    made = folder / "tell"
    made.write_text(f"#!{sys.executable}\n{text}")
    made.chmod(0o700)
    return made


def test_an_address_gets_one_post_with_public_facts_and_no_more(
    listening: Callable[..., Listening], tmp_path: Path, at_once: None
) -> None:
    there = listening()
    made = Bell(NotifySettings(url=there.url), NAME, tmp_path)
    made.ring(APPROVAL, "heart-1", DIGEST)
    made.ring(APPROVAL, "heart-1", DIGEST)
    made.ring(EVIDENCE, digest=DIGEST, peer=NORTH)
    until(lambda: there.bodies != [])
    body = json.loads(there.bodies[0])
    made.close()
    assert set(body) == {"node", "waiting", "more", "text"}
    assert (body["node"], body["more"]) == ("parley://cardio/party/hospital-a", 0)
    first, second = ({name: value for name, value in each.items() if name != "since"} for each in body["waiting"])
    assert first == {
        "what": "approval", "text": "a run waits for this node's operator", "run": "heart-1", "digest": DIGEST
    }  # fmt: skip
    assert (second["what"], second["digest"], second["peer"]) == ("evidence", DIGEST, NORTH.uri)
    assert "hospital-a: a run waits for this node's operator (heart-1): parley party runs NODE" in body["text"]
    assert there.headers[0]["Content-Type"] == "application/json"
    assert stat.S_IMODE((tmp_path / NOTIFIED).stat().st_mode) == 0o600


def test_what_is_no_public_fact_is_left_out(listening: Callable[..., Listening], tmp_path: Path, at_once: None) -> None:
    there = listening()
    made = Bell(NotifySettings(url=there.url), NAME, tmp_path)
    for run in ("$(touch x)", "heart 1; rm", "HEART", "a" * 70, "7 of 12 patients"):
        made.ring(APPROVAL, run, "no digest")
    made.ring("something else", "heart-1", DIGEST)
    until(lambda: there.bodies != [])
    made.close()
    (each,) = json.loads(there.bodies[0])["waiting"]
    assert set(each) == {"what", "text", "since"}


def test_a_redirect_is_not_followed_and_an_answer_that_is_no_success_is_none(
    listening: Callable[..., Listening],
) -> None:
    elsewhere = listening()
    for status in (301, 302, 307, 308):
        moved = listening(status, elsewhere.url)
        assert not tell(NotifySettings(url=moved.url), b"{}\n")
        assert moved.bodies == [b"{}\n"]
    assert elsewhere.bodies == []
    assert not tell(NotifySettings(url=listening(500).url), b"{}\n")
    assert tell(NotifySettings(url=listening(204).url), b"{}\n")


def test_no_proxy_of_the_environment_is_asked(
    listening: Callable[..., Listening], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, there = listening(), listening()
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)
    assert tell(NotifySettings(url=there.url), b"{}\n")
    assert (proxy.bodies, there.bodies) == ([], [b"{}\n"])


def test_a_server_whose_certificate_nobody_vouches_for_gets_nothing(
    listening: Callable[..., Listening], tmp_path: Path
) -> None:
    from parley.node.authority import ThrowAwayAuthority

    folder = ThrowAwayAuthority("cardio").install(tmp_path / "identity", NORTH)
    there = listening()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder.current / "node.crt", folder.current / "node.key")
    there.server.socket = context.wrap_socket(there.server.socket, server_side=True)
    assert not tell(NotifySettings(url=there.url.replace("http:", "https:")), b"{}\n")
    assert there.bodies == []


@pytest.mark.slow
def test_an_answer_that_never_ends_and_a_program_that_never_ends_are_ended(
    listening: Callable[..., Listening], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bell, "LIMIT_SECONDS", 2.0)
    there = listening(drip=True)
    assert not tell(NotifySettings(url=there.url), b"{}\n")
    hangs = program(
        tmp_path,
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'pids')!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)\n",
    )
    assert not tell(NotifySettings(command=(str(hangs),)), b"{}\n")
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    until(lambda: not any(alive(pid) for pid in pids))


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_command_is_started_as_it_stands_without_a_shell_and_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSPHRASE", "word")
    made = program(
        tmp_path,
        "import json, os, sys\n"
        "said = {'words': sys.argv[1:], 'given': sys.stdin.read()}\n"
        "said |= {'environment': dict(os.environ), 'at': os.getcwd()}\n"
        f"open({str(tmp_path / 'told')!r}, 'w').write(json.dumps(said))\n",
    )
    words = ("$(touch x)", "; touch y", "`id`", "*")
    body = message(NAME, [{"what": APPROVAL, "text": bell.SENTENCES[APPROVAL], "run": "heart-1"}])
    assert tell(NotifySettings(command=(str(made), *words)), body)
    told = json.loads((tmp_path / "told").read_text())
    assert told["words"] == list(words)
    assert told["given"].encode() == body
    assert told["environment"]["PATH"] == bell.PATH
    assert "PASSPHRASE" not in told["environment"]
    assert set(environment(os.environ)) <= {"PATH", *bell.PASSED_ON} | {
        name for name in os.environ if name[:3] == "LC_"
    }
    assert told["at"] == "/"
    assert not tell(NotifySettings(command=("/nowhere/tell",)), body)
    assert not tell(NotifySettings(command=("/bin/false",)), body)


def test_a_flood_is_one_message_and_whoever_rings_does_not_wait(
    listening: Callable[..., Listening], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bell, "TOGETHER_SECONDS", 0.5)
    there = listening(drip=True)  # the first message hangs: meanwhile things go on
    made = Bell(NotifySettings(url=there.url), NAME, tmp_path)
    for number in range(5000):
        made.ring(APPROVAL, f"run-{number}", f"{number:064x}")
    assert len(made._waiting) <= MOST_TOLD
    assert len(made._told) <= bell.MOST_REMEMBERED
    until(lambda: there.bodies != [])
    body = json.loads(there.bodies[0])
    assert len(body["waiting"]) == MOST_TOLD
    assert body["more"] >= 1
    assert f"and {body['more']} more" in body["text"]
    made.ring(APPROVAL, "another", DIGEST)
    assert made._seconds_left() > 20.0, "the next message waits for its pause"
    made.close()
    assert len(there.bodies) == 1
    again = Bell(NotifySettings(url=there.url), NAME, tmp_path)
    assert again._seconds_left() > 20.0, "and so it does in the next process"
    again.close()


def test_the_pause_grows_while_things_keep_coming_and_begins_anew_after_quiet(tmp_path: Path) -> None:
    made = Bell(NotifySettings(command=("/bin/cat",)), NAME, tmp_path)
    assert made._seconds_left() == 0.0
    pauses = []
    for _ in range(9):
        made._tell_or_give_up(b"{}\n")
        pauses.append(made._pause)
    assert pauses[0] == 60.0
    assert pauses[-1] == bell.LONGEST_PAUSE_SECONDS
    assert 3000.0 < made._seconds_left() <= bell.LONGEST_PAUSE_SECONDS
    long_ago = time.time() - 2 * bell.LONGEST_PAUSE_SECONDS
    os.utime(tmp_path / NOTIFIED, (long_ago, long_ago))
    assert made._seconds_left() == 0.0
    assert made._pause == bell.FIRST_PAUSE_SECONDS
    made.close()


def test_what_a_person_has_seen_to_is_told_again_when_it_waits_again(tmp_path: Path, at_once: None) -> None:
    made = Bell(NotifySettings(command=("/bin/cat",)), NAME, tmp_path)
    made.ring(STALLED, "heart-1", DIGEST)
    until(lambda: not made._waiting)
    made.ring(STALLED, "heart-1", DIGEST)
    assert not made._waiting
    made.over(STALLED, "heart-1", DIGEST)
    made.ring(STALLED, "heart-1", DIGEST)
    assert made._waiting
    made.close()


@pytest.mark.usefixtures("verified_in_process")
def test_a_party_whose_policy_does_not_admit_a_run_tells_its_operator(
    stage: Stage, listening: Callable[..., Listening], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: None
) -> None:
    there = listening()
    (stage.node / "policy.toml").unlink()
    made = Bell(NotifySettings(url=there.url), NAME, tmp_path)
    monkeypatch.setattr(bell, "_bell", made)
    made_run = manifest(**EVERYONE)
    stage.offer(made_run)
    with Running(stage):
        until(lambda: there.bodies != [])
    made.close()
    (each,) = json.loads(there.bodies[0])["waiting"]
    assert (each["what"], each["run"], each["digest"]) == (APPROVAL, made_run.run, made_run.digest.hex())
    assert "policy" not in there.bodies[0].decode()


@pytest.mark.slow
def test_the_doctor_and_the_command_that_tries_it(
    party: Path, listening: Callable[..., Listening], tmp_path: Path
) -> None:
    there, toml = listening(), party / "node.toml"
    plain = toml.read_text()
    done = parley("node", "notify", str(party))
    assert (done.returncode, "has no [notify]" in done.stderr) == (2, True)
    toml.write_text(f'{plain}\n[notify]\nurl = "{there.url}"\n')
    assert by_check(examine(party))["notify"].state == UNKNOWN
    assert there.bodies == []
    done = parley("node", "notify", str(party), "--json")
    assert answer(done) == {"told": True}
    assert "nothing waits" in there.bodies[0].decode()
    assert "8d1c" not in done.stdout + done.stderr
    there.status = 404
    assert parley("node", "notify", str(party)).returncode == 1
    made = program(tmp_path, "")
    toml.write_text(f'{plain}\n[notify]\ncommand = ["{made}"]\n')
    assert by_check(examine(party))["notify"].state == OK
    made.chmod(0o722)
    assert by_check(examine(party))["notify"].fix == f"`chmod go-w {made}`"
    made.chmod(0o600)
    assert by_check(examine(party))["notify"].state == FAILED
