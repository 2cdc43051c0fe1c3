"""The pages, over a folder that a real party has filled: what they say, and that only what was shown is decided on."""

import re
from contextlib import closing
from pathlib import Path

import pytest

from parley.federation.admission import AdmissionRecord
from parley.federation.manifest import Manifest
from parley.node.trail import events_in
from parley.page.folder import Folder
from parley.page.process import page_node
from parley.party.outbox import REFUSED, Outbox
from parley.report.check import verified
from tests.support.party_pages import STRICT, Visitor, asked, finished, states, waiting
from tests.support.party_process import Running, charged
from tests.support.stage import Stage, State
from tests.support.until import until


def admitted(stage: Stage) -> dict[str, str]:
    path = stage.node / "state" / "admissions.sqlite"
    if not path.exists():
        return {}
    with closing(AdmissionRecord(path, read_only=True)) as record:
        return {each.manifest.run: each.approved_by for each, _ in record.all()}


def trail(stage: Stage) -> list[tuple[str, str]]:
    events = events_in(stage.node / "state" / "trail.jsonl")
    return [(each.event, each.fields.get("approved_by", "")) for each in events]


def approving(visitor: Visitor, made: Manifest, page: str) -> dict[str, str]:
    return visitor.form(page, "approve", typed=made.digest.hex()[:8])


def test_a_person_reads_all_of_it_approves_by_name_and_the_node_goes_on(stage: Stage, visitor: Visitor) -> None:
    finished(stage)
    made = waiting(stage)
    home = visitor.client.get("/").text
    assert home.index("waits for you") < home.index("heart-1"), "what waits for a person comes first"
    page = visitor.page(made)
    for words in (
        "Which patients need a catheter examination", "Art. 9(2)(j) GDPR", "EK 2026-114", "2999-12-31",
        "The model is kept for ten years", "University Hospital", "St. Anna Hospital", "privacy@anna.example",
        "North Trust", "South Foundation", "logistic of 3 parameters", "age: a number cut to [20, 90]",
        "if a server lies", "The policy holds one thing against it", "model.kind", "With this run", "21.8 kB",
        "one half of each masked answer", "0 of 40 rounds", made.digest.hex()[:4],
    ):  # fmt: skip
        assert words in page, words
    assert visitor.send(made, "approve", approving(visitor, made, page)).status_code == 303
    assert admitted(stage) == {"heart-1": "policy", "heart-2": "Dr. Ada Osei"}
    assert ("run.approved", "Dr. Ada Osei") in trail(stage)
    page = visitor.page(made, "Admitted here")
    assert "Over what the policy held against it" in page
    assert 'id="approve"' not in page
    with Running(stage):
        until(lambda: states(stage)["heart-2"] == "joined")
        assert "The node is running" in visitor.client.get("/").text


def test_what_has_changed_since_is_shown_again_and_nothing_is_approved(stage: Stage, visitor: Visitor) -> None:
    made = waiting(stage)
    page = visitor.page(made)
    policy = stage.node / "policy.toml"
    policy.write_text(STRICT.replace('["ddp-srm"]', '["auto"]'))
    answer = visitor.send(made, "approve", approving(visitor, made, page))
    assert answer.status_code == 409
    assert "Something has changed since this page was shown" in answer.text
    assert "algorithm.name" in answer.text
    assert admitted(stage) == {}
    again = visitor.form(answer.text, "approve", typed=made.digest.hex()[:8])
    assert visitor.send(made, "approve", again).status_code == 303
    assert admitted(stage) == {"heart-2": "Dr. Ada Osei"}


def test_the_old_form_of_a_second_tab_decides_nothing(stage: Stage, visitor: Visitor) -> None:
    made = waiting(stage)
    page = visitor.page(made)
    first, second = approving(visitor, made, page), visitor.form(page, "refuse", reason="not for us")
    assert visitor.send(made, "approve", first).status_code == 303
    assert visitor.send(made, "refuse", second).status_code == 409
    assert visitor.send(made, "approve", first).status_code == 409
    assert "review.refused" not in dict(trail(stage))


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"by": ""}, 422, "Give your name"),
        ({"by": "Dr.\nOsei"}, 422, "Give your name"),
        ({"by": "x" * 81}, 422, "Give your name"),
        ({"typed": "00000000"}, 422, "type the first 8 characters"),
        ({"typed": ""}, 422, "type the first 8 characters"),
        ({"shown": ""}, 409, "Something has changed"),
        ({"shown": "0" * 64}, 409, "Something has changed"),
        ({"csrf": "x"}, 403, "too old, or of another site"),
        ({"csrf": ""}, 403, "too old, or of another site"),
    ],
)
def test_without_a_name_the_digest_or_the_sessions_word_nothing_is_approved(
    stage: Stage, visitor: Visitor, change: dict[str, str], status: int, words: str
) -> None:
    made = waiting(stage)
    answer = visitor.send(made, "approve", {**approving(visitor, made, visitor.page(made)), **change})
    assert answer.status_code == status
    assert words in answer.text
    assert admitted(stage) == {}


