"""Sessions under audit: shares that are equal on both sides, cheats that are caught, and nothing out of quarantine
before its verdict.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import pytest

from parley.mpc import audit, covert
from parley.mpc.acceptance import binomial_range
from parley.mpc.channel import Channel, MemoryLink
from parley.mpc.covert import QUOTA_BATCHES, CovertSession, Signing, quota
from parley.mpc.errors import (
    AcceptedCountError,
    CaughtError,
    ConfigurationError,
    FrameError,
    InvalidPointError,
    PeerCheatedError,
    PeerClosedError,
    SealBrokenError,
    SessionClosedError,
    TablesDifferError,
    TermsDifferError,
)
from parley.mpc.evidence import MOST_LANES, Evidence, judge
from parley.mpc.kernels import kernels
from parley.mpc.randomness import random_bytes
from parley.mpc.replay import departure
from parley.mpc.tables import Cover, Precision, load
from tests.support.covert import (
    CONTEXT,
    DEADLINE,
    LIES,
    QUIET,
    Auditor,
    Class,
    auditing,
    liar,
    never,
    public,
    run,
    sign,
    signing,
    sums,
    verify,
)

EIGHTH = Fraction(1, 8)


def only(*numbers: int) -> Callable[[int], bool]:
    return lambda number: number in numbers


def honest_and(other: Class, role: int) -> tuple[Class, Class]:
    """The honest one never audits; the other one is server `role`."""
    return (other, QUIET) if role == 0 else (QUIET, other)


# ------------------------------------------------------------ honest servers


@pytest.mark.parametrize(
    ("cover", "precision"), [("strips", "standard"), ("strips", "high"), ("rectangle", "standard")]
)
def test_both_make_the_same_batches_on_either_kernel(cover: Cover, precision: Precision) -> None:
    """Server 0 on the baseline, server 1 on the fastest; each audits some."""
    tables = load(cover, precision)
    a, b = run(
        6, lanes=64, tables=tables, natives=(kernels("baseline"), kernels()), real=precision == "high",
        classes=(auditing(only(2)), auditing(only(4))),
    )  # fmt: skip
    assert a.error is b.error is None
    assert [len(batch) for batch in a.batches] == [len(batch) for batch in b.batches]
    assert [len(batch) > 0 for batch in a.batches] == [True, False, True, False, True, True]
    for end in (a, b):
        assert (end.session.audits_made, end.session.audits_passed) == (1, 1)
    x = sums([a, b], tables.format.scale_bits)
    assert abs(x.std() - 1) * (2 * len(x)) ** 0.5 < 7  # standard normal: false alarm 1e-11
    assert a.session.id == b.session.id
    assert a.session.traffic == b.session.traffic


def test_where_everything_is_audited_nothing_is_made_and_nobody_accused() -> None:
    for end in run(5, natives=(kernels("baseline"), kernels())):
        assert end.error is None
        assert end.session.audits_made == end.session.audits_passed == 5
        assert all(len(batch) == 0 for batch in end.batches)
        assert end.evidence == []


def test_accusations_of_honest_servers_have_no_verdict() -> None:
    """Of batches before and after a second extension of the master; one serves 16 here."""
    with mock.patch.object(covert, "MASTER_CHUNKS", 1):
        ends = run(19, EIGHTH, classes=(auditing(only(1, 9, 16, 17, 19)), auditing(only(2, 15, 17, 18))))
    for accused, end in ((1, ends[0]), (0, ends[1])):
        assert end.error is None
        assert sum(len(batch) > 0 for batch in end.batches) == 19 - 8
        assert len(end.session.accusations) >= 4
        for evidence in end.session.accusations:
            verdict = judge(evidence, verify)
            assert not verdict.guilty
            assert verdict.key == public(accused)
            assert "did all that its seed says" in verdict.reason


def test_every_batch_has_transfers_of_its_own() -> None:
    """Deltas, seeds and salts of 8 batches, of both servers: no two alike."""
    a, b = run(8)
    openings = [evidence.opening for end in (a, b) for evidence in end.session.accusations]
    assert len(openings) == 16
    for field in ("seed", "delta", "salt"):
        assert len({getattr(opening, field) for opening in openings}) == 16
    bits = np.unpackbits(np.frombuffer(b"".join(opening.delta for opening in openings), np.uint8))
    assert abs(bits.mean() - 0.5) < 6.5 * 0.5 / len(bits) ** 0.5  # false alarm 8e-11


@pytest.mark.parametrize("rate", [Fraction(1, 16), EIGHTH, Fraction(1, 4), Fraction(1, 2)])
def test_coins_fall_as_often_as_agreed(rate: Fraction) -> None:
    session = Auditor.__new__(Auditor)
    session._draw, session._rate = random_bytes, rate
    lowest, highest = binomial_range(float(rate), 4000)
    assert lowest <= sum(session._coin() for _ in range(4000)) <= highest


@pytest.mark.slow
def test_what_leaves_quarantine_is_standard_normal() -> None:
    ends = run(150, EIGHTH, lanes=4096)
    assert ends[0].error is ends[1].error is None
    x = sums(ends)
    assert len(x) > 150_000
    edges = [NormalDist().inv_cdf(i / 64) for i in range(1, 64)]
    counts = np.bincount(np.searchsorted(edges, x), minlength=64)
    chi2 = ((counts - len(x) / 64) ** 2 / (len(x) / 64)).sum()
    assert chi2 < 63 + 8 * (2 * 63) ** 0.5  # false alarm below 1e-7
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((x**power).mean() - mean) < 6 * (variance / len(x)) ** 0.5  # false alarm below 1e-8 each


# ------------------------------------------------------------ servers that lie


@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize("name", LIES)
def test_an_audited_lie_is_proved(name: str, role: int) -> None:
    if (name, role) == ("collapse", 0):
        pytest.skip("only server 1 sends the upper half of the bits")
    classes: list[Class] = [Auditor, Auditor]
    classes[role] = LIES[name]()
    ends = run(1, classes=(classes[0], classes[1]))
    honest, cheat = ends[1 - role], ends[role]
    assert isinstance(honest.error, CaughtError), honest.error
    evidence = honest.error.evidence
    assert honest.evidence == [evidence]
    assert evidence.digest.hex() in str(honest.error)
    verdict = judge(Evidence.decode(evidence.encoded()), verify)
    assert verdict.guilty, verdict
    assert verdict.key == public(role)
    assert len(evidence.encoded()) < 2048
    assert cheat.evidence == []
    for accusation in cheat.session.accusations:  # the cheat's own, of the honest one
        assert not judge(accusation, verify).guilty


@pytest.mark.parametrize("name", ["one wrong bit", "false accept bits", "another delta"])
def test_a_lie_that_nobody_audits_is_not_seen(name: str) -> None:
    """What audits are for: without one the batch is used."""
    a, b = run(2, classes=(QUIET, auditing(never, LIES[name]())))
    assert a.error is b.error is None
    assert len(a.batches[0]) > 0


def test_a_squeezed_batch_is_refused_even_without_an_audit() -> None:
    a, _ = run(1, lanes=1024, classes=(QUIET, auditing(never, LIES["squeeze"]())))
    assert isinstance(a.error, AcceptedCountError)


BREACHES: dict[str, tuple[tuple[str, str], type[Exception], str]] = {
    "asks with a point of another group": (
        ("witness_digest(batch, role, witness), question(x, their_point, audit)",
         "witness_digest(batch, role, witness), bytes(32)"), InvalidPointError, ""),
    "asks for what is known": (
        ("witness_digest(batch, role, witness), question(x, their_point, audit)",
         "witness_digest(batch, role, witness), their_point"), InvalidPointError, ""),
    "hands over another witness": (
        ("*masked, draw(NONCE_BYTES)", "bytes(32), masked[1], draw(NONCE_BYTES)"), PeerCheatedError, "another witness"),
    "signs nothing": (
        ("mine = self._signing.sign(record.statement(self._role))", "mine = bytes(70)"), PeerCheatedError, "not sign"),
    "signs another batch": (
        ("record = Record(self._terms, self._number, lanes", "record = Record(self._terms, self._number + 1, lanes"),
        PeerCheatedError, "not sign"),
    "claims an audit that it has not made": (
        ('last = b"\\0" + their_witness', 'last = b"\\1" + their_witness'), PeerCheatedError, "truly"),
    "says neither": (
        ('last = b"\\0" + their_witness', 'last = b"\\2" + their_witness'), PeerCheatedError, "truly"),
    "returns another witness": (
        ('last = b"\\0" + their_witness', 'last = b"\\0" + bytes(32)'), PeerCheatedError, "truly"),
    "opens other accept bits": (
        ('last = b"\\0" + their_witness + salt + share',
         'last = b"\\0" + their_witness + salt + bytes([share[0] ^ 1]) + share[1:]'),
        SealBrokenError, "sealed"),
}  # fmt: skip
"""What ends a session whether anybody audits or not, and proves nothing."""


@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize("name", BREACHES)
def test_other_breaches_end_the_session(name: str, role: int) -> None:
    edit, error, words = BREACHES[name]
    ends = run(1, lanes=64, classes=honest_and(auditing(never, liar(edit)), role))
    found = ends[1 - role].error
    assert type(found) is error, found
    assert words in str(found)
    assert ends[1 - role].batches == []
    with pytest.raises(SessionClosedError):
        ends[1 - role].session.samples(16)


def test_who_audits_cannot_say_that_it_did_not() -> None:
    """It would know every sample of the batch: it has the other one's seed. But not its witness."""
    hides = ('last = b"\\1" + said.audited(batch, peer) + bytes(ACCEPT_SALT_BYTES + len(share))',
             'last = b"\\0" + draw(32) + salt + share')  # fmt: skip
    a, _ = run(1, lanes=64, classes=(QUIET, auditing(only(1), liar(hides))))
    assert isinstance(a.error, PeerCheatedError)
    assert a.batches == []


