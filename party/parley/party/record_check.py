"""What `parley schema check` does: a party's records against the whole of its schema.toml, and the seal."""

from pathlib import Path

from parley.learning.fit import Fit
from parley.node.trail import Trail
from parley.party.admission import open_ledger
from parley.party.process import party_node, settings_of
from parley.party.seal import seal


def seal_node(folder: Path) -> Fit:
    """Sealed where everything fits, noted in the trail; what was found tells of records, and is for local eyes."""
    settings = settings_of(party_node(folder))
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    ledger = open_ledger(settings)
    try:
        found = seal(settings, ledger)
    finally:
        ledger.close()
    with Trail.open(settings.trail, settings.identity.load().name) as trail:
        trail.append("records.sealed" if found.fits else "records.unsealed", durable=True)
    return found
