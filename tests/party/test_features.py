"""Features at a party: computed once, kept as records are, gone with the run; code only by name and digest."""

import contextlib
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.attacks import documents
from parley.attacks.documents import UNITS
from parley.attacks.institution import JOINS, Institution
from parley.federation.errors import ManifestError
from parley.federation.manifest import Manifest
from parley.learning import features
from parley.learning.contributor import Query
from parley.learning.schema import schema_from_json
from parley.learning.transforms import Extractor
from parley.models.admitted import require_here
from parley.models.extractor_spec import extractor_digest, extractor_to_json
from parley.models.registry import model_of
from parley.party import data
from parley.party.admission import Gate, Ready
from parley.party.outbox import JOINED, LEFT, SETTLED
from tests.support.extractors import installed

PIXELS = {"name": "p{1..64}", "low": 0.0, "high": 1.0}
SCATTERING = {"kind": "scattering", "shape": [1, 8, 8], "groups": 9}
WIDTH = 81 * 4


def institution(folder: Path, **policy: Any) -> Institution:
    draw = np.random.default_rng(1)
    rows = [",".join([*(f"{each:.3f}" for each in draw.random(64)), str(n % 2)]) for n in range(UNITS)]
    header = ",".join([*(f"p{n + 1}" for n in range(64)), "sick"])
    schema = documents.schema_text(features=[PIXELS])
    made = Institution(folder, rows, header, schema, documents.policy_text(**policy))
    assert made.seal().fits
    return made


def manifest(*transforms: dict[str, Any], width: int = WIDTH, **more: Any) -> Manifest:
    changes = {"schema.transform": list(transforms), "schema.bits": 4, "model.dimension": width + 1}
    return documents.manifest(**{"schema.features": [PIXELS], **changes, **more})


def test_features_that_a_machine_has_no_room_for_are_refused_before_they_are_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes manifests chooses how many there are of each record; out of memory a party is lost to all runs."""
    here, made = institution(tmp_path / "hospital"), manifest(SCATTERING)
    size = UNITS * (WIDTH + 1) * 2
    monkeypatch.setattr(data, "memory_bytes", lambda: 2 * size - 1)
    said = here.heard(made)
    assert "schema.transform" in said
    assert "its machine has no room for" in said
    monkeypatch.setattr(data, "memory_bytes", lambda: 2 * size)
    assert here.heard(made) == JOINS


def test_the_memory_of_a_container_is_what_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = data.memory_bytes()
    assert whole > 1 << 28
    for text, wanted in (("max\n", whole), ("1048576\n", 1 << 20)):
        (tmp_path / "memory.max").write_text(text)
        monkeypatch.setattr(data, "CONTAINERS_LIMIT", tmp_path / "memory.max")
        found = data.memory_bytes()
        assert found >= wanted if text == "max\n" else found == wanted


def ready(gate: Gate, made: Manifest) -> Ready:
    Institution._verify(gate, made)
    found = gate.decide(made)
    assert isinstance(found, Ready)
    return found


def contribution(gate: Gate, made: Manifest, found: Ready) -> Any:
    return gate.contributor(made, found).contribution(Query(0, (np.zeros(made.model.dimension),)))


def test_a_run_with_features_is_admitted_and_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, made = institution(tmp_path / "hospital"), manifest(SCATTERING)
    assert here.heard(made) == JOINS
    first = here.contribution(made, np.zeros(WIDTH + 1))
    assert first.shape == (WIDTH + 1,)
    assert np.any(first)
    (file,) = (tmp_path / "hospital" / "state" / "features" / made.digest.hex()).iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    monkeypatch.setattr(features, "raw_features", lambda *_: pytest.fail("computed again"))
    with contextlib.closing(here.gate()) as gate:  # a process that was started again
        contribution(gate, made, ready(gate, made))


def test_features_go_with_the_run(tmp_path: Path) -> None:
    here = institution(tmp_path / "hospital")
    made, other = manifest(SCATTERING), manifest(SCATTERING, run="heart-2")
    folder = tmp_path / "hospital" / "state" / "features"
    with contextlib.closing(here.gate()) as gate:
        for each in (made, other):
            contribution(gate, each, ready(gate, each))
            gate.note(each, JOINED)
    assert {each.name for each in folder.iterdir()} <= {made.digest.hex(), other.digest.hex()}
    with contextlib.closing(here.gate()) as gate:
        contribution(gate, other, ready(gate, other))
        gate.note(made, LEFT)
        assert [each.name for each in folder.iterdir()] == [other.digest.hex()]
        gate.shelf.keep_features([other.digest])
        assert len(list((folder / other.digest.hex()).iterdir())) == 1
        gate.note(other, SETTLED)
        assert list(folder.iterdir()) == []
        contribution(gate, made, ready(gate, made))
        gate.shelf.keep_features([])
        assert list(folder.iterdir()) == []


def test_a_transform_that_does_not_fit_is_refused_by_two_documents(tmp_path: Path) -> None:
    here = institution(tmp_path / "hospital")
    wrong = {**SCATTERING, "shape": [1, 8, 7]}
    assert "there are 64 columns" in here.heard(manifest(wrong))
    assert "parameters" in here.heard(manifest(SCATTERING, width=64))
    assert "no field 'angle'" in here.heard(manifest({**SCATTERING, "angle": 3}))


def own(transform: Extractor) -> tuple[dict[str, Any], dict[str, str]]:
    """As a manifest names it, and the [code] that allows it."""
    known = replace(transform, digest=extractor_digest(transform))
    return extractor_to_json(known), {known.kind: known.digest}


def opened(here: Institution, made: Manifest) -> Any:
    """Sums with a user's own features, as `Life` asks for them."""
    with contextlib.closing(here.gate()) as gate:
        found = ready(gate, made)
        gate.open_module(made, found)
        assert found.extractors is not None
        try:
            return contribution(gate, made, found)
        finally:
            found.extractors.close()


