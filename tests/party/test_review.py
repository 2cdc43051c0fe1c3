"""The policy in force: no editor of policy.toml changes it alone, and no older one comes back."""

import datetime as dt
import json
import shutil
from pathlib import Path

import pytest

import parley.party.review
import parley.party.review_store
from parley.federation.errors import ApprovalError, PolicyError
from parley.federation.policy import PartyPolicy
from parley.federation.policy_file import policy_bytes
from parley.node.trail import verify
from parley.party.process import party_node, settings_of
from parley.party.review import (
    Proposal,
    cap_of,
    digest_of_policy,
    in_force,
    policy_of,
    proposal,
    require_newest,
    sign_policy,
    to_sign,
)
from parley.party.review_store import ReviewStore
from parley.party.settings import Settings
from parley.privacy.filters import Cap
from parley.privacy.ledger import Ledger
from parley.privacy.mechanism import ROW
from tests.support.documents import PARTY_POLICY
from tests.support.reviewers import NAMES, key, reviewed_policy, sign_now


@pytest.fixture
def settings(party: Path) -> Settings:
    found = settings_of(party_node(party))
    found.policy.write_text(reviewed_policy())
    assert isinstance(policy_of(found), PartyPolicy)
    return found


def force(settings: Settings) -> PartyPolicy:
    found = policy_of(settings)
    assert isinstance(found, PartyPolicy)
    return found


def proposed(settings: Settings) -> Proposal:
    found = proposal(settings)
    assert found is not None
    return found


def events(settings: Settings, name: str) -> list[dict[str, object]]:
    verify(settings.trail)
    found = [json.loads(line) for line in settings.trail.read_text().splitlines()]
    return [each["fields"] for each in found if each["event"] == name]