def test_a_master_that_lies_is_caught_in_its_extension() -> None:
    lies = ("part = made.part(start, start + BLOCK)", "part = made.part(0, BLOCK)")
    a, _ = run(2, classes=(QUIET, auditing(never, liar(lies))))  # the same transfers for every batch
    assert isinstance(a.error, PeerCheatedError)
    assert len(a.batches) == 1


# ------------------------------------------------------------ quarantine


class Held:
    """Replays wait for leave."""

    def __init__(self) -> None:
        self.may_end, self.begun = threading.Event(), threading.Event()

    def departure(self, *arguments: Any) -> Any:
        self.begun.set()
        assert self.may_end.wait(600)
        return departure(*arguments)


def test_lanes_wait_for_the_verdict_of_an_earlier_batch() -> None:
    """A audits the second batch. B has the third one's samples while A's are in quarantine."""
    held = Held()
    order: list[Any] = []

    class Watching(Auditor):
        def samples(self, lanes: int) -> Any:
            got = super().samples(lanes)
            order.append((self._role, self._number, len(got) > 0))
            if self._role == 1 and self._number == 3:
                assert held.begun.wait(600)
                time.sleep(0.3)  # for a server 0 that does not wait
                order.append("leave")
                held.may_end.set()
            return got

    with mock.patch.object(audit, "departure", held.departure):
        a, b = run(4, lanes=64, classes=(auditing(only(2), Watching), auditing(never, Watching)))
    assert a.error is b.error is None
    assert [entry for entry in order if entry[0] == 0] == [(0, 1, True), (0, 2, False), (0, 3, True), (0, 4, True)]
    assert order.index("leave") < order.index((0, 3, True))
    assert order.index((0, 2, False)) < order.index("leave")