def test_code_that_the_policy_does_not_name_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named, code = own(installed(tmp_path, monkeypatch, f"open({str(tmp_path / 'ran')!r}, 'w').close()"))
    here = institution(tmp_path / "hospital")
    assert "code that policy.toml does not name" in str(heard(here, manifest(named, width=4)))
    other = institution(tmp_path / "other", code={named["kind"]: "sha256:" + "1" * 64})
    assert "correct one of them" in str(heard(other, manifest(named, width=4)))
    bare = {name: value for name, value in named.items() if name != "digest"}
    allowed = institution(tmp_path / "allowed", code=code)
    assert "is no digest" in str(heard(allowed, manifest(bare, width=4)))
    assert not (tmp_path / "ran").exists()


def heard(here: Institution, made: Manifest) -> str:
    """Why it does not take part."""
    with contextlib.closing(here.gate()) as gate:
        Institution._verify(gate, made)
        try:
            return str(gate.decide(made))
        except Exception as refusal:
            return str(refusal)


@pytest.mark.slow
def test_a_users_own_features_are_computed_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    named, code = own(installed(tmp_path, monkeypatch))
    here = institution(tmp_path / "hospital", code=code)
    made = manifest(named, width=4)
    found = opened(here, made)
    weights = np.arange(256, dtype=np.float32).reshape(64, 4) / 255 - 0.5
    schema = schema_from_json(made.schema.body)
    lines = (tmp_path / "hospital" / "records.csv").read_text().splitlines()[1:]
    cells = np.array([line.split(",")[:64] for line in lines], np.float64)
    raw = np.tanh(np.rint((cells - 0.5) / 0.5 * 2**14).astype(np.float32) / 2**14 @ weights)
    (transform,) = schema.transform
    rows = features.whole(features.normalised(raw, transform), transform, 4)
    labels = np.array([float(line.split(",")[64]) for line in lines])
    due = (0.5 - labels)[:, None] * np.hstack([rows / 16, np.ones((UNITS, 1))])
    due *= np.minimum(1, 1 / np.linalg.norm(due, axis=1, keepdims=True))
    with contextlib.closing(here.gate()) as gate:
        step = gate.contributor(made, replace(ready(gate, made))).encoding.lattice(0).step
    assert np.abs(found * step - due.sum(axis=0)).max() < 1e-2


@pytest.mark.slow
def test_code_that_looks_at_values_is_refused_before_there_is_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    source = "def extract(x):\n    y = x.flatten(1)[:, :4]\n    return y if y.sum().item() > 0 else -y\n"
    named, code = own(installed(tmp_path, monkeypatch, source, "hospital_looks"))
    here = institution(tmp_path / "hospital", code=code)
    with contextlib.closing(here.gate()) as gate:
        found = ready(gate, made := manifest(named, width=4))
        with pytest.raises(Exception, match=r"torch\.where"):
            gate.open_module(made, found)


@pytest.mark.slow
def test_the_doctor_says_what_of_the_code_stands_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    named, code = own(installed(tmp_path, monkeypatch))
    made = manifest(named, width=4)
    assert "is allowed, and installed here" in require_here(made, *model_of(made), code)
    with pytest.raises(ManifestError, match="does not name"):
        require_here(made, *model_of(made), {})
    (tmp_path / "hospital_features" / "weights.bin").write_bytes(b"other")
    with pytest.raises(ManifestError, match=r"schema\.transform\[0\]\.digest.*was agreed on"):
        require_here(made, *model_of(made), code)
