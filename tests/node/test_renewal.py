"""What a daily timer does about a certificate."""

import datetime as dt
import json
from pathlib import Path

import pytest

from parley.federation.errors import CertificateError, FingerprintError
from parley.node import installation as nodes
from parley.node.authority import Authority
from parley.node.credentials import NodeFolder
from parley.node.renewal import renew_within
from tests.support.command import answer, parley
from tests.support.enrolment import AGGREGATOR, bundle, installed

LATER = 200
"""Days before the end that nothing is due; certificates of these tests last 90."""


def approved(path: Path, authority: Authority, waiting: nodes.Pending) -> Path:
    made = authority.approve(waiting.path.read_bytes(), waiting.fingerprint, dt.timedelta(days=100))
    path.write_bytes(bundle(authority, made))
    return path


def test_nothing_happens_while_the_certificate_lasts(tmp_path: Path, authority: Authority) -> None:
    folder = installed(tmp_path, authority)
    found = renew_within(folder, 30, tmp_path / "approved.pem")
    assert (found.waiting, found.installed) == (None, False)
    assert nodes.pending(folder) is None


def test_a_due_one_is_asked_for_once_and_installed_when_it_is_there(tmp_path: Path, authority: Authority) -> None:
    folder = installed(tmp_path, authority)
    before = folder.load()
    file = tmp_path / "approved.pem"
    asked = renew_within(folder, LATER, file)
    assert asked.waiting is not None
    assert asked.waiting == renew_within(folder, LATER, file).waiting  # the day after: the same request
    approved(file, authority, asked.waiting)
    done = renew_within(folder, LATER, file)
    assert (done.installed, done.waiting) == (True, None)
    after = folder.load()
    assert (after.pin, after.expires > before.expires) == (before.pin, True)
    assert nodes.pending(folder) is None
    again = renew_within(folder, LATER, file)  # the old file lies there still: not taken for the new request
    assert (again.installed, again.waiting is not None) == (False, True)
    assert folder.load() == after
    again = renew_within(folder, LATER, file)
    assert not again.installed


def test_a_rotation_that_waits_is_left_to_people(tmp_path: Path, authority: Authority) -> None:
    folder = installed(tmp_path, authority)
    before = folder.load()
    file = approved(tmp_path / "approved.pem", authority, nodes.rotate(folder))
    assert renew_within(folder, LATER, file).waiting is not None
    assert folder.load() == before
    assert renew_within(folder, 30, file).waiting is None  # nothing is due


def test_another_authority_and_rubbish_are_refused(tmp_path: Path, authority: Authority) -> None:
    folder = installed(tmp_path, authority)
    before, file = folder.load(), tmp_path / "approved.pem"
    waiting = renew_within(folder, LATER, file).waiting
    assert waiting is not None
    approved(file, Authority.create("cardio"), waiting)
    with pytest.raises(FingerprintError, match="another authority"):
        renew_within(folder, LATER, file)
    file.write_text("rubbish")
    with pytest.raises(CertificateError, match="parley ca approve"):
        renew_within(folder, LATER, file)
    assert folder.load() == before
    with pytest.raises(CertificateError, match="no certificate installed"):
        renew_within(NodeFolder(tmp_path / "nobody"), 30, None)


@pytest.mark.slow
def test_the_command_says_by_its_exit_code_whether_a_person_has_to_act(tmp_path: Path, authority: Authority) -> None:
    folder = installed(tmp_path, authority)
    told = tmp_path / "told"
    told_by = tmp_path / "tell"
    told_by.write_text(f"#!/bin/sh\ncat >> {told}\n")
    told_by.chmod(0o700)
    (tmp_path / "node.toml").write_text(
        'role = "aggregator"\n[listen]\nshare = "127.0.0.1:0"\ncontrol = "127.0.0.1:0"\npeer = "127.0.0.1:0"\n'
        f'[peer]\nname = "south"\n[notify]\ncommand = ["{told_by}"]\n'
    )
    words = ("node", "renew", "--folder", str(folder.path), "--approved", str(tmp_path / "approved.pem"))
    lasts = parley(*words, "--within", "30")
    assert (lasts.returncode, lasts.stdout.split()[:2]) == (0, ["lasts", f"{AGGREGATOR},"])
    assert not told.exists()
    due = parley(*words, "--within", str(LATER), "--json")
    assert (due.returncode, answer(due)["installed"]) == (1, False)
    (waiting,) = json.loads(told.read_text())["waiting"]
    assert waiting["what"] == "certificate"
    request = nodes.pending(folder)
    assert request is not None
    assert answer(due)["pending_fingerprint"] == request.fingerprint
    approved(tmp_path / "approved.pem", authority, request)
    done = parley(*words, "--within", str(LATER))
    assert (done.returncode, done.stdout.split()[0]) == (0, "renewed")
    assert parley(*words).returncode == 2
    assert nodes.pending(folder) is None