def lies_in(number: int, name: str = "one wrong bit") -> Class:
    """Of batches that nobody audits it has told the truth, and will."""
    lying = LIES[name]()

    class Once(lying):  # type: ignore[valid-type,misc]
        _sampler: Any

        def _batch(self, lanes: int) -> Any:
            lie: Any = self._sampler
            if self._number + 1 != number:
                honest = lie.__class__.__mro__[1]
                self._sampler = honest.__new__(honest)
                vars(self._sampler).update(vars(lie))
            result = yield from super()._batch(lanes)
            self._sampler = lie
            return result

    return auditing(never, Once)


def test_a_batch_after_a_lie_never_leaves_quarantine() -> None:
    held = Held()
    held.may_end.set()
    with mock.patch.object(audit, "departure", held.departure):
        a, _ = run(5, lanes=64, classes=(auditing(only(2)), lies_in(2)))
    assert isinstance(a.error, CaughtError)
    first, *later = (len(batch) > 0 for batch in a.batches)
    assert first
    assert not any(later)  # the verdict may come as early as in the batch's own last exchange


@pytest.mark.parametrize("when", ["before its last message", "in the next batch"])
def test_who_hangs_up_is_caught_all_the_same(when: str) -> None:
    """It knows that it is audited only when the other one has all it needs."""
    wrong = ("Seal(accept_seal(batch, role, salt, share)", "Seal(bytes(32)")
    leave = "raise FrameError('hangs up')"
    leaves = {
        "before its last message": ("answer = yield from _swap(last)", leave),
        "in the next batch": ("self._number += 1", f"self._number += 1\n        if self._number > 1: {leave}"),
    }
    a, b = run(3, classes=(auditing(only(1)), auditing(never, liar(wrong, leaves[when]))))
    # or it is cut off: the verdict may come as early as in the batch's own last exchange
    assert isinstance(b.error, FrameError | PeerClosedError)
    assert isinstance(a.error, CaughtError), a.error
    assert judge(a.evidence[0], verify).guilty


