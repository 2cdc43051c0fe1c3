"""Law and people in a manifest: where they stand in its bytes, what is refused, what a policy may demand."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from parley.federation.errors import ManifestError, PolicyError
from parley.federation.fields import Fields
from parley.federation.manifest import HEADER, Manifest
from parley.federation.names import NodeName, Role
from parley.federation.people import DEMANDS, LONGEST, LONGEST_PURPOSE, Legal, legal_of, unsaid
from parley.federation.policy import reasons_against, reasons_beforehand
from parley.federation.toml_text import toml_text
from tests.support.documents import BODY, PARTY_POLICY, manifest, meaning
from tests.support.policies import policy

LEGAL = {
    "purpose": "Who needs a catheter examination",
    "legal_basis": "Art. 9(2)(j) GDPR",
    "ethics_number": "EK 2026-114",
    "expires": "2999-12-31",
    "retention": "The model is kept for ten years",
}
SAID: dict[str, Any] = {
    "legal": LEGAL,
    **{f"parties.{place}.legal_entity": f"Hospital {place}" for place in range(3)},
    **{f"parties.{place}.contact": f"privacy@{place}.example" for place in range(3)},
    "aggregators.0.contact": "north@example.org",
    "aggregators.1.contact": "south@example.org",
    "coordinator.contact": "lead@example.org",
}
NODE = NodeName("cardio", Role.party, "hospital-a")


def test_a_manifest_that_says_nothing_of_it_has_the_bytes_that_it_always_had() -> None:
    made = manifest()
    assert made.legal is None
    assert made.institutions == ()
    assert json.loads(made.canonical[len(HEADER) :]) == BODY


def test_what_is_said_is_in_the_digest_and_reads_back() -> None:
    made, plain = manifest(**SAID), manifest()
    assert Manifest.from_canonical(made.canonical) == made
    assert Manifest.from_toml(toml_text(made.as_json())).digest == made.digest
    assert made.digest != plain.digest
    assert made.mechanism == plain.mechanism
    for path in SAID:
        if path != "legal":
            assert manifest(**{**SAID, path: "Another"}).digest != made.digest, path
    for name in LEGAL:
        other = {**LEGAL, name: "2998-01-01" if name == "expires" else "Another"}
        assert manifest(**{**SAID, "legal": other}).digest != made.digest, name


def test_fields_may_be_given_one_by_one() -> None:
    for name, text in LEGAL.items():
        made = manifest(legal={name: text})
        assert made.as_json()["legal"] == {name: text}
    made = manifest(**{"parties.1.contact": "b@example.org"})
    assert [name for name, _ in made.institutions] == ["hospital-b"]
    assert "legal_entity" not in made.as_json()["parties"][1]


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "two\nlines", "a\x00b", "a\x1b[31mred", "a\u202eright to left", "a\u200bhidden", "a\ud800",
        "Z" + "\u0336" * 3, "\u2028", 7, None, ["a"], {"a": 1}, "x" * (LONGEST_PURPOSE + 1),
    ],
)  # fmt: skip
def test_what_does_not_show_what_it_is_is_refused_by_its_place(text: Any) -> None:
    places = ("legal.purpose", "legal.retention", "parties[2].contact", "aggregators[0].contact", "coordinator.contact")
    for place in (*places, "parties[0].legal_entity"):
        path = place.replace("[", ".").replace("]", "")
        changes = {"legal": {place.removeprefix("legal."): text}} if place.startswith("legal") else {path: text}
        with pytest.raises(ManifestError) as caught:
            manifest(**changes)
        assert caught.value.field == place


def test_markup_and_letters_of_the_world_are_text() -> None:
    for text in (
        "<script>alert(1)</script>",
        "&amp; [red]bold[/]",
        "Szpital Główny",
        "東京大学",
        "Ἱπποκράτειο",
        "é" * 9,
    ):
        assert dict(manifest(**{"parties.0.legal_entity": text}).institutions)["hospital-a"].legal_entity == text
    assert len(manifest(legal={"purpose": "x" * LONGEST_PURPOSE}).canonical) > LONGEST_PURPOSE
    with pytest.raises(ManifestError, match=f"at most {LONGEST}"):
        manifest(legal={"retention": "x" * (LONGEST + 1)})


def test_a_table_that_says_nothing_or_something_else_is_refused() -> None:
    for body, said in (({}, "is empty"), ({"purpos": "x"}, "unknown"), ({"expires": "soon"}, "2027-12-31")):
        with pytest.raises(ManifestError, match=said):
            manifest(legal=body)
    for day in ("2027-13-01", "20271231", "2027-W01-1", "1999-12-31", "2027-12-31T00:00:00"):
        with pytest.raises(ManifestError, match="give a day"):
            manifest(legal={"expires": day})


def test_the_last_day_counts() -> None:
    legal = Legal(expires="2027-03-01")
    assert not legal.expired(dt.datetime(2027, 3, 1, 23, 59, tzinfo=dt.UTC))
    assert legal.expired(dt.datetime(2027, 3, 2, tzinfo=dt.UTC))
    assert not Legal(purpose="x").expired()


@pytest.mark.parametrize("role", list(Role))
def test_no_node_admits_an_expired_run_whoever_approves(tmp_path: Path, role: Role) -> None:
    expired = {"legal": {"expires": "2020-01-01"}}
    old = manifest(**expired)
    node = old.identities(role)[0]
    found = reasons_against(meaning(**expired), node, policy(tmp_path, role), 0.0, 0.0)
    assert [(each.field, each.final) for each in found] == [("legal.expires", True)]
    assert any(each.field == "legal.expires" for each in reasons_beforehand(old, node, policy(tmp_path, role)))


def test_a_party_may_demand_every_field_and_says_which_is_missing(tmp_path: Path) -> None:
    for name in DEMANDS:
        demanding = policy(tmp_path, Role.party, ("[aggregators]", f'require = ["{name}"]\n[aggregators]'))
        assert reasons_against(meaning(**SAID), NODE, demanding, 0.0, 0.0) == ()
        found = reasons_against(meaning(), NODE, demanding, 0.0, 0.0)
        assert found
        assert not any(each.final for each in found)
        assert {each.field.rpartition(".")[2] for each in found} == {name}
        assert set(found) <= set(reasons_beforehand(manifest(), NODE, demanding))


def test_of_institutions_each_one_has_to_be_named() -> None:
    everything = frozenset(DEMANDS)
    assert unsaid(manifest(**SAID), everything) == []
    for path in SAID:
        if path != "legal":
            lacking = manifest(**{name: value for name, value in SAID.items() if name != path})
            section, index, name = path.split(".") if path.count(".") == 2 else (path.split(".")[0], "", "contact")
            place = f"{section}[{index}].{name}" if index else f"{section}.{name}"
            assert unsaid(lacking, everything) == [place]


def test_a_policy_demands_what_there_is_and_nothing_else(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"require: has 'purposes': use purpose, "):
        policy(tmp_path, Role.party, ("[aggregators]", 'require = ["purposes"]\n[aggregators]'))
    assert "require" not in PARTY_POLICY


def test_a_person_who_approves_reads_it() -> None:
    said = "\n".join(meaning(**SAID).sentences)
    for text in (*LEGAL.values(), "Hospital 1", "privacy@2.example"):
        assert text in said, text


def test_a_study_takes_the_same_table() -> None:
    assert legal_of(Fields({"legal": LEGAL}, "", ManifestError)) == Legal(**LEGAL)
    assert legal_of(Fields({}, "", ManifestError)) is None
