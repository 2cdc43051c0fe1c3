"""Own figures, against figures computed by hand from the same records."""

import json
from pathlib import Path

import numpy as np
import pytest

from parley.learning.contributor import Query
from parley.learning.records import load
from parley.page.folder import Folder
from parley.page.own import _norms_of_units, own_figures
from parley.page.process import page_node
from parley.party.data import understand
from parley.party.newest import Newest
from tests.support.documents import manifest
from tests.support.party_pages import Visitor, first

POINT = np.array([2.0, -1.0, 0.5])


def noted(folder: Path, kind: str = "gradient", scale: float = 1.0) -> Folder:
    here = Folder(page_node(folder))
    Newest(here.settings.newest(first().digest)).note(Query(3, (POINT, POINT), kind, scale))
    return here


def rows(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Features between −1 and 1 with the intercept, as the encoded records have them, and targets."""
    held = load([folder / "records.csv"], understand(first()).schema)
    return held.rows.take(np.arange(300)).dense() * 2.0 ** -held.rows.take(np.arange(1)).bits, held.targets


def test_loss_and_clipped_fraction_are_those_of_all_own_records_at_the_newest_model(folder: Path) -> None:
    found = own_figures(noted(folder), first())
    x, y = rows(folder)
    scores = x @ POINT
    assert found["loss"] == pytest.approx(float((np.logaddexp(0, scores) - y * scores).mean()), rel=1e-6)
    norms = np.abs(1 / (1 + np.exp(-scores)) - y) * np.linalg.norm(x, axis=1)
    limit = first().mechanism.clip.terms(3).gradient_norm
    assert 0 < (norms > limit).mean() < 1
    assert found["clipped"] == pytest.approx(float((norms > limit).mean()), abs=0.004)
    assert found["loss_of"] == "round 4"
    assert own_figures(noted(folder, scale=4.0), first())["clipped"] > found["clipped"]


def test_of_a_question_that_is_no_gradient_no_clipped_fraction_is_said(folder: Path) -> None:
    found = own_figures(noted(folder, "losses"), first())
    assert "clipped" not in found
    assert "not for a gradient" in found["clipped_why"]


def test_before_the_first_round_there_are_the_columns_alone(folder: Path) -> None:
    found = own_figures(Folder(page_node(folder)), manifest(run="never"))
    assert found["clipped_why"] == "no round of this run was asked here yet"
    assert "loss" not in found


def test_columns_that_are_cut_are_counted(folder: Path) -> None:
    from parley.party.record_check import seal_node

    records = folder / "records.csv"
    lines = records.read_text().splitlines()
    lines[1] = "95.0," + lines[1].split(",", 1)[1]
    records.write_text("\n".join(lines) + "\n")
    refused = own_figures(Folder(page_node(folder)), first())
    assert "not sealed" in refused["refused"]
    seal_node(folder)
    assert own_figures(Folder(page_node(folder)), first())["cut"] == [["age", 1]]


def test_whoever_is_left_out_on_request_counts_in_none_of_it(folder: Path) -> None:
    from parley.party.exclusions import exclude

    here = noted(folder)
    before = own_figures(here, first())
    node = folder / "node.toml"
    node.write_text(node.read_text().replace("[data]\n", '[data]\nexcluded = "excluded.txt"\n'))
    here = Folder(page_node(folder))
    exclude(here.settings, [str(number) for number in range(1, 151)])
    found = own_figures(here, first())
    assert found["excluded"][0].startswith("150 of 150 in excluded.txt")
    x, y = rows(folder)
    scores = x[150:] @ POINT
    assert found["loss"] == pytest.approx(float((np.logaddexp(0, scores) - y[150:] * scores).mean()), rel=1e-6)
    assert found["loss"] != before["loss"]


def test_a_units_gradient_is_the_sum_of_its_records(folder: Path) -> None:
    from dataclasses import replace

    held = load([folder / "records.csv"], understand(first()).schema)
    model, members = understand(first()).model, np.arange(300).reshape(150, 2)
    units = replace(held, unit_column="patient", members=members)
    gradients = model.gradients(held.rows.take(np.arange(300)), held.targets, POINT)
    wanted = np.linalg.norm(gradients.reshape(150, 2, 3).sum(axis=1), axis=1)
    assert np.allclose(_norms_of_units(model, units, POINT), wanted)
    assert json.dumps(float(wanted[0]))


def test_the_page_shows_them_marked_and_keeps_them_in_its_memory_alone(folder: Path) -> None:
    """Through the real process."""
    with Visitor(folder) as visitor:
        page = visitor.page(first())
        assert "<dt>Own loss" not in page
        box = page.partition('id="own"')[2]
        csrf = box.split('name="csrf" value="')[1].split('"')[0]
        answer = visitor.client.post(f"/runs/{first().digest.hex()}/own", data={"csrf": csrf})
        assert answer.headers["location"].endswith("#own")
        page = visitor.page(first(), "<dt>Own loss</dt>")
        outside, inside = page.partition('id="own"')[0], page.partition('id="own"')[2]
        assert "never leaves this institution" in inside
        assert "<dd>0.6931 at the public model of round 1</dd>" in inside
        assert "0.6931" not in outside
        assert "<dt>Own loss" not in visitor.client.get("/").text
    with Visitor(folder) as another:
        assert "<dt>Own loss" not in another.page(first())


def test_own_figures_are_in_no_file_though_people_are_left_out(folder: Path) -> None:
    node = folder / "node.toml"
    node.write_text(node.read_text().replace("[data]", '[data]\nexcluded = "excluded.txt"'))
    (folder / "excluded.txt").write_text("# nobody yet\n")
    before = {path for path in folder.rglob("*") if not path.name.endswith(("-shm", "-wal"))}
    found = own_figures(Folder(page_node(folder)), manifest(run="never"))
    assert found["excluded"] == ["0 of 0 in excluded.txt are in the records and count for nothing"]
    assert {path for path in folder.rglob("*") if not path.name.endswith(("-shm", "-wal"))} == before