def test_evidence_is_kept_before_the_session_closes() -> None:
    said = []

    class Watching(Auditor):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            keep, end = self._audits.keep, self._audits.end

            def kept(evidence: Evidence) -> None:
                keep(evidence)
                said.append("kept")

            def ended(reason: str) -> None:
                said.append("closed")
                end(reason)

            self._audits.keep, self._audits.end = kept, ended

    a, _ = run(1, classes=(Watching, auditing(never, LIES["one wrong bit"]())))
    assert isinstance(a.error, CaughtError)
    assert said == ["kept", "closed"]


def test_evidence_that_cannot_be_kept_still_ends_the_session() -> None:
    class Full(Auditor):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self._audits.keep = self._refuse

        def _refuse(self, evidence: Evidence) -> None:
            raise OSError("no space left on device")

    a, _ = run(1, classes=(Full, auditing(never, LIES["one wrong bit"]())))
    assert isinstance(a.error, CaughtError)
    assert isinstance(a.error.__cause__, OSError)
    assert judge(a.error.evidence, verify).guilty


class Holding(Auditor):
    """Notes what it holds, and what it says last in a batch."""

    said: ClassVar = threading.Event()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.held: dict[bytes, Evidence] = {}
        self.order: list[str] = []
        self._audits.hold = self._hold
        exchange = self.channel.exchange

        def noted(message: Any) -> Any:
            if len(message) == 1 and message[0][0] == 1 and self.held:
                self.order.append("says that it audits")
                self.said.set()
            return exchange(message)

        vars(self.channel)["exchange"] = noted

    def _hold(self, evidence: Evidence) -> Callable[[], None]:
        self.order.append("held")
        self.held[evidence.digest] = evidence
        return lambda: self.order.append("forgotten") or self.held.clear()  # type: ignore[func-returns-value]


