"""`parley demo`: four hospitals, two aggregators, a coordinator on this machine: from nothing to a model and a report.

Everything is real but the distance: processes, mutual TLS by pinned keys, policies, ledgers, joint noise.
One machine under one person is a demonstration, never a trust boundary.
"""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from parley.cli.reports import signed_report
from parley.coordinator.controls import Controls
from parley.coordinator.errors import CoordinatorError, RunFailedError
from parley.coordinator.operator_client import Coordinator, coordinator_node
from parley.coordinator.result import model_path
from parley.coordinator.store import RoundRecord, RunRow, State
from parley.demo.local import LocalFederation, terminated_like_interrupted
from parley.demo.recipe import TITLES
from parley.demo.report import Budget, PhaseCost, Report
from parley.demo.screen import Cast, DemoScreen, Hospital
from parley.federation.manifest import Manifest
from parley.federation.names import Role
from parley.models.module_spec import is_module
from parley.models.registry import open_model
from parley.mpc.kernels import best_variant
from parley.node.system import require_linux
from parley.party.books import states_of
from parley.party.outbox import OVER
from parley.party.process import party_node, settings_of
from parley.privacy.ledger import Ledger
from parley.privacy.lying import guaranteed
from parley.report.page import page
from parley.research.comparison import compare
from parley.study import model_file
from parley.study.data import Sets, sets_of
from parley.study.errors import StudyError
from parley.study.manifests import require_names
from parley.study.study import Study
from parley.v1 import aggregator_pb2

RUNS_AFFORDED = 2
"""The demonstration's hospitals allow so many runs like this one."""
LOOK_SECONDS = 0.1
STATUS_SECONDS = 5.0
SETTLE_SECONDS = 15.0
REPORTS = "reports"
"""In the output: a signed report of each node."""


def cast(study: Study, hold_out: int) -> Cast:
    """Who takes part, as the screen introduces them."""
    hospitals = tuple(Hospital(name, TITLES.get(name, name), units) for name, units in study.parties.items())
    first, second = study.aggregators
    assert study.coordinator is not None
    return Cast(hospitals, (first.legal_entity, second.legal_entity), study.coordinator.legal_entity, hold_out)


def records_for(study: Study) -> Sets:
    """Its parties' records and its public hold-out, for the comparison; refused where the demonstration cannot run it.

    One person shows this to themselves on one machine: of a federation's nobody could pool the records.
    """
    require_names(study, study.parties)
    if study.schema.target.kind != "binary" or not (
        study.model == {"kind": "logistic"} or is_module(study.model["kind"])
    ):
        raise StudyError(
            'the demonstration compares models of two labels: write kind = "logistic", or a module of your own, '
            'kind = "torch:package.module:function"'
        )
    if study.data is None or not study.data.parties or not study.data.test:
        raise StudyError("the demonstration needs files: name each party's in [data.parties], and a public test set")
    sets = sets_of(study)
    for name, units in sets.sizes().items():
        if study.parties.get(name) != units:
            raise StudyError(f"{name} has {units:,} units in its file: write name and units in [[parties]] accordingly")
    return sets


