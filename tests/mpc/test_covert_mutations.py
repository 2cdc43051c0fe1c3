"""Every check of who makes noise under audit and of who judges it, taken out in turn: then a cheat gets through.

The honest server, or the judge, is the product with that one line changed; the cheat is one that test_covert.py and
test_evidence.py show to be stopped.
"""

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any
from unittest import mock

import pytest

from parley.mpc import audit
from parley.mpc.errors import (
    AcceptedCountError,
    CaughtError,
    EvidenceError,
    PeerCheatedError,
    SealBrokenError,
    TermsDifferError,
)
from parley.mpc.evidence import Evidence, judge
from parley.mpc.handover import Opening
from parley.mpc.replay import departure
from parley.mpc.tables import load
from tests.mpc.test_covert import BREACHES, Held, counting, lies_in, only, other_signing
from tests.mpc.test_evidence import accusations, by_hand
from tests.support.covert import (
    LIES,
    QUIET,
    Auditor,
    Class,
    End,
    auditing,
    changed,
    liar,
    never,
    public,
    run,
    sign,
    signing,
    verify,
)

Edit = tuple[str, str]


def honest(edit: Edit | None, coins: Callable[[int], bool] = never) -> Class:
    """With a line of covert.py changed, or as it is."""
    return auditing(coins, liar(edit) if edit else Auditor)


# ------------------------------------------------------------ the session


def breach(name: str) -> Callable[[Class], End]:
    return lambda server: run(1, lanes=64, classes=(server, auditing(never, liar(BREACHES[name][0]))))[0]


def squeezed(server: Class) -> End:
    return run(1, lanes=1024, classes=(server, auditing(never, LIES["squeeze"]())))[0]


def unpinned(server: Class) -> End:
    stranger = other_signing(key=public(7), sign=lambda text: sign(7, text))
    return run(1, classes=(server, QUIET), signings=(signing(0), stranger))[0]


SESSION: dict[str, tuple[Edit, Callable[[Class], End], type[Exception]]] = {
    "the witness that is handed over": (
        ("if witness_digest(batch, peer, their_witness) != their_head.witness:", "if False:"),
        breach("hands over another witness"), PeerCheatedError,
    ),
    "the claim to have audited": (
        ("if not hmac.compare_digest(rest[:DIGEST_BYTES], due):", "if False:"),
        breach("claims an audit that it has not made"), PeerCheatedError,
    ),
    "the claim not to have audited": (
        ("if not hmac.compare_digest(rest[:DIGEST_BYTES], due):", "if False:"),
        breach("returns another witness"), PeerCheatedError,
    ),
    "the signature": (
        ("if not self._signing.verify(key, record.statement(peer), theirs):", "if False:"),
        breach("signs nothing"), PeerCheatedError,
    ),
    "the seal of the accept bits": (
        ("if not hmac.compare_digest(accept_seal(batch, peer, their_salt, their_share), their_seal.accept):",
         "if False:"),
        breach("opens other accept bits"), SealBrokenError,
    ),
    "the count of accepted lanes": (
        ("check_accepted(self.tables, lanes, int(accepted.sum()))", "pass"), squeezed, AcceptedCountError,
    ),
    "the pin": (("if key not in self._signing.peer_keys():", "if False:"), unpinned, TermsDifferError),
}  # fmt: skip


@pytest.mark.parametrize("name", SESSION)
def test_a_session_without_one_check_lets_a_cheat_through(name: str) -> None:
    edit, attack, error = SESSION[name]
    assert type(attack(honest(None)).error) is error
    through = attack(honest(edit))
    assert type(through.error) is not error, through.error
    assert len(through.batches) > 0


def test_a_session_without_a_quota_makes_no_noise_for_ever() -> None:
    lax = counting(Fraction(1, 8), liar(("if made > most:", "if False:")))
    for _ in range(1000):
        lax._count(True)


def test_a_batch_that_the_other_one_audits_would_be_used() -> None:
    """The auditor knows every sample of it."""
    edit = ("if audit or claim:", "if audit:")
    told = ("said.audited(batch, peer) + bytes(ACCEPT_SALT_BYTES + len(share))",
            "said.audited(batch, peer) + salt + share")  # fmt: skip
    curious = auditing(only(1), liar(told))
    for server, used in ((honest(None), False), (honest(edit), True)):
        a, _ = run(1, lanes=64, classes=(server, curious))
        assert (len(a.batches) == 1 and len(a.batches[0]) > 0) == used


def test_a_batch_after_a_lie_would_leave_quarantine() -> None:
    for edit, used in ((None, False), (("self._audits.hear(before)", "pass"), True)):
        held = Held()
        leave = held.may_end
        if edit is None:
            leave.set()
        with mock.patch.object(audit, "departure", held.departure):
            server = honest(edit, only(2))

            class Letting(server):  # type: ignore[valid-type,misc]
                """Lets the replay end after three batches, if it has not been waited for."""

                _number: int

                def samples(self, lanes: int, leave: Any = leave) -> Any:
                    got = super().samples(lanes)
                    if self._number == 3:
                        leave.set()
                    return got

            a, _ = run(4, lanes=64, classes=(Letting, lies_in(2)))
        assert isinstance(a.error, CaughtError)
        assert (len(a.batches) > 2 and len(a.batches[2]) > 0) == used


