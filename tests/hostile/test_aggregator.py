"""What two real servers refuse, each with its type; nothing of it keeps the honest round from being opened."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import grpc
import pytest

from parley.federation.manifest import Manifest
from parley.federation.names import Role
from parley.node.refusals import refusal_in
from parley.v1 import aggregator_pb2 as wire
from parley.v1 import aggregator_pb2_grpc, noise_pb2, noise_pb2_grpc
from tests.support import documents
from tests.support.servers import Contribution, Federation, contributions, is_noised, open_request, query_of
from tests.support.until import GIVE_UP_SECONDS

REJECTION = wire.UploadResponse
PIECE = 1 << 20


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    federation = Federation(tmp_path_factory.mktemp("servers"))
    for server in federation.servers:
        policy = documents.AGGREGATOR_POLICY.replace('["lead"]', '["lead", "rival"]')
        (server.path / "policy.toml").write_text(policy)
    for role, name in ((Role.coordinator, "rival"), (Role.coordinator, "stranger"), (Role.party, "hospital-x")):
        federation.identities[name] = federation._issue(role, name)
    federation.start()
    yield federation
    federation.close()


@pytest.fixture
def manifest(servers: Federation, request: pytest.FixtureRequest) -> Manifest:
    """A fresh run for each test, and another one that lets more parties and coordinators past the interceptor."""
    name = "h-" + hashlib.sha256(request.node.name.encode()).hexdigest()[:12]
    made = documents.manifest(run=name)
    servers.admit(made)
    return made


@pytest.fixture(scope="module")
def others(servers: Federation) -> Manifest:
    """A run of the rival's with another party."""
    made = documents.manifest(run="others", **{"coordinator.name": "rival", "parties.2.name": "hospital-x"})
    for role in (0, 1):
        servers.admit_silently(made)
        assert servers.propose(role, made, "rival").admitted
    return made


def refused(call: Callable[[], Any]) -> str:
    """The name of the typed refusal, or of the status code."""
    with pytest.raises(grpc.RpcError) as raised:
        call()
    refusal = refusal_in(raised.value)
    if refusal is None:
        assert isinstance(raised.value, grpc.Call)
        return str(raised.value.code().name).lower()
    assert refusal.message
    assert refusal.hint
    return refusal.name


def still_opens(servers: Federation, manifest: Manifest) -> None:
    servers.upload_all(contributions(manifest, 0))
    assert is_noised(manifest, 0, servers.open(manifest, 0), 6.0)


@pytest.mark.parametrize("role", [0, 1], ids=["A", "B"])
def test_an_altered_payload_is_rejected_and_the_right_one_still_counts(
    servers: Federation, manifest: Manifest, role: int
) -> None:
    made = contributions(manifest, 0)[0]
    payload = bytearray(made.payloads[role])
    payload[-1] ^= 1
    answer = servers.upload(role, made, data=bytes(payload))
    assert (answer.rejection, answer.received, answer.complete) == (REJECTION.REJECTION_DIGEST, 0, False)
    still_opens(servers, manifest)


def test_a_second_upload_contradicts_the_first(servers: Federation, manifest: Manifest) -> None:
    first = contributions(manifest, 0)[0]
    servers.upload_all([first])
    second = Contribution.of(manifest, 0, first.party, [9.0] * 3, b"again")
    for role in (0, 1):
        assert servers.upload(role, second).rejection == REJECTION.REJECTION_CONTRADICTION
        assert servers.upload(role, first).complete
    still_opens(servers, manifest)


def test_a_commitment_to_the_other_half_is_part_of_the_word(servers: Federation, manifest: Manifest) -> None:
    made = contributions(manifest, 0)[0]
    servers.upload_all([made], [0])
    answer = servers.upload(0, made, commitment_b=bytes(32))
    assert answer.rejection == REJECTION.REJECTION_CONTRADICTION


