"""What a person decides on a page goes through the functions of the commands, so that the trail says who did it.

Only what was shown is decided on: `app` compares what a form carries with what it would show now, before it calls one
of these. Reviewers' keys never pass through a browser: where signatures are demanded, the page says who has signed, and
which command a reviewer pastes.
"""

from parley.errors import ParleyError
from parley.federation.errors import FederationError, PolicyError, TrailError, UnusableRecordError
from parley.federation.manifest import Manifest
from parley.federation.policy import PartyPolicy, Policy
from parley.federation.policy_file import read_policy
from parley.page import views
from parley.page.figures import Ground
from parley.page.folder import Folder
from parley.party import approval
from parley.party.review import in_force
from parley.party.settings import Settings
from parley.party.standing import standing
from parley.party.withdrawal import withdraw as leave

LONGEST_NAME, LONGEST_REASON = 80, 300


def policy_of(settings: Settings) -> tuple[Policy | None, int]:
    """What the run is judged by here, and how many signatures it demands; unlike the node's own reading it writes
    nothing, and puts no policy in force."""
    if (held := in_force(settings)) is not None:
        return held.policy, held.review.approval
    policy = read_policy(settings.policy) if settings.policy.exists() else None
    review = policy.review if isinstance(policy, PartyPolicy) else None
    return policy, review.approval if review is not None else 0


def review_of(folder: Folder, manifest: Manifest, needed: int) -> views.Review:
    """Who has signed, who objects, and whether this institution has refused the run."""
    found = standing(folder.settings, manifest)
    sign = (
        f"parley party approve {folder.path} {manifest.run} --digest {manifest.digest.hex()} --reviewer NAME --key FILE"
    )
    answer = ' --answer "TEXT"' if found.objections else ""
    return views.Review(
        needed=needed,
        enough=bool(needed) and found.needed == needed and found.enough,
        signatures=tuple(
            views.Signature(each.reviewer, each.at, each.expires, each.counts, each.why_not)
            for each in found.signatures
        ),
        objections=tuple(
            views.Objection(each.reviewer, each.reason, each.at, each.digest) for each in found.objections
        ),
        refused=views.Refused(found.refused.by, found.refused.reason, found.refused.at) if found.refused else None,
        command=f"{sign}{answer}" if needed else "",
    )


def ground_of(folder: Folder, manifest: Manifest) -> Ground:
    """The policy in force and the reviewers' words, as far as they can be read."""
    policy, needed, problem = None, 0, ""
    try:
        policy, needed = policy_of(folder.settings)
    except PolicyError as error:
        problem = f"The policy is not understood, so it admits nothing: {error}"
    except (ParleyError, OSError) as error:
        return Ground(None, "", views.Review(), _unread(error))
    try:
        return Ground(policy, problem, review_of(folder, manifest, needed))
    except (ParleyError, OSError) as error:
        return Ground(policy, problem, views.Review(needed), _unread(error))


def _unread(error: ParleyError | OSError) -> str:
    return f"What the reviewers have said cannot be read, so nothing is approved here: {error}"[:500]


def approve(folder: Folder, manifest: Manifest, view: views.RunView, by: str) -> str:
    """What keeps it from being approved; empty where it is."""
    shown = tuple(each.words for each in view.reasons)
    found = approval.approve(folder.settings, manifest, manifest.digest.hex(), by, lambda _: None, shown)
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
    """For the person who has pressed a button: what was refused has changed nothing, what failed may have."""
    if isinstance(error, FederationError) and not isinstance(error, UnusableRecordError | TrailError):
        return f"Nothing was changed: {error}"[:1000]
    return f"It may have been recorded: look at the run. {error}"[:1000]
