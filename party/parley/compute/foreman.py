"""The process that speaks with a cluster for a party: it starts or joins one, hires workers, passes orders on.

A process of its own, because Ray's driver ends with its cluster, and a party does not; and so that a party's process
never loads Ray. It computes nothing and keeps nothing: shards and answers pass through it. It reads frames from the
pipe that it was given and answers each with one; where the party is gone, it ends, and a cluster that it has started
with it.
"""

import contextlib
import os
import resource
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from parley.compute.cluster import LOOPBACK
from parley.compute.crew import CPUS, Crew
from parley.compute.errors import ComputeError, LostError
from parley.compute.strangers import refuse_open, refuse_open_local
from parley.compute.worker import FitWorker, ShardWorker
from parley.models.frames import Deadline, Frame, FrameError, read, write

Array = NDArray[Any]

STORE_BYTES = 80 << 20
"""About the least that Ray takes: nothing is put there."""
LONG_SECONDS = 1e6
"""A fit takes as long as it takes."""
MOST_DEATHS = 4
RAYS = "r"
"""Ray opens its folder to everybody: one within a folder that is this user's alone. Short, for sockets are in it."""


def connect(cluster: Mapping[str, Any], folder: Path) -> None:
    """Start the local cluster, or join the operator's."""
    if cluster["address"] is not None:
        files = (Path(os.environ[f"RAY_TLS_{name}"]) for name in ("SERVER_CERT", "SERVER_KEY", "CA_CERT"))
        refuse_open(cluster["address"], *files)
        ray.init(cluster["address"], log_to_driver=False, configure_logging=False, namespace=folder.name)
        return
    gpus = cluster["workers"] if cluster["device"] == "cuda" else 0
    ray.init(
        num_cpus=cluster["workers"] * CPUS,
        num_gpus=gpus,
        include_dashboard=False,
        object_store_memory=STORE_BYTES,
        log_to_driver=False,
        configure_logging=False,
        _temp_dir=str(folder / RAYS),
        _system_config={"automatic_object_spilling_enabled": False},
    )
    if (where := ray.util.get_node_ip_address()) != LOOPBACK:
        raise ComputeError(f"this version of Ray listens on {where} and not on loopback alone: use one that is tested")
    refuse_open_local(ray.get_runtime_context().gcs_address)


class Foreman:
    """Orders from a party, in order."""

    def __init__(self, cluster: Mapping[str, Any]) -> None:
        self._crew = Crew(ShardWorker, cluster["device"])

    def do(self, frame: Frame) -> Frame:
        order = dict(frame.header)
        names, seconds = [int(each) for each in order["workers"]], float(order["seconds"])
        if order["do"] == "hire":
            return Frame({"replies": self._crew.hire(names, seconds)})
        if order["do"] == "open":
            refs = self._crew.tell(names[0], order, frame.arrays, seconds)
            return Frame({"replies": [self._crew.reply(names[0], refs, seconds)]})
        places, present, points = frame.arrays
        told = {
            name: self._crew.tell(name, _addressed(order, name), (places[row], present[row], points), seconds)
            for row, name in enumerate(names)
        }
        replies = [self._crew.reply(name, refs, seconds) for name, refs in told.items()]
        found = np.zeros((len(names), int(order["length"])), np.int64)
        for row, reply in enumerate(replies):
            if reply["state"] != "done":
                continue
            data = self._crew.fetch(names[row], found[row].nbytes, seconds)
            if data is None or reply.get("bytes") != len(data):
                reply["state"], reply["kind"] = "lost", "another length"
            else:
                found[row] = np.frombuffer(data, np.int64)
        return Frame({"replies": replies}, (found,))


def _addressed(order: dict[str, Any], worker: int) -> dict[str, Any]:
    return {**order, "echo": {**order["echo"], "worker": worker}}


