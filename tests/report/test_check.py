"""A report holds, or it is refused: by anybody, without a node."""

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley.node.endings import sign_end
from parley.node.pins import key_text
from parley.privacy.canonical import canonical_json
from parley.report.check import FORMS, verified
from parley.report.content import fingerprint
from parley.report.errors import ReportError, TamperedError
from parley.report.page import page
from parley.report.signed import Report, sign
from parley.v1 import common_pb2
from tests.support.reports import authority, content, facts, identity, report
from tests.support.stage import NORTH, SOUTH


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    if request.param == "pdf":
        pytest.importorskip("fpdf")
    return str(request.param)


def test_what_a_node_signed_holds_and_says_what_was_checked(tmp_path: Path, form: str) -> None:
    made = report(tmp_path)
    found = verified(FORMS[form](made))
    assert (found.form, found.report.content) == (form, json.loads(canonical_json(made.content)))
    assert found.what == (
        f"the content is signed by {fingerprint(identity().pin)}",
        f"the {form.upper()} is equal, byte for byte, to what is drawn from the signed content",
        "2 signed words of the aggregators hold by the keys that the node had pinned",
    )


@pytest.mark.slow
def test_one_byte_that_is_changed_added_or_taken_away_is_refused_wherever_it_is(tmp_path: Path, form: str) -> None:
    """Of a PDF every 997th, of the others every 61st: each is verified as a whole."""
    data = FORMS[form](report(tmp_path))
    step = 4001 if form == "pdf" else 61
    for place in [*range(0, len(data), step), len(data) - 1]:
        changed = bytes([data[place] ^ 1])
        for other in (
            data[:place] + changed + data[place + 1 :],
            data[:place] + b" " + data[place:],
            data[:place] + data[place + 1 :],
        ):
            with pytest.raises(ReportError):
                verified(other)
    with pytest.raises(ReportError):
        verified(data + b"\n")


ALTERED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "epsilon": lambda body: body["guarantee"].update(epsilon=0.1),
    "a sentence": lambda body: body["guarantee"]["plainly"].reverse(),
    "a point that is not promised": lambda body: body["not_promised"].pop(),
    "a run": lambda body: body["budgets"][0]["runs"].pop(),
    "bytes": lambda body: body["left"][0].update(bytes=1),
    "a date": lambda body: body.update(made="2026-11-21T00:00:00+00:00"),
    "more": lambda body: body.update(more=1),
}


@pytest.mark.parametrize("what", ALTERED)
def test_whoever_alters_the_content_and_draws_it_again_has_not_signed_it(tmp_path: Path, form: str, what: str) -> None:
    made = report(tmp_path)
    body = copy.deepcopy(dict(made.content))
    ALTERED[what](body)
    with pytest.raises(TamperedError, match="the signature is not of this content"):
        verified(FORMS[form](Report(body, made.key, made.signature)))


def test_a_page_that_shows_something_else_than_it_holds_is_refused(tmp_path: Path) -> None:
    data = page(report(tmp_path)).encode()
    assert data.count(b"2.22") == 1
    with pytest.raises(TamperedError, match="the HTML is not what is drawn from the content that was signed"):
        verified(data.replace(b"2.22", b"3.99"))
    for more in (b"<script>alert(1)</script>", b"<p>And nothing else.</p>", b"<!-- -->"):
        with pytest.raises(TamperedError, match="the HTML is not"):
            verified(data.replace(b"</main>", more + b"</main>"))


def test_a_pdf_whose_pages_are_others_is_refused_and_says_what_may_be_the_cause(tmp_path: Path) -> None:
    pytest.importorskip("fpdf")
    data = FORMS["pdf"](report(tmp_path))
    with pytest.raises(TamperedError, match=r"altered, or drawn by other versions than these \(fpdf2 "):
        verified(data.replace(b" Td (", b"1 Td (", 1))


def test_somebody_elses_signature_over_this_nodes_name_is_not_this_nodes(tmp_path: Path) -> None:
    """The content names its key: another one cannot take it over as it is."""
    with pytest.raises(TamperedError, match="names another key"):
        verified(sign(authority().issue_as(NORTH), content(tmp_path)).text.encode())


def test_words_of_the_servers_are_checked_whatever_the_node_has_signed(tmp_path: Path) -> None:
    found = facts()
    other = sign_end(authority().issue_as(SOUTH), found.manifest.digest, 39)
    lies: dict[str, Callable[[dict[str, Any]], Any]] = {
        "another count": lambda end: end.update(openings=39),
        "another's key": lambda end: end.update(key=key_text(authority().issue_as(SOUTH).pin)),
        "another's word": lambda end: end.update(signature=other.signature.hex(), openings=39),
    }
    for what, lie in lies.items():
        body = content(tmp_path)
        lie(body["servers"]["ends"][0])
        with pytest.raises(TamperedError, match="that the aggregator did not sign"):
            verified(sign(identity(), body).text.encode())
        assert what


