"""From a manifest to a run that this party takes part in, or to a refusal: verify, ask the policy, look at the records.

Nothing is believed: what a run costs is computed in a short-lived process. The ledger is charged for all of it once
both aggregators have signed that they admitted it, and before this party's first answer leaves (`charge`); whether it
still fits is decided in the ledger's own transaction. Reasons that others are told are about the manifest, the policy
and the budget, never about records. Imports `mpc.crash`, `privacy`, `parley` and `party` only.
"""

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from parley.federation.admission import AdmissionRecord, admit
from parley.federation.admission import Refusal as NotAdmitted
from parley.federation.endings import verify_admissions
from parley.federation.errors import FederationError, ManifestError, PolicyError
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning, verify_apart_with_charge
from parley.federation.names import NodeName
from parley.federation.policy import PartyPolicy, Policy, read_policy, reasons_against
from parley.federation.trail import Trail
from parley.v1 import common_pb2

from mpc import crash
from party.client.data import Own, Shelf, Understood, moved, understand, unfit
from party.client.errors import AskAgainError, RefusedRunError, UnfitRecordsError, refused
from party.client.outbox import VERIFYING, Outbox
from party.client.remembering import require_agreement, require_ledger
from party.client.settings import Settings, Vocabulary
from party.contributor import Contributor
from privacy.errors import BudgetExceeded, LedgerRefused, OtherContent
from privacy.filters import Charge, Limit, epsilon_of
from privacy.filters import Policy as Filter
from privacy.ledger import Ledger
from privacy.mechanism import Unit

_verifying = threading.Lock()
"""One manifest at a time: each takes a process of a hundred megabytes."""


@dataclass(frozen=True)
class Waiting:
    """The policy holds something against the manifest that a person may wave through."""

    reasons: str


@dataclass
class Ready:
    """Admitted. `charge` is due before the first answer; none where the ledger has it."""

    contributor: Contributor
    own: Own
    charge: Charge | None


def open_ledger(settings: Settings) -> Ledger:
    """This party's ledger; an empty one at first, and never where anything says that there was one."""
    if not settings.ledger.exists():
        require_ledger(settings)
        with contextlib.suppress(LedgerRefused):  # another thread was faster
            Ledger.create(settings.ledger, Filter()).close()
    return Ledger.open_newest(settings.ledger)


def epsilon_spent(ledger: Ledger, population: str) -> float:
    """What the ledger has charged for these records, as one ε."""
    if population not in ledger.populations:
        return 0.0
    held = ledger.populations[population]
    return epsilon_of(ledger.policy, held.cap, held.spent)


def policy_of(settings: Settings) -> Policy | None:
    """Read at every manifest; none where there is no file, an error where it is not understood."""
    return read_policy(settings.policy) if settings.policy.exists() else None


def exceeded(error: BudgetExceeded) -> RefusedRunError:
    """In words for everybody: which part of the budget, and not what else was spent."""
    named = " and ".join(f"privacy.{what}" for what in error.exhausted)
    return refused("policy", f"{named}: the run does not fit what is left of this party's budget", advice(error))


def advice(error: BudgetExceeded) -> str:
    return "more noise or fewer rounds" if error.exhausted == ("epsilon",) else "a run with a smaller delta"


