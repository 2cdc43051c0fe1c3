"""From a manifest to a run that this party takes part in, or to a refusal: seal, limits, schemas, verify, policy.

Nothing is believed: what a run costs is computed in a short-lived process. The ledger is charged for all of it once
both aggregators have signed that they admitted it, and before this party's first answer leaves (`charge`); whether it
still fits is decided in the ledger's own transaction. Reasons that others are told are about the manifest, the policy,
this institution's own schema and the budget, never about records, which are read by nothing here: they were compared
with the whole schema before (`parley.party.seal`). What costs time or memory comes after the limits on it.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from parley.federation.admission import AdmissionRecord, admit
from parley.federation.admission import Refusal as NotAdmitted
from parley.federation.errors import FederationError, ManifestError, PolicyError
from parley.federation.manifest import Manifest
from parley.federation.meaning import Meaning, verify_apart_with_charge
from parley.federation.names import NodeName
from parley.federation.policy import PartyPolicy, Policy, Reason, reasons_against, reasons_beforehand
from parley.learning.contributor import Contributor
from parley.learning.errors import DataError
from parley.models.apart import Apart
from parley.models.extractor_apart import ExtractorsApart
from parley.mpc import crash
from parley.node.data_sets import DataSet
from parley.node.endings import verify_admissions
from parley.node.evidence import EvidenceFolder, waits_for_answer
from parley.node.evidence import Stamp as EvidenceStamp
from parley.node.pins import Pins
from parley.node.trail import Trail
from parley.party.books import epsilon_spent, open_ledger, require_populations, spent_if_a_server_lies
from parley.party.code import opened, opened_extractors
from parley.party.data import Shelf, Understood, data_set_of, moved, require_equal, understand, unreadable
from parley.party.errors import AskAgainError, UnfitRecordsError, exceeded, no_part, refused
from parley.party.exclusions import in_effect
from parley.party.memory import require_agreement
from parley.party.outbox import VERIFYING, Outbox
from parley.party.review import cap_of, in_force, policy_of, require_newest
from parley.party.seal import Sealed, Stamp, stat_of
from parley.party.settings import Settings
from parley.party.standing import charge_signed, holds, refused_here
from parley.privacy.errors import BudgetExceededError, LedgerRefusedError, OtherContentError
from parley.privacy.filters import Charge, Limit
from parley.privacy.ledger_state import Run
from parley.privacy.mechanism import Unit
from parley.v1 import common_pb2

_verifying = threading.Lock()
"""One manifest at a time: each takes a process of a hundred megabytes."""


@dataclass(frozen=True)
class Waiting:
    """The policy holds something against the manifest that a person may wave through."""

    reasons: str


UNSEALED = Waiting("the records are not sealed: waiting for this party's operator, `parley schema check`")
"""The same words for every manifest."""


@dataclass
class Ready:
    """Admitted. `charge` is due before the first answer; none where the ledger has it.

    The records are read by `Gate.contributor`, after this party has said that it takes part.
    """

    understood: Understood
    data: DataSet
    sealed: Sealed
    charge: Charge | None
    module: Apart | None = None
    """Of a user's own model: its process, which has no record before `Gate.contributor`."""
    extractors: ExtractorsApart | None = None
    """Of a user's own features, likewise."""


