"""How far a run came that has a model: rounds made of those planned, and which of them its model is of."""

from dataclasses import dataclass

from parley.algorithms.early_stop import best_round
from parley.coordinator.store import RunStore
from parley.federation.manifest import Manifest


@dataclass(frozen=True)
class Made:
    """For the log, the screens and the card."""

    rounds: int
    planned: int
    chosen: int | None
    """The round whose model it is, where the public set chose it: then figures on that set are better than on others.
    """
    patience: int

    @property
    def early(self) -> bool:
        return self.rounds < self.planned

    def __str__(self) -> str:
        best = f"; the model is that of round {self.chosen + 1}" if self.chosen is not None else ""
        if not self.early:
            return f"{self.planned} rounds{best}"
        return (
            f"stopped early after {self.rounds} of {self.planned} rounds: the public loss had not fallen for "
            f"{self.patience} evaluations{best}. Under a ledger's rule basic the whole run stays charged; under rdp "
            f"{self.planned - self.rounds} rounds come back"
        )


def made_of(store: RunStore, manifest: Manifest) -> Made:
    """From what is on disk: the same before a restart and after."""
    row, rule = store.get(manifest.digest), manifest.stop_early
    assert row is not None
    losses = [
        (record.round, record.evaluation["loss"])
        for record in (store.history(manifest.digest) if rule is not None else ())
        if record.evaluation
    ]
    chosen = best_round(rule, losses) if rule is not None else None
    return Made(row.round, manifest.releases, chosen, rule.patience if rule is not None else 0)
