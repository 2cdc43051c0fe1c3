"""A list of revoked certificates, as `parley ca` and `parley node` print it."""

from parley.cli.console import emit_json
from parley.node.pins import key_text
from parley.node.revocation import Revoked


def show_revoked(found: Revoked, json_output: bool) -> None:
    """Its number, its age, and every key."""
    if json_output:
        entries = [
            {"serial": f"{each.serial:x}", "pin": key_text(each.key), "at": each.at.isoformat(), "reason": each.reason}
            for each in found.entries
        ]
        emit_json({"number": found.number, "issued": found.issued.isoformat(), "revoked": entries})
        return
    print(f"list         {found.number}, of {found.issued:%Y-%m-%d %H:%M} UTC")
    for each in found.entries:
        print(f"revoked      {each.at:%Y-%m-%d}  {each.reason:14}  {key_text(each.key)}")
