"""Take one guard away, and see that the test of its attack fails: the last column of docs/attacks.md.

    python benchmarks/mutations.py                 # all of them, two at a time
    python benchmarks/mutations.py poll memory     # those whose name has one of these words

Each mutation is applied to a copy of the tree; nothing here is touched. Before that, all the tests have to pass on an
unaltered copy. Exit code 1 where a test passes without its guard.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 240
PARTIES, RUNS, DRIVER = (f"coordinator/parley/coordinator/{name}.py" for name in ("parties", "runs", "driver"))
WHO = "federation/parley/node/authorization.py"
NAMES = "federation/parley/node/credentials.py"
COORDINATOR, FLOODS, OPERATOR, CERTIFICATES, PARTY = (
    f"tests/hostile/test_{name}.py::test_" for name in ("coordinator", "floods", "operator", "certificates", "party")
)
KEYS = "tests/attacks/test_keys.py::test_"
MODEL = "tests/model/test_model.py::test_"
STATE, FILTERS = "privacy/parley/privacy/ledger_state.py", "privacy/parley/privacy/filters.py"
CHEATING = "tests/privacy/test_cheating.py::test_"
RELAY, PEER = "tests/node/test_relay.py::test_", "tests/aggregator/test_peer.py::test_"
AGGREGATOR, QUESTIONS = "tests/hostile/test_aggregator.py::test_", "tests/party/test_admission.py::test_"


@dataclass(frozen=True)
class Mutation:
    """A guard, what is left without it, and the test that must notice."""

    name: str
    file: str
    guard: str
    without: str
    test: str


def none(name: str, file: str, condition: str, test: str) -> Mutation:
    """The guard `if condition:` never applies."""
    return Mutation(name, file, f"if {condition}:", "if False:", test)


MUTATIONS = [
    none("digest length", PARTIES, "len(digest) != DIGEST_BYTES", COORDINATOR + "a_digest_of_another_length_is_malformed"),
    Mutation("member of the run", PARTIES, "or peer not in run.manifest.identities(Role.party)", "",
             COORDINATOR + "who_has_no_part_in_a_run_learns_nothing_of_it"),
    none("joined first", PARTIES, "party not in run.joined and not run.state.final",
         COORDINATOR + "a_join_is_of_who_sends_it"),
    Mutation("future round", PARTIES, "if request.after_round > run.index and", "if False and",
             COORDINATOR + "a_restored_coordinator_is_noticed_by_its_parties"),
    none("negative round", PARTIES, "not -1 <= request.after_round < run.manifest.releases",
         COORDINATOR + "rounds_that_were_never_asked_are_refused"),
    none("known digests", PARTIES, "len(request.known_digests) > MOST_KNOWN", COORDINATOR + "lists_without_end_are_refused"),
    none("held points", PARTIES, "len(request.held_points) > MOST_HELD", COORDINATOR + "lists_without_end_are_refused"),
    none("polls of one party", PARTIES, "self._pending[peer] >= MOST_PENDING",
         COORDINATOR + "a_flood_of_polls_of_one_party_is_refused_and_others_are_served"),
    none("foreign points", PARTIES, "data is None", COORDINATOR + "only_points_that_are_asked_about_are_fetched"),
    none("changes of mind", RUNS, "run.decisions[party] >= MOST_DECISIONS",
         COORDINATOR + "a_flood_of_joins_of_one_party_is_refused"),
    Mutation("a stop that fails", RUNS, 'await self._set(run, State.stopped, f"not ended: {error}")', "pass",
             OPERATOR + "an_aggregator_that_does_not_sign_the_end_wedges_no_run"),
    Mutation("sum out of range", DRIVER, "max() > lattice", "max() > (1 << 62) + lattice",
             COORDINATOR + "shares_that_do_not_belong_together_end_the_run"),
    none("who is in the sum", DRIVER,
         "not self.manifest.minimum_parties <= len(present) or not present <= set(self.manifest.parties)",
         COORDINATOR + "a_sum_over_too_few_or_over_strangers_ends_the_run"),
    Mutation("one opening", "coordinator/parley/coordinator/controls.py", "if first.opening != second.opening or", "if False and",
             COORDINATOR + "shares_that_do_not_belong_together_end_the_run"),
    none("second manifest", "coordinator/parley/coordinator/store.py", "held and held[0][0] != digest",
         COORDINATOR + "a_second_manifest_under_one_runs_name_is_refused"),
    Mutation("markup", "deploy/parley/cli/commands/status.py", "escape(row[\"outcome\"] or gathering)", "row[\"outcome\"]",
             OPERATOR + "what_parties_say_is_text_on_the_operators_terminal"),
    Mutation("socket's mode", "coordinator/parley/coordinator/process.py", "self._socket.path.chmod(0o600)",
             "self._socket.path.chmod(0o666)", OPERATOR + "the_socket_is_its_owners_alone"),
    none("socket's folder", "coordinator/parley/coordinator/process.py", "folder.stat().st_mode & 0o077",
         OPERATOR + "a_folder_that_others_may_enter_takes_no_socket"),
    Mutation("wide letters", "federation/parley/federation/manifest.py", 'unicodedata.normalize("NFKC", legal_entity)',
             "legal_entity", OPERATOR + "what_is_no_manifest_is_refused_in_one_printable_line"),
    Mutation("patience", WHO, "asyncio.timeout(self._patience_seconds)", "asyncio.timeout(None)",
             FLOODS + "calls_without_a_message_are_given_up_and_do_not_keep_others_out"),
    none("calls of one peer", WHO, "self._calls[peer] >= self._most_calls",
         FLOODS + "calls_without_a_message_are_given_up_and_do_not_keep_others_out"),
    none("callers of a method", WHO, "peer not in (callers() if callable(callers) else callers)",
         COORDINATOR + "only_parties_of_a_run_call_the_parties_methods"),
    none("the caller's key", WHO, "key not in identity.pins.require(name)", KEYS + "with_its_guards_an_attack_gains_nothing_beyond_what_is_allowed[H6-callers]"),
    Mutation("certificate's purpose", WHO, "    check_usage(enrolled, name)\n", "",
             CERTIFICATES + "who_cannot_prove_a_name_reaches_no_handler"),
    Mutation("one name", NAMES, "if len(uris) != 1:", "if not uris:",
             CERTIFICATES + "who_cannot_prove_a_name_reaches_no_handler"),
    Mutation("unreadable name", NAMES, "x509.UnsupportedGeneralNameType, ", "",
             CERTIFICATES + "a_name_that_no_library_can_read_is_no_name"),
    Mutation("unreadable certificate", NAMES, "except UNREADABLE", "except ValueError",
             CERTIFICATES + "a_certificate_that_no_library_can_read_is_none"),
    Mutation("waits", "federation/parley/federation/rounds.py", "return min(asked_seconds, MOST_WAIT_SECONDS) if asked_seconds > 0 else 0.0",
             "return asked_seconds", FLOODS + "a_wait_that_is_no_number_does_not_hold_up_others"),
    Mutation("handshake", "federation/parley/node/connections.py", '("grpc.server_handshake_timeout_ms", 10_000)',
             '("grpc.server_handshake_timeout_ms", 60_000)', FLOODS + "a_connection_that_never_greets_is_closed"),
    none("memory", "mpc/parley/aggregator/uploads.py", "self.held + size > self._most",
         FLOODS + "uploads_beyond_the_servers_memory_have_to_wait"),
    Mutation("commitment", "mpc/parley/aggregator/uploads.py", "self.complete = found == self._commitment", "self.complete = True",
             AGGREGATOR + "an_altered_payload_is_rejected_and_the_right_one_still_counts"),
    Mutation("second upload", "mpc/parley/aggregator/uploads.py",
             "if words != self._words or", "if",
             AGGREGATOR + "a_second_upload_contradicts_the_first"),
    none("one party alone", "mpc/parley/aggregator/run.py", "len(expected) < manifest.minimum_parties",
         AGGREGATOR + "an_opening_that_the_manifest_does_not_allow_is_refused"),
    none("who leads", "mpc/parley/aggregator/service.py", "caller != run.manifest.identities(Role.coordinator)[0]",
         AGGREGATOR + "only_its_own_coordinator_leads_a_run"),
    none("who uploads", "mpc/parley/aggregator/service.py", "caller not in run.manifest.members",
         AGGREGATOR + "a_party_is_known_by_its_certificate_only"),
    Mutation("run's name", "mpc/parley/aggregator/admission.py", "        self._require_name(manifest)\n", "",
             AGGREGATOR + "a_second_manifest_under_the_same_name_is_refused"),
    none("field names", "federation/parley/federation/fields.py",
         "not all(isinstance(key, str) and key.isprintable() for key in value)",
         PARTY + "free_tables_hold_only_text_that_every_message_takes"),
    Mutation("names in messages", "federation/parley/federation/fields.py", "name = name if name.isprintable() and",
             "name = name if True or", PARTY + "manifests_with_tricks_are_declined_in_plain_words_and_end_nothing"),
    Mutation("spinning", "party/parley/party/run.py", "SHORTEST_WAIT_SECONDS - (time.monotonic() - began)", "0.0",
             PARTY + "a_coordinator_that_lets_nobody_wait_is_not_spun_for"),
    Mutation("memory of manifests", "party/parley/party/client.py",
             "for oldest in list(self._known)[: len(self._known) - MOST_KNOWN]:", "for oldest in list[bytes]():",
             PARTY + "a_flood_of_bytes_that_are_no_manifests_fills_no_memory"),
    none("refused manifests", "party/parley/party/outbox.py", "state == REFUSED", PARTY + "refused_manifests_fill_no_disk"),
    Mutation("words of peers", "party/parley/party/run.py", 'each if each.isprintable() else "?"', "each",
             PARTY + "an_outcome_that_writes_on_terminals_is_cleaned"),
    none("ends agree", "federation/parley/node/endings.py", "len(set(said.values())) != 1",
         QUESTIONS + "an_end_that_is_not_proved_gives_nothing_back"),
    none("both ends", "federation/parley/node/endings.py", "said != set(manifest.identities(Role.aggregator))",
         QUESTIONS + "an_end_that_is_not_proved_gives_nothing_back"),
    none("question's digest", "party/parley/party/questions.py", "question.query_digest != digest_of(question, manifest.digest)",
         QUESTIONS + "a_question_beyond_the_manifest_ends_this_partys_part_and_records_nothing"),
    none("same round, other question", "party/parley/party/run.py", "question.query_digest != last.query",
         QUESTIONS + "a_question_beyond_the_manifest_ends_this_partys_part_and_records_nothing"),
    none("relay's places", "mpc/parley/aggregator/uploads.py",
         "(found := len(getattr(request, name))) and (role, found) != (whose, size)",
         RELAY + "a_key_for_a_and_a_sealed_half_for_b_are_refused"),
    Mutation("relay key that fails", "federation/parley/node/relay.py", "            del self._held[party]\n", "",
             RELAY + "a_key_opens_what_was_sealed_to_this_upload_and_is_dropped_otherwise"),
    Mutation("relay key's end", "federation/parley/node/relay.py", " and time.monotonic() < held[1]", "",
             RELAY + "a_key_ends_by_itself_and_with_its_run"),
    none("relay short of B", "mpc/parley/aggregator/run.py", "left <= 0 and relied",
         MODEL + "a_short_round_waits_for_its_parties_as_often_as_it_should"),
    Mutation("servers out of step", "mpc/parley/aggregator/run.py", "patience = self.manifest.deadline_seconds + self._grace",
             "patience = max(current.deadline - ready, 0) + self._grace",
             MODEL + "a_server_that_restarts_while_a_party_is_away_is_not_out_of_step_for_ever"),
    Mutation("relay kept back", "mpc/parley/aggregator/intake.py", "if current.relayed or not self.keys.holds(party)",
             "if not self.keys.holds(party)",
             RELAY + "a_half_that_a_keeps_back_is_missed_by_b_which_still_has_its_partys_key"),
    Mutation("relay keys that are over", "federation/parley/node/relay.py", "            key.advance(round_index)\n", "            pass\n",
             RELAY + "what_is_kept_opens_no_round_that_is_over"),
    Mutation("relay asked again", "party/parley/party/uploads.py", "not again and not self.direct and", "not self.direct and",
             RELAY + "a_party_gives_b_a_key_once_and_brings_what_is_asked_again_itself"),
    Mutation("old opening stream", "mpc/parley/aggregator/peer.py", " and time.monotonic() < born + STREAM_SECONDS - 60", "",
             PEER + "a_stream_that_is_old_or_of_another_connection_is_not_used_again"),
    Mutation("caught and given back", STATE, "if not run.evidence and", "if",
             CHEATING + "an_end_gives_nothing_back_of_it_whichever_comes_first"),
    Mutation("accounted and given back", STATE, " and not run.accounted", "",
             "tests/privacy/test_put_back.py::test_of_an_account_nothing_is_given_back_by_any_end"),
    Mutation("caught, less than before", FILTERS, "max(cost.epsilon, lying), max(", "lying, max(",
             CHEATING + "nobody_is_charged_less_for_it"),
    Mutation("caught twice", "privacy/parley/privacy/ledger.py", " and evidence not in known[run].evidence", "",
             CHEATING + "once_for_one_evidence_and_one_run_and_no_dearer_for_a_second_evidence"),
    none("caught, no guarantee", FILTERS, "spent.caught_without_guarantee",
         CHEATING + "where_there_is_no_guarantee_it_says_so_and_admits_nothing_more"),
    Mutation("caught, by hand", FILTERS, "math.inf if spent.caught_without_guarantee else ", "",
             "tests/party/test_approval.py::test_nobody_approves_on_a_budget_that_a_run_without_any_guarantee_has_closed"),
    none("covert without own noise", "mpc/parley/mpc/parts.py", 'self.security == "covert" and self.own == 0',
         "tests/federation/test_manifest.py::test_what_does_not_fit_together_is_refused"),
    none("covert audits everything", "federation/parley/federation/noise.py", "parts.audit_rate == 1",
         "tests/federation/test_manifest.py::test_what_does_not_fit_together_is_refused"),
]  # fmt: skip
# ruff: noqa: E501  a guard is quoted as it stands


def apply(mutation: Mutation, tree: Path) -> None:
    path = tree / mutation.file
    text = path.read_text()
    if text.count(mutation.guard) != 1:
        raise SystemExit(f"{mutation.name}: {mutation.file} has {text.count(mutation.guard)} times {mutation.guard!r}")
    path.write_text(text.replace(mutation.guard, mutation.without))


def environment_of(tree: Path) -> dict[str, str]:
    """In which a copy's own modules are imported, and not those that are installed here."""
    roots = (tree, *sorted(each.parent for each in tree.glob("*/parley")))
    return {**os.environ, "PYTHONPATH": ":".join(map(str, roots)), "OMP_NUM_THREADS": "1"}