def test_a_word_by_a_key_that_is_not_pinned_is_counted_and_not_shown(tmp_path: Path) -> None:
    found = facts()
    by_another_key = sign_end(identity(), found.manifest.digest, 40)
    by_another_key.aggregator = NORTH.uri
    of_another_run = sign_end(authority().issue_as(NORTH), bytes(32), 40)
    by_no_server = sign_end(identity(), found.manifest.digest, 40)
    by_nobody = common_pb2.SignedEnd(aggregator="nobody", manifest_digest=found.manifest.digest)
    wrong = (by_another_key, of_another_run, by_no_server, by_nobody)
    garbage = (common_pb2.SignedWord(body=b"\xff" * 9), common_pb2.SignedWord())
    body = content(tmp_path, facts(ends=(*wrong, found.ends[1]), statements=garbage))
    assert [each["aggregator"] for each in body["servers"]["ends"]] == [SOUTH.uri]
    assert body["servers"]["statements"] == []
    assert body["servers"]["not_by_a_pinned_key"] == 6
    assert verified(sign(identity(), body).text.encode())


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", b"[]", b"null", b"\x00" * 100, b"<!doctype html>", b"%PDF-1.4", b"[" * 100_000, b'{"a":' * 50_000,
        b'{"format": "parley report 1"}', b'{"format": "parley report 2", "content": {}, "key": "", "signature": ""}',
        b"9" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_report_is_an_error_and_no_verdict(data: bytes) -> None:
    with pytest.raises(ReportError) as caught:
        verified(data)
    assert not isinstance(caught.value, TamperedError)


@pytest.mark.slow
def test_a_content_that_anybody_signed_is_no_reason_to_fail_otherwise(tmp_path: Path) -> None:
    """Whatever stands in any of its places: refused, or drawn, and never anything else."""
    good = content(tmp_path)
    key = {"key_fingerprint": fingerprint(identity().pin), "pin": key_text(identity().pin)}
    values: list[Any] = [
        None,
        0,
        -1,
        1e308,
        True,
        "",
        "<b>&\"'",
        "x" * 5000,
        [],
        {},
        [None] * 50,
        10**400,
        ["a"],
        {"a": {}},
    ]
    drawn = 0
    for way in list(ways(good)):
        for value in values:
            body = put(copy.deepcopy(good), way, value)
            if isinstance(body.get("node"), dict):
                body["node"] |= key
            try:
                found = verified(sign(identity(), body).text.encode())
                html = page(found.report)
            except ReportError:
                continue
            drawn += 1
            assert "<b>" not in html
            assert len(html) < 500_000
    assert drawn > 100


def ways(value: Any, before: tuple[Any, ...] = ()) -> Any:
    """To everything in it."""
    if before:
        yield before
    if isinstance(value, dict):
        for name, each in value.items():
            yield from ways(each, (*before, name))
    elif isinstance(value, list) and value:
        yield from ways(value[0], (*before, 0))


def put(body: dict[str, Any], way: tuple[Any, ...], value: Any) -> dict[str, Any]:
    place: Any = body
    for step in way[:-1]:
        place = place[step]
    place[way[-1]] = value
    return body


def test_another_layout_is_not_called_altered(tmp_path: Path) -> None:
    body = content(tmp_path) | {"layout": 2}
    with pytest.raises(ReportError, match="has layout 2 and this version draws layout 1") as caught:
        verified(sign(identity(), body).text.encode())
    assert not isinstance(caught.value, TamperedError)


def test_anybody_can_check_it_with_the_file_alone(tmp_path: Path) -> None:
    """In another process, in a folder with nothing, and with no home."""
    file = tmp_path / "a.html"
    file.write_text(page(report(tmp_path / "node")))
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "none")}
    command = [sys.executable, "-I", "-m", "parley.cli.main", "report", "verify", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert fingerprint(identity().pin) in done.stdout
    assert done.stdout.startswith("good")
    program = (
        "import sys; from parley.report.check import verified; verified(open(sys.argv[1], 'rb').read());"
        "print(sorted({name.split('.')[1] for name in sys.modules if name.startswith('parley.')}),"
        "sorted({'scipy', 'fpdf', 'matplotlib', 'dp_accounting'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program, str(file)], capture_output=True, text=True, check=True)
    rooms = ["errors", "federation", "mpc", "node", "privacy", "report", "v1"]
    assert done.stdout == f"{rooms} []\n"
