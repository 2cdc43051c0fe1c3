"""A finished run's model and card can be taken away, by who is signed in, and only as the run wrote them."""

from pathlib import Path

import numpy as np
import pytest

from parley.coordinator.result import write_model
from parley.dashboard.downloads import download
from parley.study.model_file import load
from tests.support.browser import Browser, Make
from tests.support.documents import manifest, meaning
from tests.support.folders import write_finished_model

TAKEN = ("/runs/heart-1/model.npz", "/runs/heart-1/card.html")


def with_model(made: Browser) -> Path:
    return write_finished_model(made.state, made.document)


def test_what_is_taken_is_the_file_and_its_card(browser: Make, tmp_path: Path) -> None:
    made = browser(10).login()
    path = with_model(made)
    answer = made.client.get(TAKEN[0])
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/octet-stream")
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''heart-1.npz"
    (tmp_path / "taken.npz").write_bytes(answer.content)
    assert np.array_equal(load(tmp_path / "taken.npz").theta, load(path).theta)
    page = made.client.get(TAKEN[1])
    assert page.headers["content-disposition"] == "attachment; filename*=UTF-8''heart-1.card.html"
    assert page.text == load(path).card_page().html()
    for each in (answer, page):  # as every page of this door
        assert each.headers["content-security-policy"].startswith("default-src 'none'")
        assert (each.headers["cache-control"], each.headers["x-content-type-options"]) == ("no-store", "nosniff")


def test_nobody_takes_it_without_signing_in(browser: Make) -> None:
    made = browser(10)
    with_model(made)
    for path in TAKEN:
        answer = made.client.get(path)
        assert answer.status_code != 200
        assert b"heart-1" not in answer.content


def test_a_page_offers_what_there_is(browser: Make) -> None:
    made = browser(10).login()
    assert not any(path in made.client.get("/runs/heart-1").text for path in TAKEN)
    assert [made.client.get(path).status_code for path in TAKEN] == [404, 404]
    with_model(made)
    assert all(f'href="{path}" download' in made.client.get("/runs/heart-1").text for path in TAKEN)
    assert made.client.get("/runs/heart-2/model.npz").status_code == 404


def test_a_file_that_was_altered_or_is_another_runs_does_not_leave(browser: Make) -> None:
    made = browser(10).login()
    path = with_model(made)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"accuracy":0.75', b'"accuracy":0.95'))
    assert path.read_bytes() != whole
    for each in TAKEN:
        answer = made.client.get(each)
        assert answer.status_code == 409
        assert "cannot be handed out" in answer.text
    other = manifest(run="heart-2")
    write_model(path, np.zeros(other.model.dimension), other, meaning(run="heart-2"))
    assert "another run&#39;s model" in made.client.get(TAKEN[0]).text


def test_only_these_two_are_handed_out(browser: Make) -> None:
    made = browser(10).login()
    with_model(made)
    wiring = made.app.state.wiring
    row = wiring.store.runs()[0]
    assert download(wiring.models, row, "card.json") is None
    assert download(wiring.models, row, "../runs.sqlite") is None
    assert made.client.get("/runs/..%2fheart-1/model.npz").status_code == 404


@pytest.mark.parametrize("path", TAKEN)
def test_a_form_cannot_ask_for_it(browser: Make, path: str) -> None:
    made = browser(10).login()
    with_model(made)
    assert made.client.post(path, data={"csrf": made.csrf()}).status_code == 405