@pytest.mark.parametrize(
    "changes",
    [
        {"data": b"x" * (PIECE + 1), "size": PIECE + 1},
        {"data": b""},
        {"size": 57, "data": b"x"},
        {"size": 32, "data": b"x"},
        {"size": 32 + 8 * 65, "data": b"x"},
        {"size": 1 << 60, "data": b"x"},
        {"offset": 56, "data": b"x"},
        {"offset": 1 << 63, "data": b"x"},
        {"query_digest": b"short"},
        {"commitment_a": b""},
        {"commitment_b": bytes(33)},
    ],
    ids=["piece", "empty", "odd", "no words", "over-long", "giant", "past", "far", "query", "a", "b"],
)
def test_a_malformed_upload_is_refused(servers: Federation, manifest: Manifest, changes: dict[str, Any]) -> None:
    made = contributions(manifest, 0)[0]
    assert refused(lambda: servers.upload(0, made, **changes)) == "malformed"
    still_opens(servers, manifest)


def test_a_message_over_the_limit_is_refused_by_the_transport(servers: Federation, manifest: Manifest) -> None:
    made = contributions(manifest, 0)[0]
    assert refused(lambda: servers.upload(0, made, data=b"x" * (5 << 20), size=5 << 20)) == "resource_exhausted"


def test_bytes_that_are_no_message_are_refused(servers: Federation) -> None:
    call: Any = servers.channel("hospital-a", 0, "share").unary_unary("/parley.v1.ShareService/Upload")
    assert refused(lambda: call(b"\xff" * 40, timeout=GIVE_UP_SECONDS)) == "malformed"


def test_another_question_is_rejected(servers: Federation, manifest: Manifest) -> None:
    made = contributions(manifest, 0)
    early = servers.upload(0, made[0], query_digest=query_of(7))  # held: nobody knows the question yet
    assert early.complete
    servers.open(manifest, 0, 0, [0, 1], wait_seconds=0.01)
    assert servers.upload(0, made[1], query_digest=query_of(7)).rejection == REJECTION.REJECTION_OTHER_QUERY
    still_opens(servers, manifest)  # what was held for another question has gone


def test_too_early_and_too_late(servers: Federation, manifest: Manifest) -> None:
    assert servers.upload(0, contributions(manifest, 2)[0]).rejection == REJECTION.REJECTION_TOO_EARLY
    assert servers.upload(0, contributions(manifest, 1)[0]).complete  # one round ahead is held
    still_opens(servers, manifest)
    assert servers.upload(0, contributions(manifest, 0)[0]).rejection == REJECTION.REJECTION_TOO_LATE
    beyond = contributions(manifest, 0)[0].request(0, round=1 << 31)
    answer = servers.share(0, "hospital-a").Upload(beyond, timeout=GIVE_UP_SECONDS)
    assert answer.rejection == REJECTION.REJECTION_TOO_LATE


def test_a_party_is_known_by_its_certificate_only(servers: Federation, manifest: Manifest, others: Manifest) -> None:
    made = contributions(manifest, 0)[0]
    assert refused(lambda: servers.upload(0, made, who="hospital-x")) == "not_a_member"
    assert refused(lambda: servers.upload(0, made, who="lead")) == "unavailable"
    servers.upload(0, made, who="hospital-b")  # b's own contribution now, of a's bytes: a's is not touched
    assert servers.upload(0, made).complete