class Player:
    """Orders from somebody's own simulation: all fits of one study, each played by whoever is free."""

    def __init__(self, cluster: Mapping[str, Any]) -> None:
        self._crew, self._names = Crew(FitWorker, cluster["device"]), range(int(cluster["workers"]))
        self._hired = False

    def do(self, frame: Frame) -> Frame:
        """`sizes` are those of the pieces of work within the second array; the answer has those of the results."""
        run, work = frame.arrays
        ends = np.cumsum(frame.header["sizes"])
        wanted = [work[end - size : end] for end, size in zip(ends, frame.header["sizes"], strict=True)]
        free: list[int] = []
        for name in self._names:
            self._keep(name, run, fresh=not self._hired)
            free.append(name)
        self._hired = True
        found: list[bytes | None] = [None] * len(wanted)
        waiting, busy, deaths = list(range(len(wanted))), dict[Any, tuple[int, int]](), Counter[int]()
        while waiting or busy:
            while waiting and free:
                name, index = free.pop(), waiting.pop(0)
                busy[self._crew.tell(name, {"do": "fit"}, (wanted[index],), LONG_SECONDS)[-1]] = name, index
            (ready, *_), _ = ray.wait(list(busy), num_returns=1)
            name, index = busy.pop(ready)
            reply = self._crew.reply(name, [ready], LONG_SECONDS)
            if reply["state"] == "failed":
                return Frame({"lost": f"a fit failed on a worker ({reply['kind']})"})
            data = self._crew.fetch(name, reply["bytes"], LONG_SECONDS) if reply["state"] == "done" else None
            if data is None:
                deaths[index] += 1
                if deaths[index] >= MOST_DEATHS:
                    return Frame({"lost": "a worker is lost whenever it plays one of the fits"})
                waiting.insert(0, index)
                self._keep(name, run, fresh=True)
            else:
                found[index] = data
            free.append(name)
        whole = [each for each in found if each is not None]
        return Frame({"sizes": [len(each) for each in whole]}, (np.frombuffer(b"".join(whole), np.uint8),))

    def _keep(self, name: int, run: Array, fresh: bool) -> None:
        if fresh:
            (heard,) = self._crew.hire([name], LONG_SECONDS)
            if heard["state"] != "done":
                raise LostError(f"a worker of the cluster is not hired ({heard['kind']})")
        refs = self._crew.tell(name, {"do": "keep"}, (run,), LONG_SECONDS)
        reply = self._crew.reply(name, refs, LONG_SECONDS)
        if reply["state"] != "done":
            raise LostError(f"a worker of the cluster does not take the study ({reply['kind']})")


def serve(reader: int, writer: int, folder: Path) -> None:
    """Until the party is gone or says that it is over."""
    here = Deadline()
    first = read(reader, here)
    try:
        connect(first.header["cluster"], folder)
        foreman = (Foreman if first.header["of"] == "run" else Player)(first.header["cluster"])
    except ComputeError as error:
        write(writer, Frame({"lost": str(error), "kept": not isinstance(error, LostError)}), here)
        return
    except Exception as error:
        write(writer, Frame({"lost": f"the cluster cannot be reached ({type(error).__name__})", "kept": False}), here)
        return
    write(writer, Frame({"ready": True}), here)
    while True:
        try:
            order = read(reader, here)
        except FrameError:
            return
        if order.header["do"] == "end":
            return
        try:
            answer = foreman.do(order)
        except LostError as error:
            answer = Frame({"lost": str(error)})
        write(writer, answer, here)


def main() -> None:
    """`python -P -m parley.compute FOLDER`, with frames on standard input and output."""
    folder = Path(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)
    warnings.simplefilter("ignore")
    reader, writer = os.dup(0), os.dup(1)
    for handle in (reader, writer):
        os.set_blocking(handle, False)
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(nothing, handle)  # Ray prints, and what it prints is nobody's to read
    try:
        serve(reader, writer, folder)
    finally:
        with contextlib.suppress(Exception):
            ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