def test_what_an_audit_would_prove_is_held_before_the_other_one_knows_of_it() -> None:
    """So that it gains nothing by having its auditor die, which forgets it only with a verdict."""
    Holding.said, replayed = threading.Event(), departure

    def afterwards(*batch: Any) -> Any:  # a quick verdict would come before its last word
        Holding.said.wait(DEADLINE)
        return replayed(*batch)

    with mock.patch.object(audit, "departure", afterwards):
        a, _ = run(2, classes=(auditing(only(1), Holding), QUIET))
    assert a.error is None
    assert a.session.order == ["held", "says that it audits", "forgotten"]
    with mock.patch.object(audit, "departure", side_effect=MemoryError("no room")):
        a, _ = run(1, classes=(auditing(only(1), Holding), auditing(never, LIES["one wrong bit"]())))
    assert isinstance(a.error, MemoryError)
    (evidence,) = a.session.held.values()
    assert judge(Evidence.decode(evidence.encoded()), verify).guilty


def test_what_cannot_be_held_ends_the_session_and_a_liar_is_caught_all_the_same() -> None:
    class Full(Holding):
        def _hold(self, evidence: Evidence) -> Callable[[], None]:
            raise OSError("no space left on device")

    a, _ = run(2, classes=(auditing(only(1), Full), QUIET))
    assert isinstance(a.error, OSError)
    assert a.batches == []
    a, _ = run(2, classes=(auditing(only(1), Full), auditing(never, LIES["one wrong bit"]())))
    assert isinstance(a.error, CaughtError)
    assert len(a.evidence) == 1


def test_the_last_verdict_is_heard_when_the_session_is_closed() -> None:
    """After the last batch nobody asks for another: closing waits, and says what was found."""
    held = Held()

    class Leaving(Auditor):
        def samples(self, lanes: int) -> Any:
            got = super().samples(lanes)
            held.may_end.set()  # and not before: a quick verdict ends the batch itself
            return got

    with mock.patch.object(audit, "departure", held.departure):
        a, _ = run(1, classes=(auditing(only(1), Leaving), auditing(never, LIES["one wrong bit"]())))
    assert len(a.batches) == 1
    assert isinstance(a.error, CaughtError)
    a.session.close()  # again: it has been said


def test_an_audit_that_fails_by_itself_ends_the_session_and_accuses_nobody() -> None:
    with mock.patch.object(audit, "departure", side_effect=MemoryError("no room")):
        a, b = run(3, classes=(auditing(only(1)), QUIET))
    assert isinstance(a.error, MemoryError)
    assert isinstance(b.error, PeerClosedError | SessionClosedError)
    assert a.evidence == []
    with pytest.raises(SessionClosedError):
        a.session.samples(16)


def test_a_finding_that_convinces_no_judge_is_no_evidence() -> None:
    with mock.patch.object(audit, "departure", return_value="memory that forgot"):
        a, _ = run(2, classes=(auditing(only(1)), QUIET))
    assert type(a.error) is PeerCheatedError
    assert "memory that forgot" in str(a.error)
    assert a.evidence == []


# ------------------------------------------------------------ quota


def counting(rate: Fraction, made: Class = CovertSession) -> Any:
    """A session of which only the quota is asked."""
    session: Any = made.__new__(made)
    session._rate, session._claims, session.audits_borne = rate, deque(maxlen=QUOTA_BATCHES), 0
    return session


@pytest.mark.parametrize("rate", [Fraction(1, 16), EIGHTH, Fraction(1, 4)])
def test_who_audits_too_much_ends_the_session(rate: Fraction) -> None:
    session, most = counting(rate), quota(rate)
    for claim in [False] * 100 + [True] * most:
        session._count(claim)
    with pytest.raises(PeerCheatedError, match=f"audited {most + 1} of 64 batches"):
        session._count(True)


@pytest.mark.parametrize("rate", [EIGHTH, Fraction(1)])
def test_who_audits_within_its_quota_goes_on_for_ever(rate: Fraction) -> None:
    session, most = counting(rate), quota(rate)
    for _ in range(5):
        for claim in [True] * most + [False] * (QUOTA_BATCHES - most):
            session._count(claim)


