"""Ray itself: an operator's cluster with TLS and a token, and one that this machine starts for a run."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from parley.compute.cluster import Cluster
from parley.compute.engine import RayEngine
from parley.compute.errors import EngineStoppedError
from parley.compute.strangers import ASKED
from parley.learning.contributor import Query
from parley.learning.rows import DenseRows
from tests.support.computed import Setting, answers, require_equal, setting
from tests.support.descendants import descendants, named
from tests.support.ray_clusters import operators_cluster
from tests.support.until import GIVE_UP_SECONDS, until

pytestmark = pytest.mark.slow
pytest.importorskip("ray")
MOST = 8
MARK = bytes(range(101, 125))
"""A row of a record: 24 columns of a byte, in an order that is nowhere else."""


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Path]]:
    with operators_cluster(tmp_path_factory.mktemp("theirs"), MOST) as found:
        yield found


def of(cluster: Cluster, workers: int) -> Cluster:
    return Cluster(**{**vars(cluster), "workers": workers})


@pytest.mark.parametrize(("workers", "kind"), [(1, "softmax"), (2, "perceptron"), (8, "softmax")])
def test_one_two_and_eight_workers_answer_to_the_bit(theirs: tuple[Cluster, Path], workers: int, kind: str) -> None:
    given = setting(kind)
    engine = given.engine(of(theirs[0], workers))
    try:
        require_equal(given, answers(given, engine))
    finally:
        engine.close()


def test_nothing_of_a_record_lies_in_the_object_store_or_in_a_log(theirs: tuple[Cluster, Path]) -> None:
    cluster, logs = theirs
    given = marked()
    engine = given.engine(of(cluster, 2))
    try:
        assert answers(given, engine) == answers(given)
        said = subprocess.run(
            [sys.executable, "-P", "-c", USAGE, str(cluster.address)],
            capture_output=True, text=True, check=True, env=cluster.environment(logs), cwd=logs,
        ).stdout  # fmt: skip
        assert "Plasma memory usage 0 MiB, 0 objects" in said
        files = contents(logs)
        assert files
        assert not any(MARK in data for data in files.values())
        assert not any("spill" in name.lower() for _, *both in os.walk(logs) for names in both for name in names)
    finally:
        engine.close()


USAGE = """
import sys, ray
from ray._private.internal_api import memory_summary
ray.init(sys.argv[1], log_to_driver=False, configure_logging=False)
print(memory_summary(sys.argv[1], stats_only=True))
"""


def marked() -> Setting:
    """With a record that can be looked for."""
    given = setting("logistic")
    rows = given.records.rows
    assert isinstance(rows, DenseRows)
    held = np.frombuffer(MARK * len(rows), np.uint8).reshape(len(rows), -1)
    object.__setattr__(given.records, "rows", DenseRows.of(held, 8))
    return given


def test_a_cluster_that_asks_nobody_for_a_token_gets_no_records(tmp_path: Path) -> None:
    stop, heard = threading.Event(), list[str]()
    with operators_cluster(tmp_path, 1, token=False) as (cluster, _):

        def say(error: Exception) -> None:
            heard.append(str(error))
            stop.set()

        engine = setting("logistic").engine(cluster, stop=stop, say=say)
        with pytest.raises(EngineStoppedError):
            engine.start()
        engine.close()
    assert "answers without a token" in heard[0]


def test_a_local_cluster_is_on_loopback_takes_no_stranger_and_leaves_nothing() -> None:
    given = marked()
    engine = given.engine(Cluster(workers=2))
    expected = answers(given)
    contributor, found = given.contributor(engine), []
    queries = given.queries()
    try:
        found.append(contributor.contribution(queries[0]).tolist())
        assert engine._link is not None
        root, folder = engine._link.process.pid, engine._link.folder
        assert folder.stat().st_mode & 0o777 == 0o700
        whole = {root, *descendants(root)}
        listeners = list(_listeners(whole))
        assert len(listeners) >= 5
        for host, port in listeners:
            assert host == "127.0.0.1"
            assert _code(f"{host}:{port}") is not grpc.StatusCode.OK
        gcs = next(folder.glob("r/session_2*/gcs_server_port_*")).read_text()
        assert _code(f"127.0.0.1:{gcs}", GIVE_UP_SECONDS) is grpc.StatusCode.UNAUTHENTICATED
        killed_in_mid_round(engine, root, contributor.contribution, queries[1], found)
        found.append(contributor.contribution(queries[2]).tolist())
        assert not any(MARK in data for data in contents(folder).values())
    finally:
        engine.close()
    assert found == expected
    assert not folder.exists()
    until(lambda: not any(Path(f"/proc/{number}").exists() for number in whole), "for the cluster to end")


def contents(folder: Path) -> dict[Path, bytes]:
    """Of every file that Ray, which goes on meanwhile, does not take away."""
    found = {}
    for place, _, names in os.walk(folder):
        for path in (Path(place) / name for name in names):
            with suppress(FileNotFoundError):
                if path.is_file():
                    found[path] = path.read_bytes()
    return found


def killed_in_mid_round(
    engine: RayEngine, root: int, contribution: Callable[[Query], Any], query: Query, found: list[list[int]]
) -> None:
    """A worker is stopped when its question is on its way, and killed before it can answer."""
    victim = named(root, "ray::ShardWorker")[0]
    os.kill(victim, signal.SIGSTOP)
    number = engine._number
    asking = threading.Thread(target=lambda: found.append(contribution(query).tolist()))
    asking.start()
    until(lambda: engine._number > number, "for the question to be asked")
    os.kill(victim, signal.SIGKILL)
    asking.join()


def _listeners(numbers: set[int]) -> Iterator[tuple[str, int]]:
    """Where any of these processes listens, of the kernel's tables."""
    inodes = set()
    for number in numbers:
        for link in Path(f"/proc/{number}/fd").glob("*"):
            try:
                target = os.readlink(link)
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                host, port = fields[1].split(":")
                yield socket.inet_ntoa(bytes.fromhex(host[-8:])[::-1]), int(port, 16)


def _code(address: str, seconds: float = 5.0) -> object:
    """What somebody without a token is told."""
    with grpc.insecure_channel(address) as channel:
        ask = channel.unary_unary(ASKED, request_serializer=bytes, response_deserializer=bytes)
        try:
            ask(b"", timeout=seconds)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK
