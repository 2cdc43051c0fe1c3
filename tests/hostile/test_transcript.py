"""What the coordinator receives in a run is the noised estimators and public facts, byte for byte.

A whole run with real aggregators and parties, a process each, and a real coordinator in this process, so that whatever
reaches it over the wire is kept before it is parsed: each party's request and each aggregator's answer. Every field of
every message has to be in the list below, where a function of public facts says what it may be. One field depends on
data: the aggregators' shares of a noised sum, whose sum is what the run store, the ledger and the model come from.
"""

import asyncio
import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from grpc_health.v1 import health_pb2

import parley.coordinator.controls
import parley.coordinator.process
from parley.bench.train_data import study, write_party
from parley.coordinator.preparation import prepare
from parley.coordinator.process import CoordinatorProcess
from parley.coordinator.store import RoundRecord, State
from parley.demo.local import LocalFederation
from parley.federation.manifest import Manifest
from parley.federation.names import NodeName, Role
from parley.federation.rounds import point_digest
from parley.node.authorization import AioAuthorization
from parley.node.endings import verify_ends
from parley.node.node_file import CoordinatorNode, read_node
from parley.node.pins import Pins
from parley.node.statements import digest_of, mode_of
from parley.node.transport import open_aio_channel
from parley.node.vigil import Vigil
from parley.privacy.ledger import Ledger
from parley.privacy.randomness import SystemRandomness
from parley.v1 import aggregator_pb2, common_pb2, coordinator_pb2
from tests.support.until import GIVE_UP_SECONDS, until

PARTIES, DIMENSION, ROUNDS = 3, 40, 6
Open = aggregator_pb2.OpenResponse


@dataclass
class Run:
    """A run that has ended, and what its coordinator had received."""

    manifest: Manifest
    received: list[tuple[str, bytes]]
    """Method and bytes, in order."""
    told: list[tuple[NodeName, dict[str, str]]]
    """What nodes said of themselves, beside questions and answers about health."""
    theta: Any
    records: list[RoundRecord]
    ledger: dict[int, str]
    pins: Pins

    def of(self, method: str) -> list[Any]:
        return [parsed(name, data) for name, data in self.received if name == method]


TYPES: dict[str, type[Message]] = {
    "ListRuns": coordinator_pb2.ListRunsRequest,
    "Join": coordinator_pb2.JoinRequest,
    "NextRound": coordinator_pb2.NextRoundRequest,
    "Propose": aggregator_pb2.ProposeResponse,
    "Open": aggregator_pb2.OpenResponse,
    "End": aggregator_pb2.EndResponse,
    "Evidence": aggregator_pb2.EvidenceResponse,
    "Check": health_pb2.HealthCheckRequest,
}
"""All that may arrive; points and shares are small here, so nothing is fetched in pieces."""


def parsed(method: str, data: bytes) -> Message:
    """The message, and no byte beside it."""
    message = TYPES[method].FromString(data)
    assert not UnknownFieldSet(message)
    assert message.SerializeToString(deterministic=True) == data
    return message


