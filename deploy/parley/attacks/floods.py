"""Outsiders and members who spoil or fill: connections that say nothing, manifests that cost, one party's random words.

M1 to M4 of the review, what a killed process leaves behind, and what was found beside them.
"""

import asyncio
import contextlib
import hashlib
import math
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from parley.aggregator.admission import MOST_PARSED, Admissions
from parley.aggregator.process import MOST_CONTROL_CONNECTIONS, MOST_PEER_CONNECTIONS
from parley.aggregator.refusals import CallWaitsError
from parley.attacks import stage
from parley.attacks.kinds import Attack, Finding, Guard
from parley.coordinator.controls import Opening
from parley.coordinator.driver import Driver, Tools
from parley.coordinator.errors import RunFailedError
from parley.coordinator.operator_client import coordinator_node
from parley.coordinator.preparation import prepare
from parley.coordinator.run import Run
from parley.coordinator.store import RunStore, State
from parley.dashboard.process import place_of
from parley.dashboard.server import serve
from parley.demo.local import LocalFederation, NodeProcess, ReservedPort
from parley.federation.admission import AdmissionRecord
from parley.federation.manifest import Manifest
from parley.federation.meaning import MOST_KEPT, UNFINISHED, UNFINISHED_SECONDS, keep
from parley.federation.names import Role
from parley.mpc.ring import expand, share
from parley.node.node_file import PARTIES_CONNECTIONS, NoiseSettings
from parley.privacy.randomness import SystemRandomness
from parley.v1 import aggregator_pb2, aggregator_pb2_grpc
from parley.web.listener import MOST_CONNECTIONS, Settings

GREETED_NEVER = "127.0.2."
"""The flood's addresses; who is honest calls from 127.0.0.1."""
MEMORY_MIB = 100
BURSTS = 2
TAKING_SECONDS = 10.0
"""That a server has to take in who has connected; as long as a handshake may last."""
DESCRIPTORS = PARTIES_CONNECTIONS + MOST_CONTROL_CONNECTIONS + MOST_PEER_CONNECTIONS + 80
"""Of an aggregator: its connections, and what it has open besides."""
OFTEN, SELDOM = 0.4, 0.08
"""Of newcomers beside a flood, who are served at least where the doorkeeper is, and at most where it is not."""
DOUBT = 1e-6
"""That one is taken for the other, by Wald's sequential test."""


# ------------------------------------------------------------ M1


def one_partys_word(folder: Path, without: tuple[Guard, ...]) -> Finding:
    """Three parties answer zero, the fourth random words; both servers add up and open what is due."""
    manifest = stage.sample()
    lattice, length = manifest.lattice(0), manifest.longest_answer
    total = np.zeros(length, np.uint64), np.zeros(length, np.uint64)
    for place, _ in enumerate(manifest.parties):
        seed = os.urandom(32)
        words = np.frombuffer(os.urandom(8 * length), "<i8") if place == 3 else np.zeros(length, np.int64)
        total[0][:] += share(words, seed)
        total[1][:] += expand(seed, length)
    notes: list[tuple[str, dict[str, Any]]] = []

    def note(event: str, **facts: Any) -> str:
        notes.append((event, facts))
        return ""

    store = RunStore(folder / "runs.sqlite")
    store.submit(manifest.digest, manifest.run, manifest.canonical)
    run = Run(manifest, State.running, joined=set(manifest.parties))
    books: Any = None
    with ThreadPoolExecutor(1) as worker:
        tools = Tools(
            store=store,
            books=books,
            worker=worker,
            prepare=prepare,
            controls=lambda _: books,
            opener=lambda controls: books,
            note=note,
        )
        driver = Driver(run, tools, 1.0)
        prepared = driver._prepared = prepare(manifest)
        prepared.algorithm.begin(prepared.plan, prepared.theta, 1.0, SystemRandomness())
        question = driver._ask(0, None)
        opening = Opening(lattice.open(*total)[: question.round.length], manifest.parties, 0.0, 0.0, 0.0)
        try:
            driver._step(question, opening, time.monotonic())
        except RunFailedError as error:
            said = str(error)
        else:
            return Finding("succeeds", "the run ends", "the words went into the model")
        finally:
            store.close()
    suspects = [facts.get("contributors") for event, facts in notes if event == "round.out_of_range"]
    told = "parties that answered" in said and suspects == [manifest.parties]
    what = "all who may have sent it" if told else said
    return Finding("named" if told else "succeeds", "whoever reads it is told of parties and servers", what)


