"""A frozen extractor is known by the bytes of its package, and nothing of it is imported to find out."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from parley.learning.errors import ModelError, SchemaError
from parley.learning.schema import schema_from_json
from parley.learning.transforms import Extractor
from parley.models.extractor_spec import (
    extractor_digest,
    extractor_from_json,
    extractor_to_json,
    require_extractor,
    run_here,
    with_code_digests,
)
from tests.support.command import answer, parley
from tests.support.extractors import installed
from tests.support.tables_of_records import BINARY


def test_the_digest_is_of_every_byte_and_of_what_the_code_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = installed(tmp_path, monkeypatch, package="hospital_unread")
    digest = extractor_digest(found)
    require_extractor(replace(found, digest=digest))
    assert extractor_digest(replace(found, groups=2, trained_on="ImageNet", digest=digest)) == digest
    assert extractor_digest(replace(found, columns=6)) != digest
    (tmp_path / "hospital_unread" / "weights.bin").write_bytes(b"other")
    with pytest.raises(ModelError, match="was agreed on"):
        require_extractor(replace(found, digest=digest))
    assert "hospital_unread" not in sys.modules


def test_a_study_gets_the_digest_of_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = installed(tmp_path, monkeypatch, package="hospital_unread")
    body = {"features": {"count": 64, "low": 0, "high": 1}, "target": BINARY, "transform": extractor_to_json(found)}
    schema = with_code_digests(schema_from_json(body))
    (known,) = schema.transform
    assert isinstance(known, Extractor)
    assert known.digest == extractor_digest(found)
    assert with_code_digests(schema) is schema
    assert extractor_from_json(extractor_to_json(known)) == known


def test_only_parleys_networks_are_packages_of_parley(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = installed(tmp_path, monkeypatch, package="hospital_unread")
    with pytest.raises(ModelError, match=r"no module of parley's own"):
        extractor_digest(replace(found, kind="torch:parley.study.study:read"))
    with pytest.raises(ModelError, match="install the package"):
        extractor_digest(replace(found, kind="torch:nobody_has_this:extract"))


def test_a_name_that_nobody_allowed_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    found = installed(tmp_path, monkeypatch, package="hospital_unread")
    with pytest.raises(SchemaError, match="nobody allowed here"):
        run_here(["torch:somebody.elses:extract"])(found, np.zeros((1, 1, 8, 8), np.float32))
    assert "hospital_unread" not in sys.modules


def test_the_command_shows_the_digest_for_a_policy_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = installed(tmp_path, monkeypatch, "raise SystemExit('it was run')", package="hospital_unread")
    (tmp_path / "study.toml").write_text(
        """
        schema.features = { count = 64, low = 0, high = 1 }
        schema.target = { name = "label", kind = "binary", positive = ["1"], negative = ["0"] }
        schema.transform = { kind = "torch:hospital_unread:extract", shape = [1, 8, 8], columns = 4, """
        """trained_on = "CIFAR-100", declared_by = "Dr. Ada Osei" }
        model.kind = "logistic"
        algorithm = { name = "dp-sgd", batch = 32, passes = 0.4, step = 1.0, clip_norm = 1.0 }
        privacy = { epsilon = 3.0, delta = 1e-3 }
        """
    )
    done = parley("model", "show", str(tmp_path / "study.toml"), "--files")
    assert done.returncode == 0, done.stderr
    assert f'"torch:hospital_unread:extract" = "{extractor_digest(found)}"' in done.stdout
    assert "weights.bin" in done.stdout
    assert "declared, not checked" in done.stdout
    shown = answer(parley("model", "show", str(tmp_path / "study.toml"), "--json"))
    assert shown == {"extractors": {found.kind: extractor_digest(found)}}