def at(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    """So many days from now."""
    moment = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(days=days)
    for module in (parley.party.review, parley.party.review_store):
        monkeypatch.setattr(module, "now", lambda: moment)


def test_without_reviewers_policy_toml_counts_as_it_stands(party: Path) -> None:
    settings = settings_of(party_node(party))
    assert force(settings).largest_rounds == 40
    settings.policy.write_text(PARTY_POLICY.replace("largest_rounds = 40", "largest_rounds = 7"))
    assert force(settings).largest_rounds == 7
    assert in_force(settings) is None
    assert proposal(settings) is None
    assert not settings.review.exists()
    settings.policy.unlink()
    assert policy_of(settings) is None
    with pytest.raises(ApprovalError, match="no policy with"):
        sign_now(settings, "ada")


def test_the_first_policy_with_reviewers_is_trusted_and_noted(settings: Settings) -> None:
    held = in_force(settings)
    assert held is not None
    assert (held.number, held.signed_by) == (1, "")
    assert events(settings, "policy.in_force") == [{"sequence": 1, "digest": held.digest, "how": "first"}]
    assert proposal(settings) is None
    # Comments and the order of lines are nobody's business.
    settings.policy.write_text("# a comment\n" + settings.policy.read_text().replace(" = ", "="))
    assert proposal(settings) is None
    assert settings.review.stat().st_mode & 0o777 == 0o600


EDITS = {
    "a reviewer is taken out": reviewed_policy(names=("ada", "ben"), larger_cap=2),
    "one signature is enough": reviewed_policy(approval=1, larger_cap=1, policy=1),
    "reviewers are of no use any more": PARTY_POLICY,
    "the reviewer's key is another": reviewed_policy().replace(key("ben").line("ben"), key("eve").line("ben")),
    "a coordinator is added": reviewed_policy().replace('["lead"]', '["lead", "mallory"]'),
    "more may be spent": reviewed_policy().replace("epsilon_total = 4.0", "epsilon_total = 400.0"),
    "the file is no policy": "role = ",
    "the file is another role's": 'role = "aggregator"\nminimum_parties = 2\nlargest_parties = 10\n'
    'largest_dimension = 10\nlargest_rounds = 4\ncoordinators = []\n[operators]\n',
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_whoever_edits_policy_toml_alone_changes_nothing(settings: Settings, edit: str) -> None:
    before = force(settings)
    settings.policy.write_text(EDITS[edit])
    assert force(settings) == before
    found = proposal(settings)
    assert found is not None
    assert not found.enough
    # Nor do names and numbers of the new file decide who may sign it.
    for name in ("eve", "ada"):
        with pytest.raises(ApprovalError):
            sign_now(settings, name, key("eve"))
    assert force(settings) == before
    settings.policy.unlink()
    assert force(settings) == before


def test_what_is_signed_is_what_was_read(settings: Settings) -> None:
    """Though whoever can write policy.toml puts another text there between the reading and the signing."""
    text = settings.policy.read_text()
    honest = text.replace('["lead"]', '["lead", "second"]')
    evil = text.replace("total = 4.0", "total = 400.0")
    settings.policy.write_text(evil)
    for name in ("ada", "cy"):
        sign_now(settings, name)
    settings.policy.write_text(honest)
    read = proposal(settings)
    assert read is not None
    settings.policy.write_text(evil)
    for wrong in (read.digest, "", "0" * 64):
        with pytest.raises(ApprovalError, match="digest is not of what"):
            sign_policy(settings, "ben", key("ben"), wrong)
    assert force(settings).epsilon_total == 4.0
    settings.policy.write_text(honest)
    found = sign_policy(settings, "ben", key("ben"), read.digest)
    assert found is not None
    assert found.digest == to_sign(settings, read.digest.upper()).digest == read.digest


def test_the_first_policy_is_not_replaced_by_who_read_the_file_later(
    party: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(party_node(party))
    settings.policy.write_text(reviewed_policy())
    faster = list[int]()

    def slow(path: Path) -> bytes:
        if not faster:
            faster.append(1)
            policy_of(settings)  # another process
            settings.policy.write_text(reviewed_policy(names=("eve",), approval=1, larger_cap=1, policy=1))
        return policy_bytes(path)

    monkeypatch.setattr(parley.party.review, "policy_bytes", slow)
    policy_of(settings)
    held = in_force(settings)
    assert held is not None
    assert (held.number, set(held.review.reviewers), len(events(settings, "policy.in_force"))) == (1, set(NAMES), 1)


def test_a_change_is_in_force_once_enough_reviewers_have_signed_it(settings: Settings) -> None:
    settings.policy.write_text(reviewed_policy().replace('["lead"]', '["lead", "second"]'))
    found = sign_now(settings, "ada")
    assert found is not None
    assert found.lines == ('coordinators adds "second"',)
    assert (found.needed, found.larger_cap, [each.counts for each in found.signatures]) == (2, False, [True])
    assert sign_now(settings, "ada") is not None  # one person's word twice is one person's word
    assert force(settings).coordinators == {"lead"}
    assert sign_now(settings, "cy") is None
    assert force(settings).coordinators == {"lead", "second"}
    held = in_force(settings)
    assert held is not None
    assert (held.number, held.signed_by) == (2, "ada, cy")
    assert [each["sequence"] for each in events(settings, "policy.in_force")] == [1, 2]
    assert [each["approved_by"] for each in events(settings, "review.signed")] == ["ada", "ada", "cy"]


@pytest.mark.parametrize(
    ("edit", "needed"),
    [
        (("epsilon_total = 4.0", "epsilon_total = 4.5"), 3),
        (("epsilon_per_run = 2.0", "epsilon_per_run = 3.0"), 3),
        (("delta_per_run = 1e-5", "delta_per_run = 2e-5"), 3),
        (("epsilon_total = 4.0", "epsilon_total = 3.0"), 2),
        (("days = 14", "days = 15"), 3),
        (("approval = 2", "approval = 1"), 3),
        (("largest_rounds = 2", "largest_rounds = 9"), 2),
    ],
)
def test_a_larger_cap_and_a_change_of_the_review_itself_need_more(
    settings: Settings, edit: tuple[str, str], needed: int
) -> None:
    settings.policy.write_text(reviewed_policy().replace(*edit))
    found = proposal(settings)
    assert found is not None
    assert found.needed == needed
    for index, name in enumerate(NAMES[:needed]):
        assert (sign_now(settings, name) is None) == (index == needed - 1)
    assert proposal(settings) is None


def test_no_limit_at_all_is_more_than_any_number(settings: Settings) -> None:
    limited = reviewed_policy().replace('lies_total = "any"', "lies_total = 9.0")
    settings.policy.write_text(limited)
    assert [sign_now(settings, name) is None for name in ("ada", "ben")] == [False, True]
    settings.policy.write_text(reviewed_policy())
    found = proposal(settings)
    assert found is not None
    assert (found.larger_cap, found.needed) == (True, 3)
    assert found.lines == ('epsilon_if_a_server_lies_total is "any" instead of 9.0',)


def test_an_old_policy_that_is_put_back_is_a_proposal_like_any_other(settings: Settings) -> None:
    old = settings.policy.read_text()
    fewer = reviewed_policy(names=("ada", "ben", "dee"))
    settings.policy.write_text(fewer)
    assert [sign_now(settings, name) is None for name in NAMES] == [False, False, True]
    settings.policy.write_text(old)  # cy is a reviewer of it
    held = in_force(settings)
    assert held is not None
    assert "cy" not in held.review.reviewers
    with pytest.raises(ApprovalError, match="'cy' is no reviewer of the policy in force"):
        sign_now(settings, "cy")
    # Signatures that once put a policy in force do not do so again.
    settings.policy.write_text(fewer.replace("days = 14", "days = 9"))
    assert [sign_now(settings, name) is None for name in ("ada", "ben", "dee")] == [False, False, True]
    settings.policy.write_text(fewer)
    found = proposal(settings)
    assert found is not None
    assert {each.why_not for each in found.signatures} == {
        "was given under another policy",
        "is of no reviewer any more",
    }
    assert not found.enough


def test_an_old_store_that_is_put_back_is_refused_and_a_lost_one_too(settings: Settings, tmp_path: Path) -> None:
    kept = shutil.copy(settings.review, tmp_path / "kept")
    settings.policy.write_text(reviewed_policy(names=("ada", "ben", "dee")))
    for name in NAMES:
        sign_now(settings, name)
    require_newest(settings)
    shutil.copy(kept, settings.review)
    with pytest.raises(ApprovalError, match=r"tells of policy 2 in force, and review\.sqlite has 1"):
        require_newest(settings)
    with pytest.raises(ApprovalError, match="newest copy"):
        sign_now(settings, "ada")
    settings.review.unlink()
    with pytest.raises(ApprovalError, match=r"review\.sqlite has none"):
        require_newest(settings)
    with pytest.raises(ApprovalError, match="has none"):  # it is not trusted as a first one
        policy_of(settings)


def test_what_a_crash_left_out_of_the_trail_is_noted_there(settings: Settings) -> None:
    lines = settings.trail.read_text().splitlines(keepends=True)
    settings.trail.write_text("".join(line for line in lines if "policy.in_force" not in line))
    assert "policy.in_force" not in settings.trail.read_text()
    require_newest(settings)
    require_newest(settings)
    assert [each["sequence"] for each in events(settings, "policy.in_force")] == [1]


def test_a_policy_in_the_store_that_was_altered_is_none(settings: Settings) -> None:
    store = ReviewStore(settings.review)
    store._database.execute("UPDATE policies SET policy = ?", (reviewed_policy(approval=1).encode(),))
    store.close()
    with pytest.raises(ApprovalError, match="is not what was written"):
        policy_of(settings)


def test_a_signature_runs_out_for_good_though_the_clock_is_put_back(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.policy.write_text(reviewed_policy().replace("largest_rounds = 2", "largest_rounds = 3"))
    assert sign_now(settings, "ada") is not None
    at(monkeypatch, 13.9)
    assert [each.counts for each in proposed(settings).signatures] == [True]
    at(monkeypatch, 14.1)
    assert [each.why_not for each in proposed(settings).signatures] == ["has run out"]
    at(monkeypatch, 1)
    assert [each.why_not for each in proposed(settings).signatures] == ["has run out"]
    at(monkeypatch, 2)
    assert sign_now(settings, "ben") is not None
    assert sign_now(settings, "ada") is None  # who signs again counts again


def test_a_signature_from_ahead_of_the_clock_does_not_count(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.policy.write_text(reviewed_policy().replace("largest_rounds = 2", "largest_rounds = 3"))
    at(monkeypatch, 300)
    assert sign_now(settings, "ada") is not None
    at(monkeypatch, 0)
    assert sign_now(settings, "ben") is not None
    assert force(settings).largest_rounds == 2


def test_the_budget_of_node_toml_is_reviewed_too(settings: Settings, party: Path) -> None:
    assert cap_of(settings) == Cap(4.0, 1e-4)
    text = (party / "node.toml").read_text()
    (party / "node.toml").write_text(text.replace("epsilon = 4.0", "epsilon = 8.0"))
    larger = settings_of(party_node(party))
    assert larger.cap.epsilon == 8.0
    assert cap_of(larger) == Cap(4.0, 1e-4)
    found = proposal(larger)
    assert found is not None
    assert (found.needed, found.lines) == (3, ("[budget] epsilon of node.toml is raised from 4 to 8",))
    assert [sign_now(larger, name) is None for name in NAMES] == [False, False, True]
    assert cap_of(larger) == Cap(8.0, 1e-4)


def test_a_budget_that_the_ledger_has_is_final_whoever_signs(settings: Settings, party: Path) -> None:
    book = Ledger.open(settings.ledger)
    book.register("patients", ROW, settings.cap)
    book.close()
    text = (party / "node.toml").read_text()
    (party / "node.toml").write_text(text.replace("epsilon = 4.0", "epsilon = 8.0"))
    larger = settings_of(party_node(party))
    with pytest.raises(ApprovalError, match="is final: write epsilon 4"):
        sign_now(larger, "ada")


def test_reviewers_may_sign_themselves_away_and_come_back(settings: Settings) -> None:
    settings.policy.write_text(PARTY_POLICY)
    assert [sign_now(settings, name) is None for name in NAMES] == [False, False, True]
    assert in_force(settings) is None
    settings.policy.write_text(PARTY_POLICY.replace("largest_rounds = 40", "largest_rounds = 9"))
    assert force(settings).largest_rounds == 9
    settings.policy.write_text(reviewed_policy(days=3))
    assert force(settings).largest_rounds == 2
    held = in_force(settings)
    assert held is not None
    assert (held.number, held.review.days) == (3, 3)


def test_a_digest_is_of_what_is_parsed() -> None:
    cap = Cap(4.0, 1e-4)
    one = digest_of_policy(b"a = 1\n[b]\nc = 2\n", cap, "x")
    assert one == digest_of_policy(b"# x\nb = { c = 2 }\na = 1\n", cap, "x")
    assert one != digest_of_policy(b"a = 1\n[b]\nc = 3\n", cap, "x")
    assert one != digest_of_policy(b"a = 1\n[b]\nc = 2\n", Cap(4.1, 1e-4), "x")
    for wrong in (b"a = 2026-01-01\n", b"a = nan\n"):
        with pytest.raises(PolicyError):
            digest_of_policy(wrong, cap, "x")
