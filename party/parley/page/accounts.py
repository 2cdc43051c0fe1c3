"""What the ledger says, as views: budgets over all runs, with dates, who admitted each run, and how it ended."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from parley.errors import ParleyError
from parley.federation.manifest import Manifest
from parley.page import views
from parley.page.costs import Cost
from parley.page.folder import Folder, Snapshot
from parley.party.data import data_set_of
from parley.party.report import STATES
from parley.privacy.budget import Budget, budget_of
from parley.privacy.filters import ROUNDING, epsilon_of
from parley.privacy.lying import in_a_column, in_words


def budgets(folder: Folder, found: Snapshot) -> Iterator[dict[str, Any]]:
    """Of every population of node.toml, whether or not anything was charged to it."""
    known = {body["population"]: body for body in found.books.budgets}
    for name in dict.fromkeys((*folder.settings.populations, *known)):
        empty = Budget(found.cap or folder.settings.cap, 0.0, 0.0).as_json()
        yield known.get(name) or {"population": name, "unit": "", "rule": found.books.policy.rule, **empty, "runs": []}


def budget_of_run(folder: Folder, found: Snapshot, manifest: Manifest, cost: Cost | None) -> views.Budget | None:
    """As it would be with the run, and as it is where the ledger has it."""
    with suppress(ParleyError):  # node.toml has no such data set: the policy's reasons say so
        population = data_set_of(folder.settings, manifest, folder.name).population
        body = next(each for each in budgets(folder, found) if each["population"] == population)
        if cost is None or cost.charge is None or charged_here(found, manifest):
            return budget_view(folder, found, body)
        held = found.books.populations.get(population)
        policy, cap = found.books.policy, held.cap if held else found.cap or folder.settings.cap
        after = budget_of(policy, cap, held.spent.plus(cost.charge.cost) if held else cost.charge.cost)
        asked = max(0.0, after.epsilon_spent - body["epsilon_spent"])
        left = {"epsilon_left": after.epsilon_left, "delta_left": after.delta_left}
        return replace(budget_view(folder, found, body | left, asked), fits=_fits(after))
    return None


def _fits(after: Budget) -> bool:
    """As the ledger's filter decides it when the run is charged; what it says then counts."""
    if after.rule == "rdp":
        return after.rdp_spent <= after.rdp_capacity * (1 + ROUNDING)
    spent = ((after.epsilon_spent, after.cap.epsilon), (after.delta_spent, after.cap.delta))
    return all(value <= cap * (1 + ROUNDING) for value, cap in spent)


def charged_here(found: Snapshot, manifest: Manifest) -> bool:
    """Under this very manifest: a name alone proves nothing."""
    return manifest.run in found.books.runs and manifest.digest in found.admissions


def budget_view(folder: Folder, found: Snapshot, body: Mapping[str, Any], asked: float = 0.0) -> views.Budget:
    lying, caught = body["epsilon_if_a_server_lies"], body["caught"]
    return views.Budget(
        population=body["population"],
        unit=body["unit"],
        rule=body["rule"],
        epsilon=body["epsilon_spent"],
        epsilon_cap=body["epsilon_cap"],
        epsilon_left=body["epsilon_left"],
        delta=body["delta_spent"],
        delta_cap=body["delta_cap"],
        delta_left=body["delta_left"],
        lying="" if lying == 0 else in_words(lying, body["delta_if_a_server_lies"]),
        caught=body["summary"].partition("; a server was caught")[2] and "a server was caught: see the evidence"
        if caught else "",
        runs=tuple(_charged(found, each) for each in body["runs"]),
        asked=asked,
    )  # fmt: skip


def _charged(found: Snapshot, body: Mapping[str, Any]) -> views.Charged:
    name, held = body["run"], found.books.runs[body["run"]]
    admission = next((each for each, _ in found.admissions.values() if each.manifest.run == name), None)
    states = [each for each in found.states if each.run == name and each.digest in found.admissions]
    by = "" if admission is None else "by policy" if admission.how == "policy" else admission.approved_by
    end = "settled" if held.ended else STATES.get(states[-1].state, "open") if states else "open"
    if held.evidence:
        end += "; charged whole, for a server was caught"
    return views.Charged(
        name=name,
        charged=body["charged"] or "",
        epsilon=body["epsilon"],
        delta=body["delta"],
        lying=in_a_column(held.cost.epsilon_if_a_server_lies),
        released=body["releases_recorded"],
        planned=body["releases_charged"],
        by=by if admission is None else f"{by}, {admission.at[:16].replace('T', ' ')}",
        end=end,
    )


def spent_before(folder: Folder, found: Snapshot, manifest: Manifest) -> tuple[float | None, float | None]:
    """ε and ε₂ of the records that the run is about, before it."""
    if any(each.startswith("The ledger") for each in found.problems):
        return None, None
    population = data_set_of(folder.settings, manifest, folder.name).population
    held = found.books.populations.get(population)
    if held is None:
        return 0.0, 0.0
    return epsilon_of(found.books.policy, held.cap, held.spent), held.spent.epsilon_if_a_server_lies