def test_who_hangs_up_would_get_away() -> None:
    lie = ("Seal(accept_seal(batch, role, salt, share)", "Seal(bytes(32)")
    leave = ("answer = yield from _swap(last)", "raise FrameError('hangs up')")
    for edit, caught in ((None, True), (("self._audits.hear(self._audits.waiting)", "pass"), False)):
        a, _ = run(1, classes=(honest(edit, only(1)), auditing(never, liar(lie, leave))))
        assert isinstance(a.error, CaughtError) == caught


def test_evidence_that_convinces_nobody_would_be_kept() -> None:
    without = changed("audit", ("if not verdict.guilty:", "if False:"))
    for module, kept in ((audit, 0), (without, 1)):
        with (
            mock.patch.object(module, "departure", return_value="made up"),
            mock.patch("parley.mpc.covert.Audits", module.Audits),
        ):
            a, _ = run(1, classes=(auditing(only(1)), QUIET))
        assert len(a.evidence) == kept


# ------------------------------------------------------------ the replay

REPLAY: dict[str, tuple[Edit, str]] = {
    "the commitment": (
        ("if opening.commitment(record.batch, role) != record.heads[role].commitment:", "if False:"), "two seeds"),
    "the frames": (
        ("if tags.of(role, index, frame) != tag:", "if False:"),
        "one wrong bit"),
    "the seal": (
        ('return None if stop.value == record.seals[role].accept else "its sealed accept bits are not its seed\'s"',
         "return None"), "false accept bits"),
}  # fmt: skip


@pytest.mark.parametrize("name", REPLAY)
def test_a_replay_without_one_check_finds_nothing(name: str) -> None:
    edit, lie = REPLAY[name]
    for compare, caught in ((departure, True), (changed("replay", edit).departure, False)):
        with mock.patch.object(audit, "departure", compare):
            a, _ = run(1, classes=(auditing(only(1)), auditing(never, LIES[lie]())))
        assert isinstance(a.error, CaughtError) == caught, a.error


# ------------------------------------------------------------ the judge


def unjust(name: str) -> tuple[Evidence, bool]:
    """Something that an accuser made up; and whether it is guilty by right."""
    innocent, proved = accusations("")[0], accusations("one wrong bit")[0]
    if name == "unsigned":
        return by_hand(innocent, tags=(innocent.record.tags[0], (bytes(16), *innocent.record.tags[1][1:]))), False
    if name == "another salt":
        return dataclasses.replace(proved, opening=Opening(proved.opening.seed, proved.opening.delta, bytes(32))), False
    if name == "another question":
        return dataclasses.replace(innocent, x=bytes([3]) + bytes(31)), False
    if name == "both lied at once":
        lie = LIES["one wrong bit"]()
        return run(1, classes=(lie, lie))[0].session.accusations[0], False
    if name == "the accuser lied first":
        return accusations("one wrong bit")[1], False
    return accusations(name)[0], True


JUDGE: dict[str, tuple[str, Edit, str]] = {
    "the signature": ("evidence", ("    if not signed:", "    if False:"), "unsigned"),
    "the accuser's commitment": (
        "evidence", ("if evidence.opening.commitment(batch, accuser) != head.commitment:", "if False:"),
        "another salt"),
    "the accuser's question": (
        "evidence", ("if question(evidence.x, point, audit=True) != head.asked:", "if False:"), "another question"),
    "the commitment of the accused": (
        "evidence", ("if opening.commitment(batch, accused) != record.heads[accused].commitment:", "if False:"),
        "two seeds"),
    "the accuser's frames": (
        "replay", ("        for role in order:", "        for role in (accused,):"), "the accuser lied first"),
    "the frames of the accused": (
        "replay", ("        for role in order:", "        for role in (1 - accused,):"), "one wrong bit"),
    "which of two at once comes first": (
        "replay", ("order, index = (1 - accused, accused), 0", "order, index = (accused, 1 - accused), 0"),
        "both lied at once"),
    "the seal of the accused": (
        "replay", ("return Finding(wrong[0], None) if wrong else None", "return None"),
        "false accept bits"),
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGE)
def test_a_judge_without_one_check_errs(name: str) -> None:
    module, edit, case = JUDGE[name]
    evidence, guilty = unjust(case)
    assert judge(evidence, verify).guilty == guilty
    if module == "replay":
        erring: Any = changed("evidence")
        erring.first_departure = changed("replay", edit).first_departure
    else:
        erring = changed("evidence", edit)
    assert erring.judge(evidence, verify).guilty != guilty


def test_a_scalar_in_another_spelling_would_make_a_second_file() -> None:
    order = 2**252 + 27742317777372353535851937790883648493
    evidence = accusations("one wrong bit")[0]
    again = (int.from_bytes(evidence.x, "little") + order).to_bytes(32, "little")
    data = dataclasses.replace(evidence, x=again).encoded()
    with pytest.raises(EvidenceError):
        Evidence.decode(data)
    lax = changed("evidence", ("if not group.is_scalar(x):", "if False:"))
    assert lax.judge(lax.Evidence.decode(data), verify).guilty


def test_tables_of_another_preset_would_convict_an_honest_server() -> None:
    evidence, other = accusations("")[0], load("rectangle", "standard")
    assert not judge(evidence, verify, other).guilty
    lax = changed("evidence", ("if tables is None or tables.digest != evidence.tables:", "if tables is None:"))
    assert "of the accuser is the first" in lax.judge(evidence, verify, other).reason, "both would be wrong at once"
    order = ("order, index = (1 - accused, accused), 0", "order, index = (accused, 1 - accused), 0")
    lax.first_departure = changed("replay", order).first_departure  # type: ignore[attr-defined]
    assert lax.judge(evidence, verify, other).guilty
