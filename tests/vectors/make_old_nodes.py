"""How old-nodes.tar.xz was made: the state of a party and of a server, by the code of a003a48, before this layout.

    git archive a003a48 | tar -x -C OLD; cp mpc/native/*.so OLD/mpc/native/
    PYTHONPATH=OLD .venv/bin/python tests/vectors/make_old_nodes.py OUT.tar.xz

The party: run heart-1 finished after two rounds (its charge stays), heart-2 open with one round answered, heart-3
joined and charged for and never asked. The server's store: three rounds of a run, the last of them prepared and not
committed, and one run that has ended. No key is in it: certificates are made anew by whoever opens it.
"""

import io
import sys
import tarfile
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import parley.party.admission
from parley.aggregator.opening_store import Opened, OpeningStore
from parley.aggregator.request import Request
from parley.mpc.ring import Lattice
from parley.party.outbox import Outbox
from tests.support.documents import manifest
from tests.support.party_process import EVERYONE, Running, verified
from tests.support.stage import Stage, question
from tests.support.until import until

NOISE = {"mechanism.noise_multiplier": 40.0}


def quick(made: Any, name: str, rule: Any, kept: Any) -> Any:
    """In this process: of the figures, only what they are charged as matters."""
    return verified(made.canonical, name, rule)


def has_joined(joins: list[Any], before: int, digest: bytes) -> bool:
    return any(each.manifest_digest == digest for each in joins[before:])


def answered(stage: Stage, index: int) -> bool:
    return bool(stage.coordinator.requests and stage.coordinator.requests[-1].after_round == index)


def party_state(folder: Path) -> Path:
    setattr(parley.party.admission, "verify_apart_with_charge", quick)  # noqa: B010
    stage = Stage(folder)
    for name, rounds, ends in (("heart-1", 2, True), ("heart-2", 1, False), ("heart-3", 0, False)):
        made = manifest(**{**EVERYONE, **NOISE, "run": name})
        stage.coordinator.manifests, stage.coordinator.current = [made.canonical], None
        stage.a.payloads.clear()
        stage.b.payloads.clear()
        before = len(stage.coordinator.joins)
        with Running(stage):
            joins = stage.coordinator.joins
            until(partial(has_joined, joins, before, made.digest))
            for index in range(rounds):
                points = [np.full(3, 0.1 * (index + 1)), np.full(3, 0.1 * index)]
                stage.coordinator.ask(question(made, index, points if index else points[:1]))
                stage.opened(index)
                until(partial(answered, stage, index))
            if ends:
                stage.finish(stage.ends(made, rounds))
                until(lambda: Outbox(stage.node / "state" / "outbox.sqlite").runs()[-1].state == "settled")
    stage.close()
    return stage.node


def store(path: Path) -> None:
    kept = OpeningStore(path)
    for index in range(3):
        request = Request(
            run="heart-1",
            round=index,
            dimension=2,
            lattice=Lattice(1.0),
            minimum_parties=2,
            most_records=30,
            clip=1.0,
            query=bytes([index]) * 32,
        )
        kept.prepare(request, Opened(("hospital-a", "hospital-b"), bytes([index]) * 16, bytes([index]) * 16), index)
        if index < 2:
            kept.commit("heart-1", index)
    kept.end("heart-0")
    kept.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as name, tarfile.open(sys.argv[1], "w:xz") as archive:
        node = party_state(Path(name))
        store(Path(name) / "openings.sqlite")
        files = {f"party/state/{path.name}": path for path in sorted((node / "state").iterdir()) if path.is_file()}
        files |= {"party/records.csv": node / "records.csv", "party/policy.toml": node / "policy.toml"}
        files |= {f"server/{path.name}": path for path in sorted(Path(name).glob("openings.sqlite*"))}
        for place, path in files.items():
            data = path.read_bytes()
            entry = tarfile.TarInfo(place)
            entry.size, entry.mode = len(data), path.stat().st_mode & 0o777
            archive.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    main()
