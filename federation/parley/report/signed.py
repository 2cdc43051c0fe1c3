"""The envelope of a report: its content, the key that signed it, the signature. A report needs no node to be read.

    {"content": {…}, "format": "parley report 1", "key": "02:3f1a:…", "signature": "3045…"}

The signature is over the content's canonical JSON, under a label of its own. Whose key it is, a pin says and nothing
in the file. Three forms hold the whole envelope: JSON is it, spelled in one way; HTML has it in its head; PDF as an
attachment.
"""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parley.federation.errors import PinError
from parley.node import signatures
from parley.node.credentials import Identity
from parley.node.pins import key_text, parse_key
from parley.privacy.canonical import canonical_json
from parley.report.errors import ReportError, TamperedError

FORMAT = "parley report 1"
LABEL = "report 1"
MOST_BYTES = 16 << 20
META = re.compile(rb'<meta name="parley-report" content="([A-Za-z0-9+/=]*)">')
ATTACHED, ENDED = b'stream\n{\n "content"', b"\n}\n\nendstream"
"""Around the JSON form in a PDF: looked for once each, so that no stranger's file takes long."""
Content = Mapping[str, Any]


@dataclass(frozen=True)
class Report:
    """A content and whose signature it has."""

    content: Content
    key: bytes
    signature: bytes

    @property
    def envelope(self) -> dict[str, Any]:
        return {
            "content": self.content,
            "format": FORMAT,
            "key": key_text(self.key),
            "signature": self.signature.hex(),
        }

    @property
    def text(self) -> str:
        """The JSON form: keys sorted, one space of indentation, ASCII."""
        return json.dumps(self.envelope, sort_keys=True, indent=1, ensure_ascii=True, allow_nan=False) + "\n"

    @property
    def meta(self) -> str:
        """For the head of the HTML form."""
        return base64.b64encode(canonical_json(self.envelope).encode()).decode()


def sign(identity: Identity, content: Content) -> Report:
    """This node's word."""
    return Report(content, identity.pin, signatures.sign(identity, LABEL, canonical_json(content).encode()))


def require_signed(report: Report) -> None:
    """A TamperedError unless the key that the report names has signed its content."""
    try:
        statement = canonical_json(report.content).encode()
    except (ValueError, RecursionError):
        raise TamperedError("the content is not what a node signs") from None
    if not signatures.signed_by(report.key, LABEL, statement, report.signature):
        raise TamperedError("the signature is not of this content by the key that the report names: it was altered")


def envelope_in(data: bytes) -> tuple[str, Report]:
    """Which form a file is, and the envelope in it; nothing is believed yet. A ReportError for what is no report."""
    if len(data) > MOST_BYTES:
        raise ReportError(f"the file is over {MOST_BYTES >> 20} MiB: that is no report")
    if data.startswith(b"%PDF-"):
        start, end = data.find(ATTACHED), data.rfind(ENDED)
        if (count := data.count(ATTACHED)) != 1 or end < start:
            raise ReportError(f"the PDF holds {count} signed reports and not one: give one that a node made")
        return "pdf", _opened(data[start + len(b"stream\n") : end + len(b"\n}\n")])
    if data.lstrip()[:15].lower() == b"<!doctype html>":
        found = META.findall(data)
        if len(found) != 1:
            raise ReportError(f"the page holds {len(found)} signed reports and not one: give one that a node made")
        try:
            return "html", _opened(base64.b64decode(found[0], validate=True))
        except ValueError:
            raise ReportError("the page's signed report cannot be read: it was altered") from None
    return "json", _opened(data)


def _opened(data: bytes) -> Report:
    try:
        body = json.loads(data)
        if not isinstance(body, dict) or body.get("format") != FORMAT:
            raise ReportError(f"the file is no {FORMAT!r}: give what `parley report` wrote, or upgrade parley")
        content, key, signature = body["content"], parse_key(str(body["key"])), bytes.fromhex(str(body["signature"]))
    except (ValueError, KeyError, RecursionError, PinError):
        raise ReportError("the file is no report: give what `parley report` wrote") from None
    if not isinstance(content, dict) or set(body) != {"content", "format", "key", "signature"}:
        raise ReportError("the file is no report: give what `parley report` wrote")
    return Report(content, key, signature)
