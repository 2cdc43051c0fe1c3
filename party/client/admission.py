"""From a manifest to a charged run, or to a refusal: verify, ask the policy, look at the records, charge the ledger.

Nothing is believed: what a run costs is computed in a short-lived process, and the ledger is charged for all of it
before this party says that it takes part. Reasons that others are told are about the manifest, the policy and the
budget, never about records. Imports `mpc.crash`, `privacy`, `parley` and `party` only.
"""

import contextlib
import threading
from dataclasses import dataclass

from parley.federation.admission import AdmissionRecord, admit
from parley.federation.admission import Refusal as NotAdmitted
from parley.federation.errors import FederationError, ManifestError, PolicyError
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning, verify_apart_with_charge
from parley.federation.names import NodeName
from parley.federation.policy import PartyPolicy, Policy, read_policy, reasons_against
from parley.federation.trail import Trail

from mpc import crash
from party.client.data import Shelf, Understood, understand, unfit
from party.client.errors import UnfitRecordsError, refused
from party.client.outbox import VERIFYING, Outbox
from party.client.settings import Settings, Vocabulary
from party.contributor import Contributor
from privacy.accountants import conversion
from privacy.errors import BudgetExceeded, LedgerRefused
from privacy.filters import Cap, Charge, Cost
from privacy.filters import Policy as Filter
from privacy.ledger import Ledger
from privacy.mechanism import Unit

_verifying = threading.Lock()
"""One manifest at a time: each takes a process of a hundred megabytes."""


@dataclass(frozen=True)
class Waiting:
    """The policy holds something against the manifest that a person may wave through."""

    reasons: str


@dataclass(frozen=True)
class Ready:
    """Admitted and charged."""

    contributor: Contributor


def open_ledger(settings: Settings) -> Ledger:
    """This party's ledger; an empty one at first."""
    if not settings.ledger.exists():
        with contextlib.suppress(LedgerRefused):  # another thread was faster
            Ledger.create(settings.ledger, Filter()).close()
    return Ledger.open(settings.ledger)


def epsilon_spent(ledger: Ledger, population: str) -> float:
    """What the ledger has charged for these records, as one ε."""
    if population not in ledger.populations:
        return 0.0
    held = ledger.populations[population]
    return held.spent.epsilon if ledger.policy.rule == "basic" else _converted(ledger.policy, held.cap, held.spent)


def spent_if_a_server_lies(ledger: Ledger, population: str) -> float | None:
    """The sum of ε₂ over these records' runs; None where one had no guarantee."""
    if population not in ledger.populations:
        return 0.0
    return ledger.populations[population].spent.epsilon_if_a_server_lies


def _converted(filters: Filter, cap: Cap, spent: Cost) -> float:
    if spent.rdp == 0 or filters.order is None:
        return 0.0
    # At half of the cap's δ, so that the sampler's terms have room beside it.
    return spent.rdp + max(0.0, conversion(filters.order, cap.delta / 2)) + 2 * spent.xi


def policy_of(settings: Settings) -> Policy | None:
    """Read at every manifest; none where there is no file, an error where it is not understood."""
    return read_policy(settings.policy) if settings.policy.exists() else None


class Gate:
    """One thread's way of deciding; its files are its own connections."""

    def __init__(self, settings: Settings, node: NodeName, shelf: Shelf, vocabulary: Vocabulary) -> None:
        self.settings, self.node, self.shelf, self.vocabulary = settings, node, shelf, vocabulary
        self.record = AdmissionRecord(settings.admissions)
        self.ledger = open_ledger(settings)
        self.outbox = Outbox(settings.outbox)
        self.trail = Trail.open(settings.trail, node)

    def close(self) -> None:
        self.record.close()
        self.ledger.close()
        self.outbox.close()
        self.trail.close()

    def catch_up(self) -> None:
        """Note in the ledger what only the outbox has: a crash came between the two, or the power failed after them."""
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
            return self._charged(manifest, understood, None)
        self.note(manifest, VERIFYING)
        meaning, charge = self._verified(manifest)
        reasons = self._against(meaning)
        if reasons is not None:
            return reasons
        contributor = self._contributor(manifest, understood)
        self._put(meaning)
        return self._charged(manifest, understood, charge, contributor)

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
        return self._charged(manifest, understand(manifest, self.vocabulary), None)

    def require_admitted(self, manifest: Manifest) -> None:
        """A refusal if that has changed since."""
        if not self._admitted(manifest):
            raise refused("not_admitted", f"run {manifest.run} is not admitted here any more", "propose a new one")

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
        lying = spent_if_a_server_lies(self.ledger, self.settings.population)
        try:
            policy = policy_of(self.settings)
        except PolicyError:
            policy = None  # half of one admits nothing either
        reasons = reasons_against(meaning, self.node, policy, spent, lying)
        text = "; ".join(str(reason) for reason in reasons)
        if any(reason.final for reason in reasons):
            raise refused("policy", text)
        return Waiting(text) if reasons else None

    def _contributor(self, manifest: Manifest, understood: Understood) -> Contributor:
        try:
            return self.shelf.contributor(manifest, understood, self.node)
        except UnfitRecordsError:
            raise unfit() from None

    def _put(self, meaning: Meaning) -> None:
        try:
            spent = epsilon_spent(self.ledger, self.settings.population)
            lying = spent_if_a_server_lies(self.ledger, self.settings.population)
            found = admit(self.record, meaning, self.node, policy_of(self.settings), spent, lying)
        except FederationError as error:  # such as a second manifest under one run's name
            raise refused("contradiction", str(error)) from None
        if isinstance(found, NotAdmitted):
            raise refused("policy", str(found))

    def _charged(
        self, manifest: Manifest, understood: Understood, charge: Charge | None, contributor: Contributor | None = None
    ) -> Ready:
        contributor = contributor or self._contributor(manifest, understood)
        self.ledger.verify()
        held = self.ledger.runs.get(manifest.run)
        if held is None or held.charge.mechanism != manifest.mechanism.digest:
            charge = charge or self._verified(manifest)[1]
            try:
                self._register(manifest, understood)
            except LedgerRefused:
                raise unfit() from None
            try:
                self.ledger.reserve(manifest.run, self.settings.population, charge)
            except BudgetExceeded:
                raise refused(
                    "policy",
                    "privacy.epsilon: the run does not fit what is left of this party's budget",
                    "more noise or fewer rounds",
                ) from None
            except LedgerRefused as error:
                raise refused("policy", f"this party's ledger does not admit the run: {error}") from None
            crash.point("party.charged")
        last = self.outbox.last(manifest.digest)
        contributor.last_round = last.round_index if last else -1
        return Ready(contributor)

    def _register(self, manifest: Manifest, understood: Understood) -> None:
        """Whose data this is, by content, so that a renamed file does not come with a fresh budget."""
        identity = self.ledger.identity(self.shelf.rows(understood.schema))
        name = self.settings.population
        if name in self.ledger.populations:
            self.ledger.extend(name, identity)
            return
        policy = None
        with contextlib.suppress(PolicyError):
            policy = policy_of(self.settings)
        unit = Unit(policy.unit_column) if isinstance(policy, PartyPolicy) else manifest.mechanism.unit
        self.ledger.register(name, unit, self.settings.cap, identity)

    def note(self, manifest: Manifest, state: str, reason: str = "") -> str:
        """Where the run stands, for this party's operator and its audit trail: public facts only."""
        self.outbox.note(manifest.digest, manifest.run, manifest.canonical, state, reason)
        return self.trail.append(f"run.{state}", durable=True, run=manifest.run, manifest=manifest.digest.hex())
