"""The page about privacy: everything that the guarantee rests on."""

import json
from pathlib import Path

from parley.dashboard.costs import books
from parley.privacy.ledger import Ledger
from tests.support.browser import Make
from tests.support.folders import CLAIM, coordinator_folder
from tests.support.pages import wait_for


def test_the_privacy_page_states_everything_that_the_guarantee_rests_on(browser: Make) -> None:
    made = browser(10).login()
    page = wait_for(made, "/runs/heart-1/privacy", "Ledger head</dt><dd><code>")
    document = made.document
    plain = page.replace("<wbr>", "")
    for text in (
        str(CLAIM["statement"]), "ε = 1.78", "δ = 1e−5", "replace-one", "without replacement", "row", "0.00012",
        "3.1e−8", "Only the two aggregators together could break it", "North Trust", "South Foundation",
        "University Hospital",
        "epsilon 8.4 at delta 1e-05 if a server lies", "holds against an aggregator that follows the protocol",
        "each server adds 0.5 times as much of its own", "<th scope=\"col\">If a server lies</th>",
        "hospital-b", document.digest.hex(), document.mechanism.digest, "ε 2.28", "pilot",
    ):  # fmt: skip
        assert text in plain, text
    trail = json.loads((made.state / "trail.jsonl").read_text().splitlines()[-1])
    assert f"{trail['sequence']}:{trail['hash']}" in plain
    ledger = Ledger.open(made.state / "ledger.sqlite")
    assert str(ledger.verify()) in plain
    ledger.close()


def test_the_books_say_what_was_charged_because_a_server_was_caught(tmp_path: Path) -> None:
    state, document = coordinator_folder(tmp_path, 3)
    ledger = Ledger.open(state / "ledger.sqlite")
    ledger.charge_for_cheating([document.run], "3f" * 32)
    ledger.close()
    (budget,) = books(state / "ledger.sqlite", state / "trail.jsonl")["ledger"]["populations"]
    said = {run["run"]: run["lying"] for run in budget["runs"]}
    assert "caught" not in said["pilot"]
    assert said[document.run].endswith("; a server was caught, and this is charged")
    assert budget["lying"].endswith("; a server was caught, and this is charged")
