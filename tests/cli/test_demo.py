"""What the demonstration's command says beside its report."""

import sys
from pathlib import Path

import pytest

from parley.cli.commands.demo import _activate, as_asked
from parley.cli.options import Audit, Security
from parley.demo.recipe import STUDY
from parley.federation.errors import FieldError
from parley.mpc.parts import NoiseParts


def test_the_way_to_the_path_is_as_short_as_it_can_be_typed_from_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.chdir(tmp_path)
    assert _activate() == Path(".venv/bin/activate")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert _activate() == tmp_path / ".venv/bin/activate"


def test_the_command_line_stands_over_the_study() -> None:
    assert as_asked(STUDY, None, None, None, None) == STUDY
    asked = as_asked(STUDY, 2.0, Security.covert, None, Audit.quarter)
    assert (asked.epsilon, asked.parts) == (2.0, NoiseParts("covert", 0.5, "1/4"))
    assert as_asked(asked, None, None, 1.0, Audit.half).parts == NoiseParts("covert", 1.0, "1/2")
    assert as_asked(asked, None, Security.malicious, None, None).parts == NoiseParts("malicious", 1.0)
    assert as_asked(asked, None, Security.covert, None, None).parts == NoiseParts("covert", 0.5, "1/8")
    with pytest.raises(FieldError, match="leave audit out"):
        as_asked(STUDY, None, None, None, Audit.half)


def test_a_covert_demonstration_has_the_manifest_that_says_so() -> None:
    made = as_asked(STUDY, None, Security.covert, None, None).manifest()
    assert made.noise.parts == NoiseParts("covert", 0.5, "1/8")
    usual = STUDY.manifest()
    body = usual.as_json()
    body["noise"] |= {"security": "covert", "audit": "1/8"}
    assert made.as_json() == body