class Gate:
    """One thread's way of deciding; its files are its own connections."""

    def __init__(self, settings: Settings, node: NodeName, shelf: Shelf) -> None:
        self.settings, self.node, self.shelf = settings, node, shelf
        require_newest(settings)
        # The ledger before anything else is made: what is there says whether there was one.
        self.ledger = open_ledger(settings)
        self.record = AdmissionRecord(settings.admissions)
        self.evidence = EvidenceFolder(settings.state)
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
            charged = self.charged_as(held.digest)
            if charged is None or charged.ended:
                continue
            for index, upload in sorted(self.outbox.uploads(held.digest).items()):
                if index not in charged.recorded:
                    self.ledger.record(held.run, index, upload.hex())

    def decide(self, manifest: Manifest) -> Ready | Waiting:
        """Admit by policy if that is what it says; a RefusedRunError where nobody may wave it through."""
        if refused_here(self.settings, manifest):
            raise no_part(manifest.run)
        if (pending := self.evidence.against(manifest)) and not self._admitted(manifest):
            return Waiting(waits_for_answer(pending))
        self.require_followed(manifest)
        data = self._chosen(manifest)
        sealed = self._sealed(data)
        if sealed is None:
            return UNSEALED
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
        if self._admitted(manifest):
            return self._ready(manifest, self._understood(manifest, sealed), None, data, sealed)
        # By figures that the manifest states: what comes after them costs time and memory in proportion.
        reasons = self._sorted(reasons_beforehand(manifest, self.node, self._policy()))
        if reasons is not None:
            return reasons
        understood = self._understood(manifest, sealed)
        self.note(manifest, VERIFYING)
        meaning, charge = self._verified(manifest)
        reasons = self._against(meaning, data)
        if reasons is not None:
            return reasons
        ready = self._ready(manifest, understood, charge, data, sealed)
        if isinstance(ready, Ready):
            self._put(meaning, data)
        return ready

    def _chosen(self, manifest: Manifest) -> DataSet:
        """The data set that the run is about, by two documents."""
        try:
            return data_set_of(self.settings, manifest, self.node)
        except ManifestError as error:
            raise refused("policy", str(error)) from None

    def _sealed(self, data: DataSet) -> Sealed | None:
        return self.shelf.seals[data.name].sealed()

    def _understood(self, manifest: Manifest, sealed: Sealed) -> Understood:
        """What it names, as this institution's schema has it too."""
        try:
            understood = understand(manifest)
            require_equal(sealed.holding, manifest, understood, self.node)
        except ManifestError as error:
            raise refused("policy", str(error)) from None
        return understood

    def open_module(self, manifest: Manifest, ready: Ready) -> None:
        """Of an admitted run, before this party says that it takes part: a user's own code, on public inputs."""
        ready.extractors = opened_extractors(manifest, ready.understood.schema, self._policy())
        party = None if ready.charge is None else self.node.name  # what was charged is not left for a slow hour
        ready.module = opened(manifest, ready.understood, self._policy(), party)

    def contributor(self, manifest: Manifest, ready: Ready) -> Contributor:
        """This party's side of an admitted run. Reads the records, so nobody may be waiting for what comes of it."""
        try:
            excluded = in_effect(self.settings, ready.data, ready.sealed, manifest, self.charged(manifest))
            understood, sealed, code = ready.understood, ready.sealed, (ready.module, ready.extractors)
            contributor = self.shelf.contributor(manifest, understood, self.node, ready.data, sealed, *code, excluded)
        except (UnfitRecordsError, DataError):
            raise unreadable() from None
        last = self.outbox.last(manifest.digest)
        contributor.last_round = last.round_index if last else -1
        return contributor

    def stamp(self) -> tuple[tuple[tuple[int, ...], ...], EvidenceStamp, tuple[Stamp, ...]]:
        """Changes when policy.toml, what people have signed or refused, evidence, a seal, a schema or records do."""
        seals = tuple(each.stamp() for each in self.shelf.seals.values())
        return (stat_of(self.settings.policy), stat_of(self.settings.review)), self.evidence.stamp(), seals

    def approved(self, manifest: Manifest) -> Ready | None:
        """Ready once a person has approved it; None before."""
        data = self._chosen(manifest)
        sealed = self._sealed(data)
        if sealed is None or not self._admitted(manifest) or self.evidence.against(manifest):
            return None
        found = self._ready(manifest, self._understood(manifest, sealed), None, data, sealed)
        return found if isinstance(found, Ready) else None

    def require_admitted(self, manifest: Manifest) -> None:
        """A refusal if that has changed since."""
        if not self._admitted(manifest):
            raise no_part(manifest.run)
        self.require_followed(manifest)

    def _require_signed(self, manifest: Manifest) -> None:
        """A refusal unless people signed for what is charged now: node.toml may name another population since."""
        if in_force(self.settings) is None or not self.record.by_hand(manifest.run):
            return
        if not holds(self.settings, manifest, charge_signed(self.settings, manifest, self._verified(manifest)[0])):
            raise refused("not_admitted", f"run {manifest.run} is not admitted here any more", "propose a new one")

    def require_followed(self, manifest: Manifest) -> None:
        """A refusal of a run whose noise a server has a hand in that is known not to follow the protocol."""
        if manifest.noise.parts.joint and (pending := self.evidence.against(manifest)):
            raise refused("caught", str(pending[-1]), "this party's operator has to answer the evidence")

    def charged(self, manifest: Manifest) -> bool:
        """Whether the ledger was charged for this run here, and not for another one of its name."""
        self.ledger.verify()
        return self.charged_as(manifest.digest) is not None

    def charged_as(self, digest: bytes) -> Run | None:
        """What the ledger was charged for this very manifest, by its admission; never what servers accounted for."""
        found = self.ledger.runs.get(self.record.name_of(digest) or "")
        return None if found is None or found.accounted else found

    def charge(self, manifest: Manifest, ready: Ready, words: Sequence[common_pb2.SignedAdmission], pins: Pins) -> None:
        """Durably, for the rows that are answered from; before the first answer, and on both aggregators' word.

        Meanwhile other runs may have been charged: one that does not fit any more is left.
        """
        if ready.charge is None:
            return
        self.require_admitted(manifest)
        self._require_signed(manifest)
        try:
            restored = verify_admissions(words, manifest, pins)
        except FederationError as error:
            raise refused(
                "not_admitted", f"a round is asked before both aggregators admitted the run: {error}"
            ) from None
        limit = self._limit(manifest)
        identity = ready.sealed.seal.identity
        self.outbox.keep_words(manifest.digest, restored)
        try:
            self._register(ready.data, ready.sealed)
            self.ledger.reserve(manifest.run, ready.data.population, ready.charge, identity.digest, limit)
        except BudgetExceededError as error:
            raise exceeded(error) from None
        except OtherContentError:
            raise moved() from None
        crash.point("party.charged")
        self._charge_what_came_meanwhile(manifest)
        head = self.ledger.verify()
        self.trail.append("run.charged", durable=True, run=manifest.run, sequence=head.sequence)
        ready.charge = None

    def _charge_what_came_meanwhile(self, manifest: Manifest) -> None:
        """Evidence that was written down before this charge and could not charge the run then: what was not in the
        ledger is passed over. Whoever writes evidence down looks for runs afterwards, so that neither misses the other.
        """
        for held in self.evidence.all():
            if manifest.run in held.runs:
                self.ledger.charge_for_cheating([manifest.run], held.digest)
        self.require_followed(manifest)

    def _admitted(self, manifest: Manifest) -> bool:
        held = self.record.held(manifest.run)
        if held is None:
            return False
        digest, withdrawn = held
        if digest != manifest.digest:
            raise refused(
                "contradiction", f"run {manifest.run} was admitted with another manifest", "choose a new name"
            )
        if withdrawn:
            raise no_part(manifest.run)
        if manifest.expired:
            raise refused("not_admitted", f"the last day of run {manifest.run} is over", "propose a new one")
        # Signatures may run out, or be objected to, until the run is charged: then it has begun.
        return not self.record.by_hand(manifest.run) or self.charged(manifest) or holds(self.settings, manifest)

    def _verified(self, manifest: Manifest) -> tuple[Meaning, Charge]:
        with _verifying:
            try:
                return verify_apart_with_charge(manifest, self.node.name, self.ledger.policy, self.settings.verified)
            except ManifestError as error:
                raise refused("policy", str(error)) from None

    def _against(self, meaning: Meaning, data: DataSet) -> Waiting | None:
        self.ledger.verify()
        spent = epsilon_spent(self.ledger, data.population)
        lying = spent_if_a_server_lies(self.ledger, data.population)
        return self._sorted(reasons_against(meaning, self.node, self._policy(), spent, lying))

    def _policy(self) -> Policy | None:
        try:
            return policy_of(self.settings)
        except PolicyError:
            return None  # half of one admits nothing either

    @staticmethod
    def _sorted(reasons: tuple[Reason, ...]) -> Waiting | None:
        text = "; ".join(str(reason) for reason in reasons)
        if any(reason.final and not reason.mendable for reason in reasons):
            raise refused("policy", text)
        return Waiting(text) if reasons else None

    def _limit(self, manifest: Manifest) -> Limit | None:
        """What the policy lets these records cost in all, as it is now; none where there is no policy at all."""
        try:
            policy = policy_of(self.settings)
        except PolicyError:
            raise AskAgainError("policy.toml is not understood: correct it, nothing is charged before") from None
        if not isinstance(policy, PartyPolicy):
            return None
        return Limit(policy.epsilon_total, manifest.guarantee.epsilon, policy.epsilon_if_a_server_lies_total)

    def _put(self, meaning: Meaning, data: DataSet) -> None:
        try:
            spent = epsilon_spent(self.ledger, data.population)
            lying = spent_if_a_server_lies(self.ledger, data.population)
            found = admit(self.record, meaning, self.node, policy_of(self.settings), spent, lying)
        except FederationError as error:  # such as a second manifest under one run's name
            raise refused("contradiction", str(error)) from None
        if isinstance(found, NotAdmitted):
            raise refused("policy", str(found))
        self.record.now_by_policy(meaning.manifest.digest)  # signatures that hold no more let it in before

    def _ready(
        self, manifest: Manifest, understood: Understood, charge: Charge | None, data: DataSet, sealed: Sealed
    ) -> Ready | Waiting:
        """With the records as they were sealed, which are those that the run was charged for, if it was charged."""
        if sealed.seal.ledger != self.ledger.mark:
            return UNSEALED  # whose records these are is known to another ledger
        self._require_content(manifest, sealed)
        try:
            require_populations(self.ledger, self.settings)
            self.ledger.require_own(data.population, sealed.seal.identity)
        except LedgerRefusedError:
            return UNSEALED  # `parley schema check` says the same to its operator
        return Ready(understood, data, sealed, self._due(manifest, data, sealed, charge))

    def _due(self, manifest: Manifest, data: DataSet, sealed: Sealed, charge: Charge | None) -> Charge | None:
        """What is to be charged before the first answer; none where the ledger has it."""
        if self.charged(manifest):
            return None
        if manifest.run in self.ledger.runs:
            # Whatever its charge is: a name alone would let another manifest be answered under it.
            raise refused("contradiction", f"run {manifest.run} was charged for another manifest", "choose a new name")
        due = charge or self._verified(manifest)[1]
        self._require_room(manifest, data, sealed, due)
        return due

    def _require_content(self, manifest: Manifest, sealed: Sealed) -> None:
        if not self.charged(manifest):
            return
        try:
            self.ledger.require_content(manifest.run, sealed.seal.identity.digest)
        except OtherContentError:
            raise moved() from None
        except LedgerRefusedError as error:
            raise refused("policy", f"this party's ledger does not admit the run: {error}") from None

    def _require_room(self, manifest: Manifest, data: DataSet, sealed: Sealed, charge: Charge) -> None:
        """Early, so that a run that does not fit is declined and not left; the charge itself decides."""
        try:
            limit = self._limit(manifest)
        except AskAgainError:
            limit = None  # approved by hand, and not charged before the policy is mended
        unit = Unit(sealed.holding.unit)
        try:
            self.ledger.require_room(data.population, unit, cap_of(self.settings), charge, limit)
        except BudgetExceededError as error:
            raise exceeded(error) from None
        except LedgerRefusedError as error:
            raise refused("policy", f"this party's ledger does not admit the run: {error}") from None

    def _register(self, data: DataSet, sealed: Sealed) -> None:
        """Whose data this is, by content, so that a renamed file does not come with a fresh budget.

        As it was sealed: no manifest has a say in it, and how long it takes to compute is nobody's to see.
        """
        identity, name = sealed.seal.identity, data.population
        self.ledger.verify()
        if name in self.ledger.populations:
            self.ledger.extend(name, identity)
            return
        self.ledger.register(name, Unit(sealed.holding.unit), cap_of(self.settings), identity)

    def note(self, manifest: Manifest, state: str, reason: str = "") -> str:
        """Where the run stands, for this party's operator and its audit trail: public facts only."""
        self.outbox.note(manifest.digest, manifest.run, manifest.canonical, state, reason)
        self.shelf.noted(manifest, state)
        return self.trail.append(f"run.{state}", durable=True, run=manifest.run, manifest=manifest.digest.hex())