def fails(tests: list[str], mutation: Mutation | None) -> bool:
    """Whether one of the tests fails on a copy of the tree, without the guard if there is one."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        tree = Path(folder) / "tree"
        ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".mypy_cache", ".hypothesis", ".pytest_cache")
        shutil.copytree(ROOT, tree, ignore=ignored)
        if mutation is not None:
            apply(mutation, tree)
        environment = environment_of(tree)
        marked = ["-m", "not docker"]  # slow ones too
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider", *marked, *tests]
        try:
            done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return True
    if done.returncode not in (0, 1):
        raise SystemExit(f"{mutation}: {done.stdout[-500:]}{done.stderr[-500:]}")
    return done.returncode == 1


def main(words: list[str]) -> int:
    chosen = [each for each in MUTATIONS if not words or any(word in each.name for word in words)]
    if fails(sorted({each.test for each in chosen}), None):
        raise SystemExit("the tests fail without any mutation: mend them first")
    with ThreadPoolExecutor(2) as both:
        found = {}
        for each, seen in zip(chosen, both.map(lambda each: fails([each.test], each), chosen), strict=True):
            found[each.name] = seen
            print(f"{'noticed' if seen else 'SURVIVED':9} {each.name:26} {each.file}  {each.test}", flush=True)
    print(f"{sum(found.values())} of {len(found)} mutations noticed")
    return 0 if all(found.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
