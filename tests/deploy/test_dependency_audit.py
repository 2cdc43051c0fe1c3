"""`make audit` against registries on loopback: one that answers, one that never does, one that is not there."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_server
from typing import Any

import pytest
from tests.support.until import GIVE_UP_SECONDS

from parley.demo.local import ReservedPort
from tools.audit import findings, judge

WEAK = {
    "id": "PYSEC-2026-1", "modified": "2026-01-01T00:00:00Z", "published": "2026-01-01T00:00:00Z",
    "summary": "a hole", "details": "a hole",
    "affected": [
        {
            "package": {"name": "weak", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.1"}]}],
        }
    ],
}  # fmt: skip


@contextmanager
def registry(answers: dict[str, Any]) -> Iterator[str]:
    """By the protocol of osv.dev: a package's name in the question, its vulnerabilities in the answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(answers.get(asked["package"]["name"], {})).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1/query"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def asking(tmp_path: Path) -> Callable[[str], list[str]]:
    """What pip-audit is given to ask this registry about two packages."""
    (tmp_path / "pinned.txt").write_text("weak==1.0\nsound==1.0\n")
    packages = ["--requirement", str(tmp_path / "pinned.txt")]
    return lambda url: ["--no-deps", "--disable-pip", "--vulnerability-service", "osv", "--osv-url", url, *packages]


def test_a_known_vulnerability_fails_and_says_what_to_install(asking: Callable[[str], list[str]]) -> None:
    with registry({"weak": {"vulns": [WEAK]}}) as url:
        code, text = judge(GIVE_UP_SECONDS, asking(url))
    assert (code, text) == (1, "known vulnerabilities:\n  weak 1.0: PYSEC-2026-1: install 1.1")


def test_what_the_registry_finds_sound_passes(asking: Callable[[str], list[str]]) -> None:
    with registry({}) as url:
        assert judge(GIVE_UP_SECONDS, asking(url)) == (0, "no known vulnerabilities in 2 packages")


def test_a_registry_that_is_not_there_is_said_and_fails_nothing(asking: Callable[[str], list[str]]) -> None:
    with closing(ReservedPort()) as nobody:
        assert judge(GIVE_UP_SECONDS, asking(f"http://{nobody}/")) == (
            0,
            "audit skipped: the registry cannot be reached from here",
        )


@pytest.mark.slow
def test_a_registry_that_never_answers_is_not_waited_for(asking: Callable[[str], list[str]]) -> None:
    with create_server(("127.0.0.1", 0)) as mute:
        code, text = judge(3, asking(f"http://127.0.0.1:{mute.getsockname()[1]}/"))
    assert (code, text) == (0, "audit skipped: the registry did not answer within 3 s")


def test_another_failure_of_the_tool_is_a_failure(asking: Callable[[str], list[str]]) -> None:
    code, text = judge(GIVE_UP_SECONDS, ["--no-such-option", *asking("http://127.0.0.1:1/")])
    assert code == 1
    assert "--no-such-option" in text


def test_a_package_that_nobody_looked_at_is_not_called_clean() -> None:
    skipped = {"name": "unknown", "skip_reason": "not found"}
    own = {"name": "parley-federation", "skip_reason": "editable"}
    found = findings(json.dumps({"dependencies": [skipped, own, {"name": "sound", "version": "1", "vulns": []}]}))
    assert (found.unknown, found.clean, found.vulnerable) == (["unknown"], ["sound"], [])
