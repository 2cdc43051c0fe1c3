"""A user's own code is allowed by name and digest, by policy.toml alone, and by no person who approves a run."""

from pathlib import Path
from typing import Any

import pytest

from parley.federation.admission import AdmissionRecord, Refusal, approve_by_hand
from parley.federation.code import is_code, is_name, named_code, unlisted
from parley.federation.errors import PolicyError
from parley.federation.names import Role
from parley.federation.policy import PartyPolicy, Policy, reasons_against, reasons_beforehand
from parley.federation.policy_file import read_policy
from tests.support.documents import COORDINATOR_POLICY, PARTY_POLICY, manifest, meaning
from tests.support.policies import node

NAME, OTHER = "torch:hospital_models.nets:build", "torch:hospital_models.features:extract"
DIGEST, CHANGED = "sha256:" + "5a" * 32, "sha256:" + "5b" * 32
MODEL: dict[str, Any] = {"model": {"kind": NAME, "dimension": 3, "digest": DIGEST}}


def allowing(folder: Path, text: str, before: str = PARTY_POLICY) -> Policy:
    path = folder / "policy.toml"
    path.write_text(before + text)
    return read_policy(path)


def test_nothing_is_allowed_by_default_and_a_digest_is_for_one_name(tmp_path: Path) -> None:
    made = manifest(**MODEL)
    assert [code.name for code in named_code(made)] == [NAME]
    found = {
        text: [reason.field for reason in reasons_beforehand(made, node(Role.party), allowing(tmp_path, text))]
        for text in ("", f'[code]\n"{NAME}" = "{DIGEST}"\n', f'[code]\n"{NAME}" = "{CHANGED}"\n',
                     f'[code]\n"{OTHER}" = "{DIGEST}"\n')
    }  # fmt: skip
    assert list(found.values()) == [["model.kind"], [], ["model.digest"], ["model.kind"]]


def test_the_list_of_built_in_models_allows_no_code(tmp_path: Path) -> None:
    text = PARTY_POLICY.replace('["logistic"]', f'["logistic", "{NAME}"]')
    reasons = reasons_beforehand(manifest(**MODEL), node(Role.party), allowing(tmp_path, "", text))
    assert [(each.field, each.final, each.mendable) for each in reasons] == [("model.kind", True, True)]
    assert f'"{NAME}" = "{DIGEST}"' in reasons[0].message


@pytest.mark.parametrize("role", [Role.party, Role.coordinator])
def test_no_person_waves_code_through_and_without_a_policy_there_is_none(tmp_path: Path, role: Role) -> None:
    text = PARTY_POLICY if role is Role.party else COORDINATOR_POLICY
    read = meaning(**MODEL)
    listed = allowing(tmp_path, f'[code]\n"{NAME}" = "{DIGEST}"\n', text)
    for policy, admitted in ((None, False), (allowing(tmp_path, "", text), False), (listed, True)):
        record = AdmissionRecord(tmp_path / f"{admitted}-{policy is None}.sqlite")
        digest = read.manifest.digest.hex()
        decision = approve_by_hand(record, read, node(role), policy, 0.0, digest, "a person")
        assert isinstance(decision, Refusal) is not admitted
    assert not any("code" in str(each) for each in reasons_against(read, node(Role.aggregator), None))


def test_what_makes_the_columns_is_asked_for_too() -> None:
    schema = manifest().schema.body
    for transform in ({"kind": OTHER, "digest": DIGEST}, [{"kind": "scattering"}, {"kind": OTHER, "digest": DIGEST}]):
        made = manifest(**MODEL, schema={**schema, "transform": transform})
        assert [found for found, _ in unlisted(made, {NAME: DIGEST})] == [
            f"schema.transform[{len(transform) - 1 if isinstance(transform, list) else 0}].kind"
        ]
        assert list(unlisted(made, {NAME: DIGEST, OTHER: DIGEST})) == []


@pytest.mark.parametrize(
    ("model", "field"),
    [
        ({"kind": "torch:nets", "digest": DIGEST}, "model.kind"),
        ({"kind": "torch:a b:c", "digest": DIGEST}, "model.kind"),
        ({"kind": "torch:../nets:build", "digest": DIGEST}, "model.kind"),
        ({"kind": "torch:nets:build:more", "digest": DIGEST}, "model.kind"),
        ({"kind": "torch:" + "a." * 120 + "a:build", "digest": DIGEST}, "model.kind"),
        ({"kind": NAME}, "model.digest"),
        ({"kind": NAME, "digest": "sha256:5a"}, "model.digest"),
        ({"kind": NAME, "digest": DIGEST.upper()}, "model.digest"),
        ({"kind": NAME, "digest": [DIGEST]}, "model.digest"),
    ],
)
def test_what_is_misspelt_is_not_allowed(model: dict[str, Any], field: str) -> None:
    made = manifest(model={"dimension": 3, **model})
    assert [found for found, _ in unlisted(made, {model["kind"]: DIGEST, NAME: DIGEST})] == [field]


def test_names() -> None:
    assert is_name("torch:nets:build")
    assert is_name(NAME)
    assert not is_name("torch:nets")
    assert not is_name("nets:build")
    assert is_code("torch:")
    assert not is_code("logistic")
    assert not is_code(["torch:nets:build"])


@pytest.mark.parametrize(
    "text",
    ['[code]\n"nets:build" = "x"\n', f'[code]\n"{NAME}" = "5a"\n', f'[code]\n"{NAME}" = 3\n', 'code = "all"\n'],
)
def test_a_table_that_is_not_understood_is_no_policy(tmp_path: Path, text: str) -> None:
    with pytest.raises(PolicyError, match="code"):
        allowing(tmp_path, text, PARTY_POLICY if text.startswith("[") else text + PARTY_POLICY)
    assert isinstance(allowing(tmp_path, ""), PartyPolicy)