def test_a_form_of_another_site_or_of_nobody_who_is_signed_in_changes_nothing(stage: Stage, visitor: Visitor) -> None:
    made = waiting(stage)
    fields = approving(visitor, made, visitor.page(made))
    path = f"/runs/{made.digest.hex()}/approve"
    for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}):
        assert visitor.client.post(path, data=fields, headers=headers).status_code == 403
    assert visitor.client.post(path, data=fields, headers={"host": "evil.example:7490"}).status_code == 421
    assert visitor.client.get("/", headers={"host": "evil.example:7490"}).status_code == 421
    visitor.client.cookies.clear()
    for what in ("approve", "refuse", "withdraw", "own", "report"):
        assert visitor.client.post(f"/runs/{made.digest.hex()}/{what}", data=fields).headers["location"] == "/login"
    assert visitor.client.get("/").headers["location"] == "/login"
    assert visitor.client.get(f"/runs/{made.digest.hex()}").headers["location"] == "/login"
    assert admitted(stage) == {}


def test_a_refusal_is_for_good_and_its_reason_stays_here(stage: Stage, visitor: Visitor) -> None:
    made = waiting(stage)
    secret = "Our ethics board said no to Professor Quill"
    fields = visitor.form(visitor.page(made), "refuse", reason=secret)
    assert visitor.send(made, "refuse", {**fields, "reason": ""}).status_code == 422
    assert visitor.send(made, "refuse", fields).status_code == 303
    page = visitor.page(made, "Refused by this institution")
    assert secret in page
    assert "Dr. Ada Osei" in page
    assert 'id="approve"' not in page
    assert 'id="refuse"' not in page
    assert "waits for you" not in visitor.client.get("/").text, "though the node has not seen it yet"
    with Running(stage):
        until(lambda: states(stage)["heart-2"] == "refused")
    (told,) = {each.reason for each in stage.coordinator.joins if not each.accepted}
    assert "Quill" not in told
    assert secret not in (stage.node / "state" / "trail.jsonl").read_text()
    assert ("review.refused", "Dr. Ada Osei") in trail(stage)


def test_withdrawing_says_what_it_does_not_undo_and_is_for_good(stage: Stage, visitor: Visitor) -> None:
    made = asked()
    stage.offer(made)
    with Running(stage):
        charged(stage, made)
        page = visitor.page(made, "Withdraw")
        assert "It cannot be taken out" in page
        assert "stays charged" in page
        fields = visitor.form(page, "withdraw", typed="heart-2")
        assert visitor.send(made, "withdraw", {**fields, "typed": "heart"}).status_code == 422
        assert visitor.send(made, "withdraw", fields).status_code == 303
        stage.coordinator.say(State(state=State.STATE_WAIT))  # an answer, so that the node looks again
        until(lambda: states(stage)["heart-2"] == "left", "that the running node has seen it")
    assert ("run.withdrawn", "Dr. Ada Osei") in trail(stage)
    assert 'id="withdraw"' not in visitor.page(made, "withdrawn since")


def test_the_budget_says_when_who_and_how_each_run_ended(stage: Stage, visitor: Visitor) -> None:
    finished(stage)
    page = visitor.client.get("/").text
    assert re.search(r"<th scope=\"row\">heart-1</th><td><time datetime=\"20\d\d-", page)
    assert "by policy, 20" in page
    assert ">settled<" in page
    assert "1 of 40" in page
    assert '<svg class="stack" role="img" aria-label="ε: 1.2 of 4 spent by 1 run"' in page


def test_reading_the_pages_changes_nothing_in_the_folder(stage: Stage, visitor: Visitor) -> None:
    finished(stage)
    made = waiting(stage)

    def everything() -> dict[str, bytes]:
        held = (path for path in stage.node.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in held if path.suffix not in (".sqlite-shm", ".sqlite-wal")}

    visitor.page(made)
    before = everything()
    visitor.page(made)
    visitor.client.get("/")
    visitor.page(asked(run="heart-1"))
    after = everything()
    assert {name for name in after if before.get(name) != after[name] and not name.endswith(("-shm", "-wal"))} == set()