@pytest.mark.slow
def test_a_session_whose_every_batch_is_audited_ends() -> None:
    a, b = run(QUOTA_BATCHES, EIGHTH, classes=(QUIET, auditing(lambda number: True)))
    assert type(a.error) is PeerCheatedError
    assert len(a.batches) == quota(EIGHTH)
    assert a.evidence == b.evidence == []


def test_the_quota_is_what_chance_does_not_exceed() -> None:
    assert [quota(Fraction(1, each)) for each in (16, 8, 4, 2, 1)] == [26, 34, 50, 64, 64]


# ------------------------------------------------------------ terms


def other_signing(**changes: Any) -> Signing:
    known = signing(1)
    return Signing(**{**{name: getattr(known, name) for name in Signing.__dataclass_fields__}, **changes})


def test_a_key_that_is_not_pinned_is_refused_at_once() -> None:
    stranger = other_signing(key=public(7), sign=lambda text: sign(7, text))
    a, _ = run(1, signings=(signing(0), stranger))
    assert isinstance(a.error, TermsDifferError)
    assert "pins" in str(a.error)
    assert a.session is None


def test_a_key_that_is_given_up_ends_a_running_session() -> None:
    keys = [public(1)]
    first = Signing(public(0), lambda text: sign(0, text), lambda: keys, verify, CONTEXT)

    class Losing(Auditor):
        def samples(self, lanes: int) -> Any:
            if self._number == 1:
                keys.clear()
            return super().samples(lanes)

    a, _ = run(3, classes=(auditing(never, Losing), QUIET), signings=(first, signing(1)))
    assert isinstance(a.error, TermsDifferError)
    assert len(a.batches) == 1


def test_another_federation_is_refused() -> None:
    ends = run(1, signings=(signing(0), signing(1, bytes(32))))
    assert all(isinstance(end.error, TermsDifferError) for end in ends)


def test_another_rate_is_refused() -> None:
    ends = run(1, rates=(EIGHTH, Fraction(1, 16)))
    assert all(isinstance(end.error, TermsDifferError) for end in ends)


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        (("MAGIC, role, self.tables.digest", "b'parley.mpc.v3', role, self.tables.digest"), FrameError),
        (("MAGIC, role, self.tables.digest", "MAGIC, 1 - role, self.tables.digest"), FrameError),
        (("MAGIC, role, self.tables.digest", "MAGIC, role, bytes(32)"), TablesDifferError),
        (("point = group.base(self._y)", "point = (1).to_bytes(32, 'little')"), InvalidPointError),
    ],
)
def test_a_false_hello_is_refused(edit: tuple[str, str], error: type[Exception]) -> None:
    a, _ = run(1, classes=(QUIET, liar(edit)))
    assert type(a.error) is error


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(1, 32), Fraction(0), Fraction(2)])
def test_other_rates_are_no_rates(rate: Fraction) -> None:
    link, _ = MemoryLink.pair()
    with pytest.raises(ConfigurationError, match="1/16, 1/8, 1/4, 1/2, 1"):
        CovertSession(Channel(link), 0, load("strips", "standard"), signing(0), rate, lambda evidence: None)


def test_terms_of_another_size_and_batches_of_no_size_are_refused() -> None:
    link, _ = MemoryLink.pair()
    for changes in ({"context": b"short"}, {"key": bytes(32)}):
        with pytest.raises(ConfigurationError, match="bytes"):
            CovertSession(
                Channel(link), 1, load("strips", "standard"), other_signing(**changes), EIGHTH, lambda evidence: None
            )
    for lanes in (0, -16, MOST_LANES + 1):
        a, _ = run(1, lanes=lanes)
        assert isinstance(a.error, ConfigurationError)


# ------------------------------------------------------------ what messages tell