def test_unknown_manifests_are_refused_everywhere(servers: Federation, manifest: Manifest) -> None:
    made = contributions(manifest, 0)[0]
    for digest in (bytes(32), b"", bytes(31), b"x" * 1000):
        assert refused(lambda d=digest: servers.upload(0, made, manifest_digest=d)) == "not_admitted"  # type: ignore[misc]
        control = servers.control(0)
        asked = open_request(manifest, 0, manifest_digest=digest)
        assert refused(lambda c=control, a=asked: c.Open(a, timeout=GIVE_UP_SECONDS)) == "not_admitted"  # type: ignore[misc]
        end = wire.EndRequest(manifest_digest=digest)
        assert refused(lambda c=control, e=end: c.End(e, timeout=GIVE_UP_SECONDS)) == "not_admitted"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"length": 0}, "malformed"),
        ({"length": 65}, "malformed"),
        ({"query_digest": b"x"}, "malformed"),
        ({"round": 40}, "malformed"),
        ({"round": 1}, "too_early"),
        ({"expected": ["hospital-a"]}, "policy"),
        ({"expected": []}, "policy"),
        ({"expected": ["hospital-a", "hospital-a"]}, "malformed"),
        ({"expected": ["hospital-a", "hospital-x"]}, "malformed"),
    ],
    ids=["none", "longer", "query", "beyond", "ahead", "alone", "nobody", "twice", "stranger"],
)
def test_an_opening_that_the_manifest_does_not_allow_is_refused(
    servers: Federation, manifest: Manifest, changes: dict[str, Any], kind: str
) -> None:
    for role in (0, 1):
        assert refused(lambda r=role: servers.control(r).Open(open_request(manifest, 0, **changes))) == kind  # type: ignore[misc]
    still_opens(servers, manifest)


@pytest.mark.parametrize("changes", [{"query_digest": query_of(9)}, {"length": 2}], ids=["question", "length"])
def test_the_same_round_with_other_parameters_is_refused_before_and_after(
    servers: Federation, manifest: Manifest, changes: dict[str, Any]
) -> None:
    servers.open(manifest, 0, 0, wait_seconds=0.01)
    for when in ("before", "after"):
        for role in (0, 1):
            ask, call = servers.control(role).Open, open_request(manifest, 0, **changes)
            assert refused(partial(ask, call, timeout=GIVE_UP_SECONDS)) == "contradiction"
        if when == "before":
            still_opens(servers, manifest)


def test_servers_that_are_asked_different_questions_open_nothing(servers: Federation, manifest: Manifest) -> None:
    made = contributions(manifest, 0)
    servers.upload_all(made, [0])
    for each in made:
        assert servers.upload(1, each, query_digest=query_of(5)).complete
    asks = [open_request(manifest, 0), open_request(manifest, 0, query_digest=query_of(5))]
    calls = [servers.control(role).Open.future(asks[role], timeout=GIVE_UP_SECONDS) for role in (0, 1)]
    assert {refused(call.result) for call in calls} == {"contradiction"}
    assert [end.openings for end in servers.end(manifest)] == [0, 0]


def test_only_its_own_coordinator_leads_a_run(servers: Federation, manifest: Manifest, others: Manifest) -> None:
    rival = servers.control(0, "rival")
    assert refused(lambda: rival.Open(open_request(manifest, 0), timeout=GIVE_UP_SECONDS)) == "not_a_member"
    assert (
        refused(lambda: rival.End(wire.EndRequest(manifest_digest=manifest.digest), timeout=GIVE_UP_SECONDS))
        == "not_a_member"
    )
    fetch = wire.FetchShareRequest(manifest_digest=manifest.digest)
    assert refused(lambda: rival.FetchShare(fetch, timeout=GIVE_UP_SECONDS)) == "not_a_member"
    for who, kind in (("hospital-a", "unavailable"), ("stranger", "permission_denied")):
        control = servers.control(0, who)
        assert refused(lambda c=control: c.Open(open_request(manifest, 0), timeout=GIVE_UP_SECONDS)) == kind  # type: ignore[misc]
        assert refused(lambda w=who: servers.propose(0, manifest, w)) == kind  # type: ignore[misc]
    assert refused(lambda: servers.propose(0, manifest, "rival")) == "not_a_member"