STORES = (
    "outbox.sqlite", "admissions.sqlite", "ledger.sqlite", "ledger.sqlite.head", "trail.jsonl", "review.sqlite",
    "seal.json", "evidence",
)  # fmt: skip


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("how", ["cut", "rubbish", "gone"])
def test_a_damaged_store_is_a_line_on_the_page_and_nothing_is_approved_on_it(folder: Path, name: str, how: str) -> None:
    made, path = asked(), folder / "state" / name
    if name == "evidence":
        path.mkdir(exist_ok=True)
        path /= f"{'3f' * 32}.json"
    data = path.read_bytes() if path.exists() else b"{}" * 999
    for beside in path.parent.glob(f"{path.name}-*"):
        beside.unlink()
    path.unlink(missing_ok=True)
    if how != "gone":
        path.write_bytes({"cut": data[: len(data) // 2 - 1], "rubbish": b"\x00rubbish\n" * 200}[how])
    with Visitor(folder) as visitor:
        home, run = visitor.client.get("/"), visitor.client.get(f"/runs/{made.digest.hex()}")
        assert home.status_code == 200
        assert run.status_code in (200, 404)
        page = visitor.page(made) if run.status_code == 200 else ""
        harmless = name == "seal.json" or (name, how) == ("trail.jsonl", "cut")  # which a crash does, too
        if how != "gone" and not harmless:
            assert 'role="alert"' in home.text or "cannot be" in page
            assert 'id="approve"' not in page
        elif 'id="approve"' in page:  # of a ledger that is gone the function behind the button knows
            answer = visitor.send(made, "approve", approving(visitor, made, page))
            assert answer.status_code == (422 if name.startswith("ledger") else 303), answer.text


def test_a_defect_is_a_page_and_its_message_is_in_no_log(
    stage: Stage, visitor: Visitor, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(*arguments: object) -> None:
        raise ValueError("patient Winter, 83")

    monkeypatch.setattr("parley.page.home.node_view", fails)
    answer = visitor.client.get("/")
    assert answer.status_code == 500
    said = answer.text + "".join(capfd.readouterr())
    assert "ValueError" in said
    assert "Winter" not in said


@pytest.mark.parametrize("form", ["html", "json", "pdf"])
def test_a_signed_report_is_taken_away_and_verifies(stage: Stage, visitor: Visitor, form: str) -> None:
    finished(stage)
    page = visitor.client.get("/").text
    digest = re.search(r'/runs/([0-9a-f]{64})">heart-1<', page)
    assert digest is not None
    csrf = page.split('name="csrf" value="')[1].split('"')[0]
    answer = visitor.client.post(f"/runs/{digest[1]}/report", data={"csrf": csrf, "form": form})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"].startswith("attachment; filename*=UTF-8''heart-1.report.")
    assert "signed words of the aggregators hold" in verified(answer.content).what[2]
    assert trail(stage)[-1][0] == "report.signed"
    assert visitor.client.post(f"/runs/{digest[1]}/report", data={"csrf": csrf, "form": "exe"}).status_code == 422


def test_what_is_not_there_is_said_kindly(visitor: Visitor) -> None:
    assert "No run was proposed yet" in visitor.client.get("/").text
    for path in ("/runs/" + "0" * 64, "/runs/heart-1", "/nothing"):
        assert visitor.client.get(path).status_code == 404


def test_every_answer_has_a_strict_policy_and_nothing_from_elsewhere(stage: Stage, visitor: Visitor) -> None:
    made = waiting(stage)
    for path in ("/", f"/runs/{made.digest.hex()}", "/nothing", "/static/parley.css"):
        answer = visitor.client.get(path)
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        if not path.startswith("/static"):
            assert "http://" not in answer.text
            assert "https://" not in answer.text
            assert " style=" not in answer.text
            assert answer.headers["cache-control"] == "no-store"


def test_words_of_a_stranger_are_escaped(stage: Stage, visitor: Visitor) -> None:
    made = waiting(
        stage, asked(**{"legal.purpose": "<script>alert(1)</script>", "coordinator.contact": '"><img src=x>'})
    )
    page = visitor.page(made) + visitor.client.get("/").text
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_report_is_of_the_manifest_whose_page_it_is(folder: Path) -> None:
    one, two = asked(), asked(**{"legal.purpose": "another purpose"})
    with closing(Outbox(Folder(page_node(folder)).settings.outbox)) as outbox:
        outbox.note(two.digest, two.run, two.canonical, REFUSED, "another under its name")
    with Visitor(folder) as visitor:
        for made in (one, two):
            fields = visitor.form(visitor.page(made), "report", form="json")
            assert made.digest.hex() in visitor.send(made, "report", fields).text


def test_the_whole_manifest_is_a_file_for_who_is_signed_in(folder: Path) -> None:
    made = asked()
    with Visitor(folder) as visitor:
        assert f'href="/runs/{made.digest.hex()}/manifest"' in visitor.page(made)
        answer = visitor.client.get(f"/runs/{made.digest.hex()}/manifest")
        assert answer.content == made.canonical
        assert answer.headers["content-disposition"].startswith("attachment")
        visitor.client.cookies.clear()
        assert visitor.client.get(f"/runs/{made.digest.hex()}/manifest").headers["location"] == "/login"