# ------------------------------------------------------------ M2


def _peak(node: NodeProcess, attack: Callable[[], None]) -> int:
    """The most descriptors of a process from an attack on, until they are too many or it has had its time."""
    assert node.process is not None
    place, over, most = f"/proc/{node.process.pid}/fd", threading.Event(), [0]

    def look() -> None:
        while not over.wait(0.002):
            most[0] = max(most[0], len(os.listdir(place)))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        attack()
        ends = time.monotonic() + TAKING_SECONDS
        while most[0] <= DESCRIPTORS and time.monotonic() < ends:
            time.sleep(0.1)
    finally:
        over.set()
        watcher.join()
    return most[0]


def silent_crowd(folder: Path, without: tuple[Guard, ...]) -> Finding:
    """Outsiders at forty addresses connect to all ports of an aggregator, in bursts, and say nothing."""
    _many_descriptors()
    with stage.federation(folder, stage.sample(), without) as federated:
        node = federated.aggregators[1]
        stage.started(node)
        addresses = [f"{GREETED_NEVER}{number}" for number in range(1, 41)]
        before = stage.resident_mib(node)
        with stage.Silence(list(node.ready["ports"].values()), addresses) as silence:

            def attack() -> None:
                for _ in range(BURSTS):
                    silence.burst(3000)
                    time.sleep(1.0)

            peak = _peak(node, attack)
            grown = stage.resident_mib(node) - before
    measured = f"{peak} descriptors, {grown:.0f} MiB more"
    held = peak <= DESCRIPTORS and grown <= MEMORY_MIB
    return Finding("bounded" if held else "succeeds", f"{DESCRIPTORS} descriptors, {MEMORY_MIB} MiB more", measured)


def one_address(folder: Path, without: tuple[Guard, ...]) -> Finding:
    """An outsider at one address keeps every place of an aggregator's control port; a coordinator wants to come in."""
    _many_descriptors()
    manifest = stage.sample()
    with stage.federation(folder, manifest, without) as federated:
        node = federated.aggregators[1]
        stage.started(node)
        port = node.ready["ports"]["control"]
        with stage.Silence([port], [f"{GREETED_NEVER}1"]) as silence:
            flood = threading.Thread(target=silence.spread, args=(12_000,))
            flood.start()
            try:
                while silence.opened < 10 * MOST_CONTROL_CONNECTIONS:  # all places are taken by then
                    time.sleep(0.1)
                served = _served(federated, node, port)
            finally:
                silence.enough.set()
                flood.join()
    often = _weight(served) > 0
    bound = f"two of five newcomers from elsewhere come in, by a test that errs once in {1 / DOUBT:,.0f}"
    return Finding("bounded" if often else "succeeds", bound, f"{sum(served)} of {len(served)}")


def _served(federated: LocalFederation, node: NodeProcess, port: int) -> list[bool]:
    """A coordinator connects anew, as gRPC does by itself but more slowly: each time whether it is answered, until they
    tell whether that is often or seldom. On a busy machine some handshakes take too long, and some find a place."""
    lead, found = federated.manifest.coordinator.name, list[bool]()
    while abs(_weight(found)) < math.log((1 - DOUBT) / DOUBT):
        channel = stage.channel(federated, Role.coordinator, lead, (Role.aggregator, node.name), port)
        stub: Any = aggregator_pb2_grpc.ControlServiceStub(channel)
        try:
            found.append(stage.answers(stub.Status, aggregator_pb2.StatusRequest(), 2.0))
        finally:
            channel.close()
        time.sleep(0.1)
    return found