class Gate:
    """One thread's way of deciding; its files are its own connections."""

    def __init__(self, settings: Settings, node: NodeName, shelf: Shelf, vocabulary: Vocabulary) -> None:
        self.settings, self.node, self.shelf, self.vocabulary = settings, node, shelf, vocabulary
        # The ledger before anything else is made: what is there says whether there was one.
        self.ledger = open_ledger(settings)
        self.record = AdmissionRecord(settings.admissions)
        self.outbox = Outbox(settings.outbox)
        self.trail = Trail.open(settings.trail, node)

    def close(self) -> None:
        self.record.close()
        self.ledger.close()
        self.outbox.close()
        self.trail.close()

    def catch_up(self) -> None:
        """Note in the ledger what only the outbox has: a crash came between the two, or the power failed after them."""
        self.outbox.require_sound()
        require_agreement(self.ledger, self.outbox, self.settings.trail)
        for held in self.outbox.runs():
            charged = self.ledger.runs.get(held.run)
            if charged is None or charged.ended:
                continue
            for index, upload in sorted(self.outbox.uploads(held.digest).items()):
                if index not in charged.recorded:
                    self.ledger.record(held.run, index, upload.hex())

    def decide(self, manifest: Manifest) -> Ready | Waiting:
        """Admit by policy if that is what it says; a RefusedRunError where nobody may wave it through."""
        if manifest.coordinator.name != self.settings.coordinator:
            raise refused(
                "not_a_member",
                f"coordinator.name is {manifest.coordinator.name!r} and {self.settings.coordinator!r} proposes the run",
                "each coordinator proposes its own runs",
            )
        for index, operator in enumerate(manifest.aggregators):
            if operator.name not in self.settings.aggregators:
                raise refused(
                    "policy",
                    f"aggregators[{index}].name: {operator.name!r} is unknown to this party",
                    "choose another aggregator, or have its address added to node.toml",
                )
        try:
            understood = understand(manifest, self.vocabulary)
        except ManifestError as error:
            raise refused("policy", str(error)) from None
        if self._admitted(manifest):
            return self._ready(manifest, understood, None)
        self.note(manifest, VERIFYING)
        meaning, charge = self._verified(manifest)
        reasons = self._against(meaning)
        if reasons is not None:
            return reasons
        ready = self._ready(manifest, understood, charge)
        self._put(meaning)
        return ready

    def policy_stamp(self) -> tuple[int, int, int] | None:
        """Changes when policy.toml does."""
        try:
            found = self.settings.policy.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def approved(self, manifest: Manifest) -> Ready | None:
        """Ready once a person has approved it; None before."""
        if not self._admitted(manifest):
            return None
        return self._ready(manifest, understand(manifest, self.vocabulary), None)

    def require_admitted(self, manifest: Manifest) -> None:
        """A refusal if that has changed since."""
        if not self._admitted(manifest):
            raise refused("not_admitted", f"run {manifest.run} is not admitted here any more", "propose a new one")

    def charged(self, manifest: Manifest) -> bool:
        """Whether the ledger was charged for this run, and not for another one of its name."""
        self.ledger.verify()
        return manifest.run in self.ledger.runs and any(
            admission.manifest.digest == manifest.digest for admission, _ in self.record.all()
        )

    def charge(
        self, manifest: Manifest, ready: Ready, words: Sequence[common_pb2.SignedAdmission], authority: bytes
    ) -> None:
        """Durably, for the rows that are answered from; before the first answer, and on both aggregators' word.

        Meanwhile other runs may have been charged: one that does not fit any more is left.
        """
        if ready.charge is None:
            return
        try:
            verify_admissions(words, manifest, authority)
        except FederationError as error:
            raise refused(
                "not_admitted", f"a round is asked before both aggregators admitted the run: {error}"
            ) from None
        limit = self._limit(manifest)
        identity = ready.own.loaded.identity
        try:
            self._register(manifest, ready)
            self.ledger.reserve(manifest.run, self.settings.population, ready.charge, identity.digest, limit)
        except BudgetExceeded as error:
            raise exceeded(error) from None
        except OtherContent:
            raise moved() from None
        crash.point("party.charged")
        head = self.ledger.verify()
        self.trail.append("run.charged", durable=True, run=manifest.run, sequence=head.sequence)
        ready.charge = None

    def _admitted(self, manifest: Manifest) -> bool:
        for admission, withdrawn in self.record.all():
            if admission.manifest.run != manifest.run:
                continue
            if admission.manifest.digest != manifest.digest:
                raise refused(
                    "contradiction", f"run {manifest.run} was admitted with another manifest", "choose a new name"
                )
            if withdrawn:
                raise refused("not_admitted", f"this party has left run {manifest.run}", "propose a new one")
            return True
        return False

    def _verified(self, manifest: Manifest) -> tuple[Meaning, Charge]:
        with _verifying:
            try:
                return verify_apart_with_charge(manifest, self.node.name, self.ledger.policy, self.settings.verified)
            except ManifestError as error:
                raise refused("policy", str(error)) from None

    def _against(self, meaning: Meaning) -> Waiting | None:
        self.ledger.verify()
        spent = epsilon_spent(self.ledger, self.settings.population)
        try:
            policy = policy_of(self.settings)
        except PolicyError:
            policy = None  # half of one admits nothing either
        reasons = reasons_against(meaning, self.node, policy, spent)
        text = "; ".join(str(reason) for reason in reasons)
        if any(reason.final for reason in reasons):
            raise refused("policy", text)
        return Waiting(text) if reasons else None

    def _limit(self, manifest: Manifest) -> Limit | None:
        """What the policy lets these records cost in all, as it is now; none where there is no policy at all."""
        try:
            policy = policy_of(self.settings)
        except PolicyError:
            raise AskAgainError("policy.toml is not understood: mend it, nothing is charged before") from None
        return Limit(policy.epsilon_total, manifest.guarantee.epsilon) if isinstance(policy, PartyPolicy) else None

    def _put(self, meaning: Meaning) -> None:
        try:
            spent = epsilon_spent(self.ledger, self.settings.population)
            found = admit(self.record, meaning, self.node, policy_of(self.settings), spent)
        except FederationError as error:  # such as a second manifest under one run's name
            raise refused("contradiction", str(error)) from None
        if isinstance(found, NotAdmitted):
            raise refused("policy", str(found))

    def _ready(self, manifest: Manifest, understood: Understood, charge: Charge | None) -> Ready:
        """With the rows that are there now, which are those that the run was charged for, if it was charged."""
        own = self.own(manifest, understood)
        return Ready(own.contributor, own, self._due(manifest, own, charge))

    def own(self, manifest: Manifest, understood: Understood) -> Own:
        """This party's side of the run. A run that was charged is left for good where its records are others now."""
        try:
            own = self.shelf.contributor(manifest, understood, self.node, self.ledger.identity)
        except UnfitRecordsError:
            raise (moved() if self.charged(manifest) else unfit()) from None
        self._require_content(manifest, own)
        last = self.outbox.last(manifest.digest)
        own.contributor.last_round = last.round_index if last else -1
        return own

    def _due(self, manifest: Manifest, own: Own, charge: Charge | None) -> Charge | None:
        """What is to be charged before the first answer; none where the ledger has it."""
        self.ledger.verify()
        held = self.ledger.runs.get(manifest.run)
        if held is not None and held.charge.mechanism == manifest.mechanism.digest:
            return None
        due = charge or self._verified(manifest)[1]
        self._require_room(manifest, own, due)
        return due

    def _require_content(self, manifest: Manifest, own: Own) -> None:
        if not self.charged(manifest):
            return
        try:
            self.ledger.require_content(manifest.run, own.loaded.identity.digest)
        except OtherContent:
            raise moved() from None
        except LedgerRefused as error:
            raise refused("policy", f"this party's ledger does not admit the run: {error}") from None

    def _require_room(self, manifest: Manifest, own: Own, charge: Charge) -> None:
        """Early, so that a run that does not fit is declined and not left; the charge itself decides."""
        if self.ledger.find(own.loaded.identity) not in (None, self.settings.population):
            raise unfit()
        try:
            limit = self._limit(manifest)
        except AskAgainError:
            limit = None  # approved by hand, and not charged before the policy is mended
        try:
            self.ledger.require_room(
                self.settings.population, self._unit(charge.unit), self.settings.cap, charge, limit
            )
        except BudgetExceeded as error:
            raise exceeded(error) from None
        except LedgerRefused as error:
            raise refused("policy", f"this party's ledger does not admit the run: {error}") from None

    def _register(self, manifest: Manifest, ready: Ready) -> None:
        """Whose data this is, by content, so that a renamed file does not come with a fresh budget."""
        identity, name = ready.own.loaded.identity, self.settings.population
        self.ledger.verify()
        if name in self.ledger.populations:
            self.ledger.extend(name, identity)
            return
        self.ledger.register(name, self._unit(manifest.mechanism.unit), self.settings.cap, identity)

    def _unit(self, asked: Unit) -> Unit:
        """Whose privacy a new population is kept by: the policy's, and the run's only where there is no policy."""
        policy = None
        with contextlib.suppress(PolicyError):
            policy = policy_of(self.settings)
        return Unit(policy.unit_column) if isinstance(policy, PartyPolicy) else asked

    def note(self, manifest: Manifest, state: str, reason: str = "") -> str:
        """Where the run stands, for this party's operator and its audit trail: public facts only."""
        self.outbox.note(manifest.digest, manifest.run, manifest.canonical, state, reason)
        return self.trail.append(f"run.{state}", durable=True, run=manifest.run, manifest=manifest.digest.hex())
