"""Several runs under kills, one after another, until enough have died and every label was hit.

The first run's aggregators admit by their policies, and everything is verified; the others take over what was verified
(the manifests differ in their names only), for what is tested there are the rounds.
"""

import json
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from parley.bench.train_bench import admit_beforehand
from parley.bench.train_data import RECORDS, study
from parley.demo.local import LocalFederation, NodeProcess
from parley.federation.manifest import Manifest
from parley.federation.meaning import kept_file
from parley.federation.names import Role
from parley.mpc.parts import USUAL, NoiseParts
from parley.party.outbox import SETTLED, Outbox
from parley.privacy.filters import Policy
from tests.end_to_end.killed import Checked, check, keep_shares, write_alike
from tests.end_to_end.killing import ADMITTED, DISCARDED, FIRST, LAST, ROUNDS, Killing
from tests.support.until import until

PARTIES, DIMENSION = 3, 40
RUN_SECONDS = 1800.0
LABELS = sorted(
    {f"{role.value}.{label}" for kind in (FIRST, ROUNDS, LAST) for role, labels in kind.items() for label in labels}
    | {ADMITTED, DISCARDED}
)


@dataclass
class Series:
    """What came of it."""

    kills: Counter[str] = field(default_factory=Counter)
    runs: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def total(self) -> int:
        return sum(self.kills.values())

    @property
    def missed(self) -> list[str]:
        """Labels that nobody has died of."""
        return [label for label in LABELS if not self.kills[label]]

    def as_json(self) -> dict[str, Any]:
        return {
            "kills": self.total,
            "runs": len(self.runs),
            "seconds": round(self.seconds, 1),
            "by_label": {label: self.kills[label] for label in [*LABELS, *sorted(self.kills.keys() - set(LABELS))]},
            "every_label_hit": not self.missed,
            "each_run": self.runs,
        }


def series(
    folder: Path, kills: int, rounds: int, labels_per_node: int, random_kills: int, seed: int,
    say: Callable[[str], None] = lambda text: None, parts: NoiseParts = USUAL,
) -> Series:  # fmt: skip
    """Runs until `kills` have died; raises what does not hold, with the run's folder left as it is."""
    made, source, began = Series(), random.Random(seed), time.monotonic()
    data = {}
    for place in range(PARTIES):
        path = folder / f"party-{place + 1}.libsvm"
        write_alike(path, place, RECORDS)
        data[f"party-{place + 1}"] = [path]
    manifest, verified = study("kills-0", PARTIES, DIMENSION, rounds, parts), folder / "verified"
    while made.total < kills:
        number = len(made.runs)
        named = Manifest.from_json({**manifest.as_json(), "run": f"kills-{number}"})
        home, before, started = folder / named.run, Counter(made.kills), time.monotonic()
        with LocalFederation(home, named, data, capacity=1) as federation:
            if number:
                for server in federation.aggregators:
                    admit_beforehand(server, named)
                _bring_verified(federation, verified, manifest, named)
            keep_shares(federation)
            killing = Killing(federation, named, random.Random(source.random()), made.kills)
            killing.plan(labels_per_node, cold=not number)
            row = killing.run(random_kills, RUN_SECONDS)
            _settled(federation, named)
            federation.stop()
            checked: Checked = check(federation, named, killing.watched)
            if not number:
                _keep_verified(federation, verified)
        made.runs.append(
            {
                "run": named.run,
                "state": row.state.value,
                "kills": made.total - before.total(),
                "seconds": round(time.monotonic() - started, 1),
                **asdict(checked),
            }
        )
        made.seconds = time.monotonic() - began
        say(f"{named.run}: {made.runs[-1]}; {made.total} kills in {made.seconds:.0f} s, missed {made.missed}")
        shutil.rmtree(home)
    return made


def _settled(federation: LocalFederation, manifest: Manifest) -> None:
    """Every party has heard of the end."""
    for node in federation.parties:
        outbox = Outbox(node.folder / "state" / "outbox.sqlite")
        until(partial(_has_settled, outbox), f"that {node.name} settles run {manifest.run}: {node.log}")
        outbox.close()


def _has_settled(outbox: Outbox) -> bool:
    return any(held.state == SETTLED for held in outbox.runs())


def _arguments(node: NodeProcess) -> list[str]:
    """What a verification was asked for, as `parley.federation.meaning` names what it keeps."""
    return [node.name if node.role is Role.party else "", json.dumps(Policy().as_json())]


def _keep_verified(federation: LocalFederation, verified: Path) -> None:
    for node in [federation.coordinator, *federation.parties]:
        shutil.copytree(node.folder / "state" / "verified", verified / node.name)


def _bring_verified(federation: LocalFederation, verified: Path, before: Manifest, now: Manifest) -> None:
    for node in [federation.coordinator, *federation.parties]:
        into = node.folder / "state" / "verified"
        into.mkdir(mode=0o700, parents=True)
        into.parent.chmod(0o700)
        shutil.copy(kept_file(verified / node.name, before, _arguments(node)), kept_file(into, now, _arguments(node)))
