"""The coordinator's metrics, read from its store: nothing is counted twice, and a restart forgets nothing."""

from parley.coordinator.store import RunStore, State
from parley.dashboard.history import Histories, manifest_of
from parley.node.metrics import Registry


def exposition(store: RunStore, histories: Histories, name: str = "coordinator") -> str:
    """Public facts of all runs, in Prometheus' text format."""
    registry = Registry("coordinator", name)
    state = registry.gauge("parley_run_state", "1 for the state that a run is in.", "run", "state")
    planned = registry.gauge("parley_run_rounds_planned", "Rounds that the manifest fixes.", "run")
    rounds = registry.counter("parley_rounds_total", "Rounds opened.", "run")
    seconds = registry.counter("parley_round_seconds_total", "Seconds that those rounds took.", "run")
    phases = registry.counter("parley_phase_seconds_total", "Seconds by phase of a round.", "run", "phase")
    passed = registry.counter("parley_bytes_total", "Bytes between parties and servers.", "run", "direction")
    present = registry.gauge("parley_parties_present", "Contributors to the last round.", "run")
    missed = registry.counter("parley_party_rounds_missed_total", "Rounds that a party missed.", "run", "party")
    epsilon = registry.gauge("parley_run_epsilon", "What the whole run costs at its delta, verified.", "run")
    estimator = registry.gauge("parley_estimator_norm", "Norm of the last released, noised estimate.", "run")
    noise = registry.gauge("parley_noise_norm", "Expected norm of the noise alone in it.", "run")
    for row in store.runs():
        history, manifest = histories.of(row.digest), manifest_of(row.manifest)
        for each in State:
            state.set(float(each is row.state), run=row.run, state=each.value)
        planned.set(manifest.releases, run=row.run)
        rounds.set(len(history.records), run=row.run)
        seconds.set(sum(record.seconds for record in history.records), run=row.run)
        totals = [sum(column) for column in zip(*map(history.phases, history.records), strict=True)]
        for key, total in zip(("waiting", "agreeing", "noising", "stepping", "other"), totals, strict=False):
            phases.set(total, run=row.run, phase=key)
        passed.set(history.bytes_up, run=row.run, direction="up")
        passed.set(history.bytes_down, run=row.run, direction="down")
        for party in manifest.parties:
            missed.set(len(history.missed.get(party, ())), run=row.run, party=party)
        if isinstance(row.claim.get("epsilon"), float):
            epsilon.set(row.claim["epsilon"], run=row.run)
        if history.records:
            last = history.records[-1]
            present.set(len(last.contributors), run=row.run)
            estimator.set(last.estimator_norm, run=row.run)
            noise.set(last.noise_norm, run=row.run)
    return registry.text()