class Demo:
    """One demonstration. Use as a context: no process is left, and no file but the output's unless it is kept."""

    def __init__(self, console: Console, output: Path, keep: bool, study: Study) -> None:
        self._console, self._output, self._keep, self._study = console, output, keep, study
        self.folder = Path(tempfile.mkdtemp(prefix="parley-demo-"))
        self.federation: LocalFederation | None = None

    def __enter__(self) -> "Demo":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if self.federation is not None:
                self.federation.stop()
        finally:  # keys are in it
            if not self._keep:
                shutil.rmtree(self.folder, ignore_errors=True)
        if kind is KeyboardInterrupt:
            left = f"its nodes' folders are in {self.folder}" if self._keep else "nothing of it is left"
            self._console.print(f"interrupted: all processes of the demonstration have ended, {left}", highlight=False)

    def run(self) -> tuple[Report, Cast]:
        """To a model and a report, with progress on the console."""
        study, sets = self._study, records_for(self._study)
        assert study.data is not None
        assert sets.test is not None
        company = cast(study, len(sets.test.rows))
        with DemoScreen(self._console, company) as screen:
            screen.phase("manifest")
            manifest = study.manifest()
            screen.phase("certificates")
            self.federation = LocalFederation(
                self.folder,
                manifest,
                {name: list(files) for name, files in study.data.parties},
                list(study.data.test),
                budget=(RUNS_AFFORDED * study.epsilon, RUNS_AFFORDED * study.delta),
                dashboard=self._keep,
                layout=study.layout,
            )
            screen.phase("processes")
            self.federation.start()
            screen.phase("verification")
            coordinator = Coordinator(self.federation.coordinator.folder)
            digest = coordinator.submit(manifest)
            row = self._follow(screen, coordinator, manifest, digest)
            if row.state is not State.finished:
                raise RunFailedError(f"the demonstration's run ended as {row.state}: {row.outcome}")
            history = coordinator.store.history(digest)
            budgets = self._budgets()
            audited = asyncio.run(self._audited(manifest)) if manifest.noise.parts.audit is not None else None
        theta = coordinator.store.theta(digest)
        assert theta is not None
        spent = screen.seconds()
        report = Report(
            run=manifest.run,
            epsilon=row.claim["epsilon"],
            delta=row.claim["delta"],
            security=manifest.noise.parts.security,
            own=manifest.noise.parts.own,
            audits=manifest.noise.parts.audits,
            audited=audited,
            epsilon_if_a_server_lies=row.claim["epsilon_if_a_server_lies"],
            statement=row.claim["statement"],
            rounds=len(history),
            comparison=compare(theta, sets.own, sets.test, open_model(study.model, study.schema)),
            budgets=budgets,
            phases=tuple(PhaseCost(name, seconds, _traffic(name, history)) for name, seconds in spent.items()),
            bytes_up_per_party=sum(each.bytes_up // max(1, len(each.contributors)) for each in history),
            model=self._take_model(manifest),
            report=self._take_reports(manifest),
            folder=self.folder if self._keep else None,
            dashboard=self._signed_in() if self._keep else None,
        )
        return report, company

    def _follow(self, screen: DemoScreen, coordinator: Coordinator, manifest: Manifest, digest: bytes) -> RunRow:
        """Until the run rests; what changes is shown as it does."""
        titles = {name.uri: name.name for role in (Role.party, Role.aggregator) for name in manifest.identities(role)}
        checked: set[str] = set()
        since, begun, ending = 0, False, False
        while True:
            row = coordinator.store.get(digest)
            assert row is not None
            if row.claim and "lead" not in checked:
                checked.add("lead")
                screen.verified("the coordinator", row.claim["epsilon"], manifest.guarantee.delta)
            for uri, (answer, _) in coordinator.store.answers(digest).items():
                if answer == "joined" and uri not in checked and row.claim:
                    checked.add(uri)
                    screen.verified(titles[uri], row.claim["epsilon"], manifest.guarantee.delta)
            if row.state in (State.running, State.ending, State.finished) and not begun:
                begun = True
                screen.phase("rounds")
            for record in coordinator.store.history(digest, since):
                since = record.round + 1
                screen.round(record.round + 1, manifest.releases, record.seconds, len(record.contributors))
            if row.state in (State.ending, State.finished) and not ending:
                ending = True
                screen.phase("end")
            if row.state.resting:
                return row
            time.sleep(LOOK_SECONDS)

    def _budgets(self) -> tuple[Budget, ...]:
        """As each hospital's own ledger has it."""
        assert self.federation is not None
        found = []
        for node in self.federation.parties:
            ledger = Ledger.open(node.folder / "state" / "ledger.sqlite")
            for population in ledger.populations.values():
                spent, cap = population.spent, population.cap
                lying = guaranteed(spent.epsilon_if_a_server_lies)
                found.append(Budget(node.name, spent.epsilon, cap.epsilon, spent.delta, cap.delta, lying))
            ledger.close()
        return tuple(found)

    async def _audited(self, manifest: Manifest) -> tuple[int, int] | None:
        """Batches of noise: B's that A has audited, A's that B has. None where a server does not say."""
        assert self.federation is not None
        node = coordinator_node(self.federation.coordinator.folder)
        addresses = {name: str(address) for name, address in node.aggregators.items()}
        controls = Controls(node.identity, manifest, addresses)
        request = aggregator_pb2.StatusRequest()
        try:
            first, second = [await server.call("Status", request, STATUS_SECONDS) for server in controls.servers]
        except CoordinatorError:
            return None
        finally:
            await controls.close()
        return first.covert.audits_made, second.covert.audits_made

    def _signed_in(self) -> str:
        """An address of the dashboard that signs in whoever has it."""
        from parley.dashboard import process as dashboard
        from parley.web.access import token_in

        assert self.federation is not None
        node = coordinator_node(self.federation.coordinator.folder)
        return dashboard.settings_of(node, None).link(token_in(node.state))

    def _take_model(self, manifest: Manifest) -> Path:
        """Out of the coordinator's folder, which may be thrown away."""
        assert self.federation is not None
        self._output.mkdir(parents=True, exist_ok=True)
        path = self._output / "model.npz"
        model_file.load(model_path(self.federation.coordinator.folder, manifest.run)).save(path)
        return path

    def _take_reports(self, manifest: Manifest) -> Path:
        """Each node's own, signed with its key; the coordinator's is the one that is named."""
        assert self.federation is not None
        folder = self._output / REPORTS
        folder.mkdir(parents=True, exist_ok=True)
        for node in self.federation.parties:
            _wait_until_settled(node.folder, manifest)
        for node in self.federation.nodes.values():
            (folder / f"{node.name}.html").write_text(page(signed_report(node.folder, manifest.run)))
        return folder / f"{self.federation.coordinator.name}.html"


def _wait_until_settled(folder: Path, manifest: Manifest) -> None:
    """A party hears of the end after the coordinator; one that does not is reported as it is."""
    settings, ends = settings_of(party_node(folder)), time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < ends:
        if any(held.digest == manifest.digest and held.state in OVER for held in states_of(settings)):
            return
        time.sleep(LOOK_SECONDS)


def _traffic(phase: str, history: list[RoundRecord]) -> int | None:
    return sum(each.bytes_up + each.bytes_down for each in history) if phase == "rounds" else None


def demo(console: Console, output: Path, keep: bool, study: Study) -> Iterator[tuple[Report, Cast]]:
    """The report once it is there; the federation lives until the generator is closed."""
    require_linux()
    best_variant()  # its two servers make noise: refused before anything is written
    with terminated_like_interrupted(), Demo(console, output, keep, study) as running:
        report, company = running.run()
        study.write(output / "study.toml")
        yield replace(report, study=output / "study.toml"), company