def _weight(served: Sequence[bool]) -> float:
    """The logarithm of how much likelier this is where newcomers are served often."""
    failed = len(served) - sum(served)
    return sum(served) * math.log(OFTEN / SELDOM) + failed * math.log((1 - OFTEN) / (1 - SELDOM))


def _many_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 16384 if hard == resource.RLIM_INFINITY else min(hard, 16384)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


# ------------------------------------------------------------ M3


def silent_local_user(folder: Path, without: tuple[Guard, ...]) -> Finding:
    """Somebody on the coordinator's machine opens as many connections as the dashboard takes, and asks nothing."""
    with stage.federation(folder, stage.sample(), without) as federated:
        node = coordinator_node(federated.coordinator.folder)
        node.state.mkdir(mode=0o700, exist_ok=True)
        RunStore(node.state / "runs.sqlite").close()
        port = ReservedPort()
        task = _Serving(serve(Settings("127.0.0.1", port.number), place_of(node)))
        try:
            address = f"http://127.0.0.1:{port.number}/login"
            first = task.until(lambda: _status(address))
            if first != 200:
                raise RuntimeError(f"the dashboard does not answer before it is attacked: {first}")
            with stage.Silence([port.number], ["127.0.0.1"]) as silence:
                silence.burst(MOST_CONNECTIONS + 50)
                time.sleep(0.5)
                found = [_status(address) for _ in range(3)]
        finally:
            task.stop()
            port.close()
    served = found.count(200)
    return Finding(
        "bounded" if served == len(found) else "succeeds", "the operator is served, 3 of 3", f"{served} of 3, {found}"
    )


def _status(address: str) -> int:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


