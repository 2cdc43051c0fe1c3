"""Where a run starts and when it may stop: two optional choices of a manifest, strict as all of it, shown to people."""

from typing import Any

import pytest

from parley.federation.errors import ManifestError
from parley.federation.manifest import Manifest
from parley.federation.start_and_stop import Start, StopEarly
from tests.support.documents import manifest, meaning

DIGEST = "9c" * 32
START = {"digest": DIGEST, "private": True}


def test_without_them_a_manifest_is_as_it_was() -> None:
    made = manifest()
    assert (made.start, made.stop_early) == (None, None)
    assert "start" not in made.as_json()
    assert made.as_json()["rounds"].keys() == {"minimum_parties", "deadline_seconds"}


def test_they_are_in_the_digest_and_survive_the_way_between_nodes() -> None:
    made = manifest(start=START, **{"rounds.stop_early": {"patience": 5}})
    again = Manifest.from_canonical(made.canonical)
    assert (again.start, again.stop_early) == (Start(DIGEST, True), StopEarly(5, 0.0))
    assert again == made
    others = [
        manifest(),
        manifest(start={**START, "private": False}, **{"rounds.stop_early": {"patience": 5}}),
        manifest(start=START, **{"rounds.stop_early": {"patience": 6}}),
        manifest(start=START, **{"rounds.stop_early": {"patience": 5, "least": 0.1}}),
    ]
    assert len({each.digest for each in (made, *others)}) == 5


def test_a_smallest_fall_that_is_left_out_is_one_of_zero() -> None:
    spelled = manifest(**{"rounds.stop_early": {"patience": 5, "least": 0}})
    assert spelled.digest == manifest(**{"rounds.stop_early": {"patience": 5}}).digest


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"start": {"digest": "9c", "private": True}}, "start.digest"),
        ({"start": {"digest": DIGEST.upper(), "private": True}}, "start.digest"),
        ({"start": {"digest": DIGEST}}, "start.private"),
        ({"start": {"digest": DIGEST, "private": 1}}, "start.private"),
        ({"start": {**START, "path": "model.npz"}}, "start.path"),
        ({"start": "model.npz"}, "start"),
        ({"rounds.stop_early": {}}, "rounds.stop_early.patience"),
        ({"rounds.stop_early": {"patience": 0}}, "rounds.stop_early.patience"),
        ({"rounds.stop_early": {"patience": 2.5}}, "rounds.stop_early.patience"),
        ({"rounds.stop_early": {"patience": 5, "least": -0.1}}, "rounds.stop_early.least"),
        ({"rounds.stop_early": {"patience": 5, "metric": "auc"}}, "rounds.stop_early.metric"),
        ({"rounds.stop_early": True}, "rounds.stop_early"),
    ],
)
def test_anything_else_is_refused_by_its_name(changes: dict[str, Any], where: str) -> None:
    with pytest.raises(ManifestError, match=f"^{where}:? "):
        manifest(**changes)


def test_whoever_approves_a_run_reads_of_both() -> None:
    said = " ".join(meaning(start=START, **{"rounds.stop_early": {"patience": 5, "least": 0.25}}).sentences)
    assert f"the model whose card has the digest {DIGEST}, by its card trained on private records" in said
    assert "could not tell" in said
    assert "after 5 evaluations in a row without a fall of the loss by 0.25 or more on" in said
    assert "basic gets nothing back" in said
    plain = " ".join(meaning().sentences)
    assert "Start:" not in plain
    assert "Early stop:" not in plain
