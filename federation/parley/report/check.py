"""Whether a report is what its node signed, and shows what it signed: on any machine, without a node.

Three things are checked, and said: the signature, over the content; the page, which is drawn again from that content
and has to be equal to the last byte; and the words of the servers in it, by the keys that the node had pinned. Whose
key signed it, no file can say: a pin does.
"""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from google.protobuf.message import DecodeError

from parley.federation.errors import PinError
from parley.federation.extras import install
from parley.node.endings import end_signed_by
from parley.node.pins import parse_key
from parley.node.statements import digest_of, statement_signed_by
from parley.report.content import fingerprint
from parley.report.document import document
from parley.report.errors import PagesError, ReportError, TamperedError
from parley.report.page import page
from parley.report.signed import Report, envelope_in, require_signed
from parley.v1 import common_pb2


def json_form(report: Report) -> bytes:
    return report.text.encode()


def html_form(report: Report) -> bytes:
    return page(report).encode()


def pdf_form(report: Report) -> bytes:
    from parley.report.pdf import pdf  # fonts, and an extra

    return pdf(report)


FORMS: Mapping[str, Callable[[Report], bytes]] = {"json": json_form, "html": html_form, "pdf": pdf_form}
"""By the ending of a file's name."""
DRAWN_WITH = ("fpdf", "matplotlib")
"""What draws a PDF, of the extra `report`."""


@dataclass(frozen=True)
class Verified:
    """A report of which everything holds."""

    form: str
    report: Report
    what: tuple[str, ...]
    """What was checked, a sentence each."""


def opened(data: bytes) -> tuple[str, Report]:
    """Its form and its content, which its key has signed; the page is not compared yet."""
    form, report = envelope_in(data)
    require_signed(report)
    node = report.content.get("node")
    named = (node.get("key_fingerprint"), node.get("pin")) if isinstance(node, dict) else ()
    if named != (fingerprint(report.key), report.envelope["key"]):
        raise TamperedError("the content names another key than the one that signed it")
    return form, report


def verified(data: bytes) -> Verified:
    """A TamperedError where something does not hold; a ReportError for what is no report of this version's."""
    form, report = opened(data)
    document(report.content)  # also of JSON, which shows it as it is: what nobody can draw is no report
    words = _words(report.content)
    if form == "pdf" and (lacking := [name for name in DRAWN_WITH if find_spec(name) is None]):
        raise PagesError(
            f"the attached content is signed by {fingerprint(report.key)}; of the pages nothing is known: "
            f"{install(lacking[0])} to compare them. Or read the content, drawn with -o"
        )
    if FORMS[form](report) != data:
        raise TamperedError(_differs(form))
    return Verified(
        form,
        report,
        (
            f"the content is signed by {fingerprint(report.key)}",
            f"the {form.upper()} is equal, byte for byte, to what is drawn from the signed content",
            f"{words} signed words of the aggregators hold by the keys that the node had pinned"
            if words
            else "it holds no signed word of an aggregator",
        ),
    )


def _differs(form: str) -> str:
    if form != "pdf":
        return f"the {form.upper()} is not what is drawn from the content that was signed: it was altered"
    from parley.report.pdf import drawn_by

    return (
        "the pages are not what is drawn here from the attached content, which is signed: they were altered, or drawn "
        f"by other versions than these ({drawn_by()}). Do not rely on the pages: -o draws them anew"
    )


def _words(content: Mapping[str, Any]) -> int:
    """How many there are, all of which hold."""
    try:
        servers, manifest = content["servers"], bytes.fromhex(content["run"]["manifest_digest"])
        trusted = {(each["node"], each["key"]) for each in content["pins"]}
        trusted.add((content["node"]["identity"], content["node"]["pin"]))
        found = [_end(each, manifest) for each in servers["ends"]]
        found += [_statement(each, manifest) for each in servers["statements"] if each["word"] is not None]
        pinned = all(
            (each["aggregator"], each["key"]) in trusted for each in (*servers["ends"], *servers["statements"])
        )
    except (KeyError, TypeError, ValueError, AttributeError, PinError, DecodeError) as error:
        raise ReportError(f"the content is not of a report ({type(error).__name__}): it was not made here") from None
    if not (all(found) and pinned):
        raise TamperedError("the node has signed a report with an aggregator's word that the aggregator did not sign")
    return len(found)


def _end(body: Mapping[str, Any], manifest: bytes) -> bool:
    if type(body["openings"]) is not int:
        raise TypeError("openings are a whole number")
    word = common_pb2.SignedEnd(
        aggregator=body["aggregator"],
        manifest_digest=manifest,
        openings=body["openings"],
        signature=bytes.fromhex(body["signature"]),
    )
    return end_signed_by(parse_key(body["key"]), word)


def _statement(body: Mapping[str, Any], manifest: bytes) -> bool:
    word = common_pb2.SignedWord.FromString(base64.b64decode(body["word"], validate=True))
    said = common_pb2.RoundStatement.FromString(word.body)
    right = (said.aggregator, said.round, said.manifest_digest) == (body["aggregator"], body["round"], manifest)
    return right and digest_of(word).hex() == body["digest"] and statement_signed_by(parse_key(body["key"]), word)
