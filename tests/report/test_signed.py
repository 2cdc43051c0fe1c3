"""The envelope: one in a file, the same in each form, and a signature under a label of its own."""

import base64
import json
from pathlib import Path

import pytest

from parley.node import signatures
from parley.privacy.canonical import canonical_json
from parley.report.errors import ReportError, TamperedError
from parley.report.page import page
from parley.report.signed import FORMAT, LABEL, Report, envelope_in, require_signed, sign
from tests.support.reports import identity, report


def test_two_envelopes_in_one_file_are_refused(tmp_path: Path) -> None:
    data = page(report(tmp_path)).encode()
    meta = f'<meta name="parley-report" content="{report(tmp_path).meta}">'.encode()
    with pytest.raises(ReportError, match="holds 2 signed reports"):
        envelope_in(data.replace(b"<title>", meta + b"<title>"))
    with pytest.raises(ReportError, match="holds 0 signed reports"):
        envelope_in(data.replace(b'name="parley-report"', b'name="parley-remark"'))


def test_the_envelope_is_what_the_page_says_it_is(tmp_path: Path) -> None:
    made = report(tmp_path)
    assert json.loads(base64.b64decode(made.meta)) == json.loads(made.text)
    assert json.loads(made.text)["format"] == FORMAT


def test_a_signature_under_another_label_or_of_another_content_is_none() -> None:
    content = {"a": 1}
    made = sign(identity(), content)
    require_signed(made)
    statement = canonical_json(content).encode()
    for wrong in (
        Report(content, made.key, signatures.sign(identity(), f"{LABEL} ", statement)),
        Report({"a": 2}, made.key, made.signature),
        Report(content, made.key, b""),
        Report({"a": float("nan")}, made.key, made.signature),
    ):
        with pytest.raises(TamperedError):
            require_signed(wrong)


def test_a_form_is_known_by_what_it_holds_and_not_by_its_name(tmp_path: Path) -> None:
    made = report(tmp_path)
    assert envelope_in(made.text.encode())[0] == "json"
    form, found = envelope_in(page(made).encode())
    assert (form, found.key, found.signature) == ("html", made.key, made.signature)
    with pytest.raises(ReportError, match="no report"):
        envelope_in(json.dumps({**made.envelope, "more": 1}).encode())
    with pytest.raises(ReportError, match="over 16 MiB"):
        envelope_in(bytes((16 << 20) + 1))
