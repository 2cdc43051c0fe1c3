"""What a party's operator configured, as parley.party.process reads it from node.toml."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from parley.node.credentials import NodeFolder
from parley.privacy.filters import Cap


@dataclass(frozen=True)
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
    files: tuple[Path, ...]
    """The records."""
    schema: Path
    """What they are, in this institution's words: `parley.learning.holding`."""
    population: str
    """Whose data that is, in the ledger."""
    cap: Cap
    """Over all runs; final."""

    @property
    def seal(self) -> Path:
        """That its operator has compared records and schema."""
        return self.state / "seal.json"

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
    def verified(self) -> Path:
        """What was computed of manifests: after a crash it is not computed again."""
        return self.state / "verified"
