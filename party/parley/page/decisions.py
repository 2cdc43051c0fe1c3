"""What a person decides on a page goes through the functions of the commands, so that the trail says who did it.

Only what was shown is decided on: `app` compares what a form carries with what it would show now, before it calls one
of these. Reviewers' keys never pass through a browser: where signatures are demanded, the page says who has signed, and
which command a reviewer pastes.
"""

from parley.errors import ParleyError
from parley.federation.manifest import Manifest
from parley.page import views
from parley.page.reading import Folder
from parley.party import approval
from parley.party.leaving import withdraw as leave

LONGEST_NAME, LONGEST_REASON = 80, 300


def review_of(folder: Folder, manifest: Manifest) -> views.Review:
    """Who has signed, who objects, and whether this institution has refused the run."""
    found = approval.standing(folder.settings, manifest)
    command = (
        f"parley party approve {folder.node.folder} {manifest.run} --digest {manifest.digest.hex()} "
        "--reviewer NAME --key FILE"
    )
    return views.Review(
        needed=found.needed,
        enough=found.enough,
        signatures=tuple(
            views.Signature(each.reviewer, each.at, each.expires, each.counts, each.why_not)
            for each in found.signatures
        ),
        objections=tuple(
            views.Objection(each.reviewer, each.reason, each.at, each.digest) for each in found.objections
        ),
        refused=views.Refused(found.refused.by, found.refused.reason, found.refused.at) if found.refused else None,
        command=command if found.needed else "",
    )


def approve(folder: Folder, manifest: Manifest, view: views.RunView, by: str) -> str:
    """What keeps it from being approved; empty where it is."""
    found = approval.approve(folder.settings, manifest, manifest.digest.hex(), by, lambda _: None)
    if not found.admitted:
        return "It was not approved: " + "; ".join(found.reasons)
    return ""


def refuse(folder: Folder, manifest: Manifest, by: str, reason: str) -> str:
    approval.refuse(folder.settings, manifest, by, reason)
    return ""


def withdraw(folder: Folder, manifest: Manifest, by: str) -> str:
    leave(folder.node, manifest.run, by)
    return ""


def problem_with_name(by: str) -> str:
    """Nobody approves without a name."""
    if not by.strip() or not by.isprintable() or len(by) > LONGEST_NAME:
        return f"Give your name, on one line of up to {LONGEST_NAME} characters: it goes into this node’s audit trail."
    return ""


def problem_with_reason(reason: str) -> str:
    if not reason.strip() or not reason.isprintable() or len(reason) > LONGEST_REASON:
        return f"Give a reason, on one line of up to {LONGEST_REASON} characters. It stays at this institution."
    return ""


def said(error: ParleyError | OSError) -> str:
    """For the person who has pressed a button."""
    return f"Nothing was changed: {error}"[:1000]