class _Serving:
    """A server of this process's own, in a thread with a loop of its own."""

    def __init__(self, work: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(work)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self._loop.run_until_complete(asyncio.gather(self._task, return_exceptions=True))
        self._loop.close()

    def until(self, found: Callable[[], int], seconds: float = 240.0) -> int:
        """The first answer that there is."""
        ends = time.monotonic() + seconds
        while not (answer := found()) and time.monotonic() < ends:
            time.sleep(0.05)
        return answer

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()


# ------------------------------------------------------------ M4


def crowded(parties: int, run: str = "crowded") -> Manifest:
    """The sample with thousands of parties, no two of one size: each is accounted for by itself."""
    body = stage.sample().as_json()
    template = body["parties"][0]
    for number in range(parties):
        sampler = {**template["sampler"], "units": template["sampler"]["units"] + number + 1}
        body["parties"].append({**template, "name": f"p{number}", "sampler": sampler})
    return Manifest.from_json({**body, "run": run, "privacy": {**body["privacy"], "epsilon": 40.0}})


def costly_manifest(folder: Path, without: tuple[Guard, ...]) -> Finding:
    """A coordinator that the policy names proposes three hundred parties of different sizes where four may be."""
    manifest = stage.sample()
    proposed = crowded(300)
    with stage.federation(folder, manifest, without) as federated:
        node = federated.aggregators[1]
        stage.started(node)
        lead = manifest.coordinator.name
        control = node.ready["ports"]["control"]
        channel = stage.channel(federated, Role.coordinator, lead, (Role.aggregator, node.name), control)
        stub: Any = aggregator_pb2_grpc.ControlServiceStub(channel)
        try:
            answer = stub.Propose(aggregator_pb2.ProposeRequest(manifest=proposed.canonical), timeout=240)
            time.sleep(2.0)
            spent = _childrens_seconds(node)
        finally:
            channel.close()
            node.kill()  # with what it may be computing
    refused = not answer.admitted and any(reason.startswith("parties:") for reason in answer.reasons)
    measured = f"{'; '.join(answer.reasons)[:60]}, {spent:.1f} s"
    return Finding("refused" if refused and not spent else "succeeds", "the policy's reason, 0 s of a core", measured)


def _childrens_seconds(node: NodeProcess) -> float:
    """Processor time of the processes that a node has started and that still run."""
    assert node.process is not None
    found = 0.0
    for thread in Path(f"/proc/{node.process.pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread or a child may end meanwhile
            for child in (thread / "children").read_text().split():
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                found += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


class _Server:
    """An aggregation server's admissions, on disk in a folder, in this process."""

    def __init__(self, folder: Path, coordinators: tuple[str, ...]) -> None:
        self.manifest = stage.sample()
        self.federated = LocalFederation(folder, self.manifest, stage.records())
        home = self.federated.aggregators[0].folder
        policy = home / "policy.toml"
        leader = self.manifest.coordinator.name
        policy.write_text(policy.read_text().replace(f'["{leader}"]', str(list(coordinators)).replace("'", '"')))
        first, second = self.manifest.identities(Role.aggregator)
        identity = self.federated.authority.issue_as(first)
        offered = NoiseSettings(self.manifest.noise.cover, self.manifest.noise.precision)
        self.record = AdmissionRecord(home / "admissions.sqlite")
        self.admissions = Admissions(
            record=self.record,
            identity=lambda: identity,
            peer=second,
            role=0,
            offered=offered,
            policy_path=policy,
            verified=folder / "verified",
            note=lambda *_, **__: "",
        )

    def run_of(self, coordinator: str, run: str) -> Manifest:
        return replace(self.manifest, run=run, coordinator=replace(self.manifest.coordinator, name=coordinator))

    async def propose(self, manifest: Manifest) -> Any:
        return await self.admissions.propose(manifest.canonical, manifest.identities(Role.coordinator)[0].uri)

    def tried(self, work: Callable[[], Awaitable[Any]]) -> Any:
        async def all_of_it() -> Any:
            return await work()

        try:
            return asyncio.run(all_of_it())
        finally:
            self.record.close()
            self.federated.stop()


def full_queue(folder: Path, without: tuple[Guard, ...]) -> Finding:
    """One coordinator proposes three runs, another one run after it: how many of the three are done before it?"""
    server = _Server(folder, ("greedy", "patient"))
    greedy = [server.run_of("greedy", f"greedy-{number}") for number in range(3)]
    patient = server.run_of("patient", "patient-1")

    async def race() -> int:
        for each in greedy:
            await server.propose(each)
        while not (await server.propose(patient)).admitted:
            await asyncio.sleep(0.02)
        return sum([(await server.propose(each)).admitted for each in greedy])

    before = server.tried(race)
    return Finding("bounded" if before <= 2 else "succeeds", "2 before it", f"{before} before it")


def many_at_once(folder: Path, without: tuple[Guard, ...]) -> Finding:
    """A coordinator proposes forty manifests of 1 MiB at once: how many does the server hold and read?"""
    return _all_at_once(folder, lambda server, manifest: server.propose(manifest))


def many_ends_at_once(folder: Path, without: tuple[Guard, ...]) -> Finding:
    """The same for the ends of runs that were never admitted, each with its manifest."""

    def end(server: _Server, manifest: Manifest) -> Awaitable[Any]:
        caller = manifest.identities(Role.coordinator)[0].uri
        return server.admissions.never_admit(manifest.canonical, manifest.digest, caller, lambda run: False)

    return _all_at_once(folder, end)


def _all_at_once(folder: Path, ask: Callable[["_Server", Manifest], Awaitable[Any]]) -> Finding:
    server = _Server(folder, ("greedy",))
    body = server.run_of("greedy", "wide").as_json()
    body["regulariser"] = {**body["regulariser"], "padding": "x" * (1 << 20)}
    filler = Manifest.from_json({**body, "regulariser": {**body["regulariser"], "padding": "x" * 1_000_000}})

    async def flood() -> int:
        answers = await asyncio.gather(*(ask(server, filler) for _ in range(40)), return_exceptions=True)
        return sum(not isinstance(answer, CallWaitsError) for answer in answers)

    taken = server.tried(flood)
    return Finding("bounded" if taken <= MOST_PARSED else "succeeds", f"{MOST_PARSED} at once", f"{taken} at once")


# ------------------------------------------------------------ what is left behind

KILLED = """
import pathlib, resource, signal, sys
from parley.attacks.stage import sample
from parley.federation.meaning import keep
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
keep(pathlib.Path(sys.argv[1]), sample(), [], {"meaning": "x" * 5000})
"""


def left_behind(folder: Path, without: tuple[Guard, ...]) -> Finding:
    """Processes die while they keep a verification, and coordinators bring more manifests than anybody needs."""
    kept = folder / "verified"
    died = subprocess.run([sys.executable, "-P", "-c", KILLED, str(kept)], capture_output=True, check=False)
    unfinished = list(kept.glob(f"*{UNFINISHED}"))
    if died.returncode != -signal.SIGXFSZ or len(unfinished) != 1:
        raise RuntimeError(f"no process died half way: {died.returncode}, {died.stderr[-200:]!r}")
    long_ago = time.time() - 2 * UNFINISHED_SECONDS
    os.utime(unfinished[0], (long_ago, long_ago))
    for number in range(MOST_KEPT + 100):
        (kept / f"{hashlib.sha256(str(number).encode()).hexdigest()[:32]}.json").write_text("{}")
    keep(kept, stage.sample(), [], {"meaning": {}})
    stale, files = len(list(kept.glob(f"*{UNFINISHED}"))), len(list(kept.iterdir()))
    held = not stale and files <= MOST_KEPT
    return Finding(
        "bounded" if held else "succeeds", f"0 unfinished, {MOST_KEPT} files", f"{stale} unfinished, {files} files"
    )


def _only_servers(index: int, answered: int) -> str:
    return f"round {index}'s sum is out of range: an aggregator is at fault"


ATTACKS = (
    Attack(
        "M1", "A party uploads random words, and the run ends with somebody else blamed.",
        ("names-every-suspect",), one_partys_word,
    ),
    Attack(
        "M2", "Outsiders open connections that never greet, until an aggregator has no memory left.",
        ("connections-of-a-port",), silent_crowd,
    ),
    Attack(
        "one-address", "An outsider at one address keeps every place of a port, so that nobody comes in.",
        ("doorkeeper",), one_address,
    ),
    Attack(
        "M3", "A local user's connections that ask nothing shut the operator out of the dashboard.",
        ("idle-makes-room",), silent_local_user,
    ),
    Attack(
        "M4", "A coordinator's manifest of hundreds of parties takes minutes of a server's core.",
        ("policy-before-verifying",), costly_manifest,
    ),
    Attack(
        "turns", "A coordinator's many manifests keep another coordinator's waiting for all of them.",
        ("coordinators-take-turns",), full_queue,
    ),
    Attack(
        "parsing", "A coordinator's manifests of 1 MiB are all held and read by a server at once.",
        ("manifests-being-read",), many_at_once,
    ),
    Attack(
        "parsing-ends", "Manifests of 1 MiB come with ends of runs that nobody has admitted.",
        ("manifests-being-read",), many_ends_at_once,
    ),
    Attack(
        "stale-files", "Killed processes and many manifests fill a node's folder of verifications.",
        ("tidies-verified",), left_behind,
    ),
)  # fmt: skip

GUARDS = (
    Guard("names-every-suspect", "parley.coordinator.driver:out_of_range", _only_servers),
    Guard("connections-of-a-port", "parley.node.connections:MOST_CONNECTIONS", "parley.no_such_option"),
    Guard("doorkeeper", "parley.node.doorkeeper:Doorkeeper.look", lambda self, now: 0),
    Guard("idle-makes-room", "parley.web.patience:Impatient._make_room", lambda self: None),
    Guard("policy-before-verifying", "parley.aggregator.admission:reasons_even_if_true", lambda *_: ()),
    Guard("coordinators-take-turns", "parley.aggregator.admission:fair_key", lambda caller: ""),
    Guard("manifests-being-read", "parley.aggregator.admission:MOST_PARSED", 1 << 20),
    Guard("tidies-verified", "parley.federation.meaning:tidy", lambda folder: None),
)