def transcripts(coin: bool, seeds: tuple[bytes, bytes] = (bytes(32), bytes([1]) * 32)) -> list[list[bytes]]:
    """What each server sent in a session of one batch, in which server 0 audits or not."""
    said: list[list[bytes]] = [[], []]

    class Recording(Channel):
        def exchange(self, message: Any) -> Any:
            said[0 if self._role is None else self._role].append(b"".join(piece.tobytes() for piece in message))
            return super().exchange(message)

    ends = run(1, classes=(auditing(lambda number: coin), QUIET), seeds=seeds, channels=Recording, lanes=64)
    assert ends[0].error is None
    return said


def test_an_audit_shows_in_nothing_but_the_question_before_the_last_message() -> None:
    """Same randomness, another coin: of its own choice server 0 sends the same bytes but for R, which is uniform."""
    quiet, loud = transcripts(False)[0], transcripts(True)[0]
    assert [len(text) for text in quiet] == [len(text) for text in loud]
    quiet, loud = quiet[-21:], loud[-21:]  # one batch: head and trees, 17 frames, seal, signature, last
    head, frames = 0, slice(1, 18)
    assert quiet[head][:64] + quiet[head][96:] == loud[head][:64] + loud[head][96:]
    assert quiet[head][64:96] != loud[head][64:96]
    assert quiet[frames] == loud[frames]
    assert quiet[18] == loud[18]
    assert quiet[20][0] == 0
    assert loud[20][0] == 1


def test_all_messages_have_lengths_that_depend_on_nothing() -> None:
    lengths = {
        tuple(len(text) for text in transcripts(coin, (bytes([seed]) * 32, bytes([9]) * 32))[0])
        for seed, coin in ((0, False), (1, True), (2, True))
    }
    assert len(lengths) == 1


def caught(name: str, role: int, cheats: int) -> tuple[int, int]:
    """At 1/8, sessions until so many batches of them were lies: how many were, and how often that was proved."""
    lie, batches, proofs = auditing(never, LIES[name]()), 0, 0
    while batches < cheats:
        ends = run(2000, EIGHTH, classes=(lie, Auditor) if role == 0 else (Auditor, lie))
        honest = ends[1 - role]
        if isinstance(honest.error, AcceptedCountError):  # a squeezed batch that nobody audits is refused
            batches += honest.session._number
            continue
        assert isinstance(honest.error, CaughtError), honest.error
        first = min(accusation.record.number for accusation in honest.session.accusations)
        assert honest.error.evidence.record.number == first  # the first audit finds it
        assert judge(honest.error.evidence, verify).key == public(role)
        assert ends[role].evidence == []
        batches, proofs = batches + first, proofs + 1
    return batches, proofs


def within(batches: int, proofs: int) -> bool:
    lowest, highest = binomial_range(1 / 8, batches)  # ten deviations, and a tail of 2^-50
    return lowest <= proofs <= highest


@pytest.mark.slow
def test_lies_are_caught_as_often_as_agreed() -> None:
    assert within(*caught("one wrong bit", 1, 300))


@pytest.mark.long
@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize("name", LIES)
def test_every_lie_is_caught_as_often_as_agreed(name: str, role: int) -> None:
    if (name, role) == ("collapse", 0):
        pytest.skip("only server 1 sends the upper half of the bits")
    assert within(*caught(name, role, 800))


@pytest.mark.long
def test_of_thousands_of_honest_batches_none_is_accused() -> None:
    """Ten sessions of either kind, on both kernels."""
    for session in range(20):
        rate = Fraction(1) if session % 2 else EIGHTH
        first, second = (kernels("baseline"), kernels()) if session % 4 < 2 else (kernels(), kernels("baseline"))
        ends = run(200, rate, natives=(first, second), real=True)
        for end in ends:
            assert end.error is None
            assert end.evidence == []
            assert end.session.audits_passed == end.session.audits_made
            for accusation in end.session.accusations[::20]:
                assert not judge(accusation, verify).guilty