class Recorder:
    """Keeps the bytes of everything that arrives."""

    def __init__(self) -> None:
        self.received: list[tuple[str, bytes]] = []
        self.told: list[tuple[NodeName, dict[str, str]]] = []

    def telling(self, told: Callable[..., None]) -> Callable[..., None]:
        def kept(vigil: Vigil, peer: NodeName, metadata: Any) -> None:
            self.told.append((peer, dict(metadata or ())))
            told(vigil, peer, metadata)

        return kept

    def keeping(self, method: str, parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        name = method.rsplit("/", 1)[-1]

        def kept(data: bytes) -> Any:
            self.received.append((name, data))
            return parse(data)

        return kept

    def interceptor(self, *arguments: Any) -> AioAuthorization:
        recorder = self

        class Recording(AioAuthorization):
            async def intercept_service(self, continuation: Any, details: Any) -> Any:
                async def kept(asked: Any) -> Any:
                    found = await continuation(asked)
                    parse = found.request_deserializer
                    return found._replace(request_deserializer=recorder.keeping(asked.method, parse))

                return await super().intercept_service(kept, details)

        return Recording(*arguments)

    def channel(self, make: Callable[..., Any]) -> Callable[..., Any]:
        recorder = self

        class Recorded:
            def __init__(self, inner: Any) -> None:
                self._inner = inner

            def unary_unary(self, path: str, response_deserializer: Any = None, **others: Any) -> Any:
                parse = recorder.keeping(path, response_deserializer)
                return self._inner.unary_unary(path, response_deserializer=parse, **others)

            async def close(self) -> None:
                await self._inner.close()

        return lambda *arguments: Recorded(make(*arguments))


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("transcript")
    manifest = study("transcript", PARTIES, DIMENSION, ROUNDS)
    data = {}
    for place in range(PARTIES):
        data[f"party-{place + 1}"] = [folder / f"party-{place + 1}.libsvm"]
        write_party(data[f"party-{place + 1}"][0], place, DIMENSION)
    recorder = Recorder()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait(work: Any, seconds: float = GIVE_UP_SECONDS) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(seconds)

    with pytest.MonkeyPatch.context() as patch, LocalFederation(folder / "nodes", manifest, data) as federation:
        patch.setattr(parley.coordinator.process, "AioAuthorization", recorder.interceptor)
        patch.setattr(parley.coordinator.controls, "open_aio_channel", recorder.channel(open_aio_channel))
        patch.setattr(Vigil, "told", recorder.telling(Vigil.told))
        node = read_node(federation.coordinator.folder)
        assert isinstance(node, CoordinatorNode)
        nodes = [*federation.aggregators, *federation.parties]
        for each in nodes:
            each.start()

        async def begin() -> CoordinatorProcess:
            process = CoordinatorProcess(node, lambda *_, **__: "")
            await process.serve()
            return process

        process = wait(begin())
        for each in nodes:
            each.wait_ready()
        wait(process.runs.submit(manifest.canonical))
        run = process.runs.all[manifest.digest]
        until(lambda: run.state.resting)
        assert run.state is State.finished, run.outcome
        theta, records = process.store.theta(manifest.digest), process.store.history(manifest.digest)
        wait(process.stop())
        ledger = Ledger.open(node.ledger)
        recorded = dict(ledger.runs[manifest.run].recorded)
        ledger.close()
        yield Run(manifest, recorder.received, recorder.told, theta, records, recorded, node.identity.load().pins)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


# ------------------------------------------------------------ every field, and what it may be


def fields_of(message: Message, path: str) -> Iterator[tuple[str, Any]]:
    """Every field that is set, repeated ones entry by entry."""
    for descriptor, value in message.ListFields():
        for each in value if descriptor.is_repeated else [value]:
            if isinstance(each, Message):
                yield from fields_of(each, f"{path}.{descriptor.name}")
            elif isinstance(message, common_pb2.SignedWord) and descriptor.name == "body":
                said = common_pb2.RoundStatement.FromString(each)
                assert not UnknownFieldSet(said)
                assert said.SerializeToString(deterministic=True) == each
                yield from fields_of(said, f"{path}.body")
            else:
                yield f"{path}.{descriptor.name}", each


def allowed(run: Run) -> dict[str, Callable[[Any], bool]]:
    """Field to what public facts let it be. `Open.share` is not here: it is what the other tests are about."""
    manifest = run.manifest
    points = asked_points(run)
    servers = {name.uri for name in manifest.identities(Role.aggregator)}

    def seconds(value: float) -> bool:  # of this round on that server: when parties came, how long noise took
        return 0 <= value < 120

    def is_digest(value: bytes) -> bool:
        return value == manifest.digest

    opened = run.of("Open")
    said_before = {digest_of(each.statement) for each in opened}

    def is_share_digest(value: bytes) -> bool:
        return value in {hashlib.sha256(each.share).digest() for each in opened}

    def is_party(value: str) -> bool:
        return value in manifest.parties

    return {
        "ListRuns.known_digests": is_digest,
        "ListRuns.wait_seconds": lambda value: value == 30,
        "Join.manifest_digest": is_digest,
        "Join.accepted": lambda value: value is True,
        "NextRound.manifest_digest": is_digest,
        "NextRound.after_round": lambda value: -1 <= value < manifest.releases,
        "NextRound.held_points": lambda value: value in points,
        "NextRound.wait_seconds": lambda value: value == min(30, manifest.deadline_seconds),
        "Propose.admitted": lambda value: value is True,
        "Propose.pending": lambda value: value is True,
        "Propose.reasons": lambda value: value == "is being verified: propose again",
        "Propose.admission.aggregator": lambda value: value in servers,
        "Propose.admission.manifest_digest": is_digest,
        "Propose.admission.signature": lambda value: 60 < len(value) < 80,
        "Open.state": lambda value: value in (Open.STATE_WAITING, Open.STATE_OPENED),
        "Open.contributors": is_party,
        "Open.missing": is_party,
        "Open.size": lambda value: value == 8 * manifest.model.dimension,
        "Open.opening": lambda value: len(value) == 16,
        "Open.waited_seconds": seconds,
        "Open.agreed_seconds": seconds,
        "Open.noised_seconds": seconds,
        "Open.statement.signature": lambda value: 60 < len(value) < 2000,
        "Open.statement.body.aggregator": lambda value: value in servers,
        "Open.statement.body.role": lambda value: value == 1,
        "Open.statement.body.manifest_digest": is_digest,
        "Open.statement.body.round": lambda value: value < manifest.releases,
        "Open.statement.body.query_digest": lambda value: len(value) == 32,
        "Open.statement.body.contributions.party": is_party,
        # Of commitments, each to 32 random bytes at least: it tells nothing of what they commit to.
        "Open.statement.body.contributions.upload_digest": lambda value: len(value) == 32,
        "Open.statement.body.opening": lambda value: len(value) == 16,
        "Open.statement.body.epoch": lambda value: len(value) == 16,
        "Open.statement.body.start": lambda value: value < 1 << 32,
        "Open.statement.body.length": lambda value: value == manifest.model.dimension,
        "Open.statement.body.security": lambda value: value == mode_of(manifest)[0],
        "Open.statement.body.own": lambda value: value == mode_of(manifest)[1],
        "Open.statement.body.share_digest": is_share_digest,
        "Open.statement.body.previous": lambda value: value == manifest.digest or value in said_before,
        "Open.statement.body.life": lambda value: len(value) == 16,
        "End.end.aggregator": lambda value: value in servers,
        "End.end.manifest_digest": is_digest,
        "End.end.openings": lambda value: value == manifest.releases,
        "End.end.signature": lambda value: 60 < len(value) < 80,
    }


def test_every_field_that_the_coordinator_receives_is_a_public_fact_or_a_share(ended: Run) -> None:
    rules = allowed(ended)
    seen = set()
    for method, data in ended.received:
        assert method in TYPES, method
        for path, value in fields_of(parsed(method, data), method):
            seen.add(path)
            if path != "Open.share":
                assert path in rules, path
                assert rules[path](value), (path, value)
    assert seen >= {"Open.share", "Open.contributors", "NextRound.after_round", "Join.accepted", "End.end.signature"}


def test_what_nodes_say_of_themselves_is_a_word_of_their_process_and_no_more(ended: Run) -> None:
    members = {name for role in (Role.party, Role.aggregator) for name in ended.manifest.identities(role)}
    lives: dict[NodeName, set[str]] = {}
    for peer, metadata in ended.told:
        assert metadata.keys() <= {"parley-life", "user-agent"}, metadata
        assert re.fullmatch("[0-9a-f]{16}", metadata["parley-life"])
        lives.setdefault(peer, set()).add(metadata["parley-life"])
    assert lives.keys() <= members
    assert lives.keys() & set(ended.manifest.identities(Role.aggregator))
    assert all(len(each) == 1 for each in lives.values()), "one word for as long as a process runs"


def test_both_shares_are_released_once_per_round_and_to_nobody_twice(ended: Run) -> None:
    assert len(shares(ended)) == ended.manifest.releases
    for pair in shares(ended).values():
        assert len(pair) == 2
        assert all(len(share) == ended.manifest.model.dimension for share in pair)
    assert verify_ends([answer.end for answer in ended.of("End")], ended.manifest, ended.pins) == ROUNDS


def shares(run: Run) -> dict[int, list[Any]]:
    """Round to the two release shares; rounds come in order, a share once from each server."""
    found: dict[int, list[Any]] = {}
    by_opening: dict[bytes, int] = {}
    for answer in run.of("Open"):
        if answer.share:
            index = by_opening.setdefault(answer.opening, len(by_opening))
            found.setdefault(index, []).append(np.frombuffer(answer.share, "<u8"))
    return found


def estimates(run: Run) -> list[Any]:
    """What the shares of each round add up to, as the coordinator may use it."""
    made = []
    for index, (one, other) in sorted(shares(run).items()):
        lattice, mechanism = run.manifest.lattice(index), run.manifest.mechanism
        total = lattice.open(one, other)
        assert hashlib.sha256(total.astype("<i8").tobytes()).hexdigest() == run.ledger[index]
        made.append(lattice.decode(total) / mechanism.expected_batch(index, frozenset(run.manifest.parties)))
    return made


def asked_points(run: Run) -> set[bytes]:
    """Digests of the models that follow from the estimators alone."""
    return {point_digest(np.ascontiguousarray(theta, "<f8").tobytes()) for theta in models(run)}


def models(run: Run) -> list[Any]:
    """Every θ_t, from public facts and the sums of shares."""
    prepared = prepare(run.manifest, ())
    prepared.algorithm.begin(prepared.plan, prepared.theta, 1.0, SystemRandomness())
    found = [prepared.theta.copy()]
    for index, estimate in enumerate(estimates(run)):
        prepared.algorithm.ask(index)
        prepared.algorithm.tell(index, estimate)
        found.append(prepared.algorithm.theta.copy())
    return found


def test_what_is_kept_and_published_follows_from_the_sums_of_shares(ended: Run) -> None:
    for record, estimate in zip(ended.records, estimates(ended), strict=True):
        assert record.estimator_norm == float(np.linalg.norm(estimate))
    assert any(np.array_equal(ended.theta, theta) for theta in models(ended))


def test_a_share_alone_is_uniformly_random(ended: Run) -> None:
    """Half of all bits are ones: |z| < 5.5 fails an honest share once in 26 million runs."""
    bits = ended.manifest.lattice(1).opening_bits
    for place in (0, 1):
        words = np.concatenate([pair[place] for pair in shares(ended).values()])
        assert int(words.max()) < 1 << bits
        ones, count = sum(int(word).bit_count() for word in words), bits * len(words)
        assert abs(ones - count / 2) < 5.5 * np.sqrt(count) / 2


def test_the_sums_are_noised_as_the_manifest_says(ended: Run) -> None:
    """The noise dominates these small sums: their mean square is that of the noise, within 6 of its deviations."""
    manifest, squares = ended.manifest, []
    for index, (one, other) in sorted(shares(ended).items()):
        lattice = ended.manifest.lattice(index)
        values = lattice.decode(lattice.open(one, other)) / manifest.released_deviation(index)
        squares += list(values**2)
    assert np.mean(squares) > 1 - 6 * np.sqrt(2 / len(squares))


def test_refusals_and_outcomes_say_no_figure(ended: Run) -> None:
    for answer in ended.of("Propose"):
        assert not any(re.search(r"\d", reason) for reason in answer.reasons)
    assert not any(join.reason for join in ended.of("Join"))