def test_services_are_on_their_own_ports_only(servers: Federation, manifest: Manifest) -> None:
    """To each of which only the keys of its own role open a connection: nobody else can keep its places."""
    on_share = servers.control(0, "lead", "share")
    assert refused(lambda: on_share.Open(open_request(manifest, 0), timeout=GIVE_UP_SECONDS)) == "unavailable"
    on_control = aggregator_pb2_grpc.ShareServiceStub(servers.channel("hospital-a", 0, "control"))
    made = contributions(manifest, 0)[0]
    assert refused(lambda: on_control.Upload(made.request(0), timeout=GIVE_UP_SECONDS)) == "unavailable"


def test_only_server_a_speaks_on_the_peer_port(servers: Federation) -> None:
    for who in ("lead", "hospital-a", "rival"):
        channel = servers.channel(who, 1, "peer")
        opening = aggregator_pb2_grpc.OpeningServiceStub(channel).Converse
        noise = noise_pb2_grpc.NoiseServiceStub(channel).Converse
        piece = wire.OpeningServiceConverseRequest(data=b"x", last=True)
        assert refused(lambda c=opening, p=piece: next(c(iter([p]), timeout=GIVE_UP_SECONDS))) == "unavailable"  # type: ignore[misc]
        first = noise_pb2.ConverseRequest(data=b"x", last=True)
        assert refused(lambda c=noise, p=first: next(c(iter([p]), timeout=GIVE_UP_SECONDS))) == "unavailable"  # type: ignore[misc]


def test_a_second_manifest_under_the_same_name_is_refused(servers: Federation, manifest: Manifest) -> None:
    weaker = documents.manifest(run=manifest.run, **{"mechanism.noise_multiplier": 0.6})
    assert refused(lambda: servers.propose(0, weaker)) == "contradiction"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"aggregators.0.name": "south", "aggregators.1.name": "north"}, "exchange"),
        ({"aggregators.0.name": "west"}, "here work"),
        ({"noise.precision": "high"}, "offers"),
        ({"noise.cover": "rectangle"}, "offers"),
    ],
    ids=["order", "other server", "precision", "cover"],
)
def test_a_manifest_that_means_other_servers_is_not_admitted(
    servers: Federation, changes: dict[str, Any], word: str
) -> None:
    for role in (0, 1):
        answer = servers.propose(role, documents.manifest(run="other-servers", **changes))
        assert (answer.admitted, answer.pending) == (False, False)
        assert word in answer.reasons[0]


def test_a_manifest_that_is_not_canonical_is_refused(servers: Federation, manifest: Manifest) -> None:
    for data in (b"", b"parley manifest 1\n{}", manifest.canonical + b" ", b"\xff" * 100):
        call = servers.control(0).Propose
        asked = wire.ProposeRequest(manifest=data)
        assert refused(lambda c=call, a=asked: c(a, timeout=GIVE_UP_SECONDS)) == "malformed"  # type: ignore[misc]


def test_an_unopened_share_is_not_fetched(servers: Federation, manifest: Manifest) -> None:
    fetch = wire.FetchShareRequest(manifest_digest=manifest.digest)
    assert refused(lambda: servers.control(0).FetchShare(fetch, timeout=GIVE_UP_SECONDS)) == "too_early"
    still_opens(servers, manifest)
    far = wire.FetchShareRequest(manifest_digest=manifest.digest, offset=24)
    assert refused(lambda: servers.control(0).FetchShare(far, timeout=GIVE_UP_SECONDS)) == "malformed"


def test_a_payload_of_the_other_server_is_refused(servers: Federation, manifest: Manifest) -> None:
    made = contributions(manifest, 0)[0]
    swapped = replace(made, payloads=made.payloads[::-1])
    assert refused(lambda: servers.upload(1, swapped, size=len(made.payloads[0]))) == "malformed"


def test_nothing_of_a_share_is_in_any_log(servers: Federation, manifest: Manifest) -> None:
    still_opens(servers, manifest)
    log = b"".join((server.path / "log").read_bytes() for server in servers.servers)
    for made in contributions(manifest, 0):
        for payload in made.payloads:
            assert payload.hex().encode() not in log
    assert b"Traceback" not in log
