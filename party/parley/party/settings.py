"""What a party's operator configured, as parley.party.process reads it from node.toml."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from parley.compute.cluster import Cluster
from parley.node.credentials import NodeFolder
from parley.node.data_sets import DataSet, state_file
from parley.privacy.filters import Cap


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One party's configuration."""

    identity: NodeFolder
    policy: Path
    state: Path
    """The folder of its durable files."""
    coordinator: str
    """Name."""
    coordinator_address: str
    aggregators: Mapping[str, str]
    """Name to address of the share port."""
    data: tuple[DataSet, ...]
    """The records: one data set, or several that each have a name."""
    cap: Cap
    """Over all runs on one population; final."""
    compute: Cluster | None = None
    """Where sums are computed; none is this process."""

    def chosen(self, name: str) -> DataSet | None:
        """The data set that a manifest is about: the one it names, or the only one. Reads node.toml and no more."""
        if not name:
            return self.data[0] if len(self.data) == 1 else None
        return next((each for each in self.data if each.name == name), None)

    @property
    def populations(self) -> tuple[str, ...]:
        """Whose records these are, in the ledger; each once, in the order of node.toml."""
        return tuple(dict.fromkeys(each.population for each in self.data))

    def seal(self, data: DataSet) -> Path:
        """That its operator has compared records and schema."""
        return state_file(self.state, data.name, "seal", ".json")

    @property
    def features(self) -> Path:
        """What is computed of records for a run, in a folder for each run that is open."""
        return self.state / "features"

    def features_of(self, digest: bytes) -> Path:
        """Those of one run, by its manifest."""
        return self.features / digest.hex()

    def exclusions_of(self, digest: bytes) -> Path:
        """Whose records count for nothing in a run: the list that it began with, while it lasts."""
        return self.state / "exclusions" / f"{digest.hex()}.txt"

    @property
    def outbox(self) -> Path:
        return self.state / "outbox.sqlite"

    @property
    def trail(self) -> Path:
        return self.state / "trail.jsonl"

    @property
    def ledger(self) -> Path:
        return self.state / "ledger.sqlite"

    @property
    def admissions(self) -> Path:
        return self.state / "admissions.sqlite"

    @property
    def review(self) -> Path:
        """What reviewers have signed, and which policy is in force."""
        return self.state / "review.sqlite"

    def speed(self, digest: bytes) -> Path:
        """How fast a run's sums are computed here."""
        return self.state / "speed" / f"{digest.hex()}.json"

    def newest(self, digest: bytes) -> Path:
        """The newest public models of a run."""
        return self.state / "newest" / f"{digest.hex()}.npz"

    @property
    def verified(self) -> Path:
        """What was computed of manifests: after a crash it is not computed again."""
        return self.state / "verified"
