"""What the authority has issued (`issued.jsonl`), and what of it is revoked (`revoked.crl`): files of its folder."""

import datetime as dt
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from parley.federation.errors import CertificateError, PinError
from parley.federation.names import NodeName
from parley.node.authority import Authority
from parley.node.pins import parse_key
from parley.node.revocation import MOST_ENTRIES, Entry, RevocationError, Revoked, held, keep

REGISTER_FILE = "issued.jsonl"


@dataclass(frozen=True)
class Issued:
    """One certificate."""

    identity: str
    serial: int
    key: bytes
    """Empty where an earlier release issued it, which did not write it down."""


def issued(folder: Path) -> list[Issued]:
    """All of them, oldest first."""
    path = folder / REGISTER_FILE
    found = []
    try:
        for line in path.read_text().splitlines():
            body = json.loads(line)
            key = parse_key(body["pin"]) if "pin" in body else b""
            found.append(Issued(body["identity"], int(body["serial"], 16), key))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, PinError):
        raise CertificateError(f"{REGISTER_FILE} cannot be read as a register: restore it from a backup") from None
    return found


def entries_for(folder: Path, federation: str, what: str, reason: str, pin: bytes | None) -> list[Entry]:
    """Every certificate of that node, or the one of that serial; `pin` is the key of those that have none written."""
    known, now = issued(folder), dt.datetime.now(dt.UTC).replace(microsecond=0)
    if "/" in what:
        name = NodeName.parse(what if "://" in what else f"parley://{federation}/{what}")
        chosen = [each for each in known if each.identity == name.uri]
    else:
        try:
            serial = int(what.replace(":", ""), 16)
        except ValueError:
            serial = 0
        chosen = [each for each in known if each.serial == serial]
    if not chosen:
        raise CertificateError(
            f"{what} is in no line of {REGISTER_FILE}: give ROLE/NAME, or a serial as the register has it"
        )
    if pin is None and not all(each.key for each in chosen):
        raise CertificateError(
            "an earlier release issued it and did not write its key down: give --pin, as `parley pin list` shows it at "
            "a peer"
        )
    return [Entry(each.serial, each.key or pin or b"", now, reason) for each in chosen]


def publish(folder: Path, authority: Authority, more: Sequence[Entry]) -> Revoked:
    """The next list, with these besides what is revoked already; on disk in the authority's folder when it returns.

    Its number is the time, or one more than the last: it grows even where the folder was put back to an old state.
    """
    known = held(folder, authority.certificate)
    before = known.entries if known is not None else ()
    fresh = [each for each in more if each.serial not in {entry.serial for entry in before}]
    if len(before) + len(fresh) > MOST_ENTRIES:
        raise RevocationError(f"a list holds at most {MOST_ENTRIES} certificates: begin a new federation")
    number = max(known.number + 1 if known is not None else 0, int(time.time()))
    return keep(folder, authority.revoking((*before, *fresh), number).data, authority.certificate)
