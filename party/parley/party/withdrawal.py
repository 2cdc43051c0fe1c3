"""A person takes this party out of a run: for the command and for the page."""

from parley.federation.manifest import Manifest
from parley.learning.feature_cache import erase
from parley.node import withdrawal
from parley.node.node_file import PartyNode
from parley.party.process import settings_of


def withdraw(node: PartyNode, run: str, by: str) -> Manifest:
    """For good: no further round of it is answered, and what was charged stays charged."""
    manifest = withdrawal.withdraw(node, run, by)
    # The node's process erases both, too, at its next step: it need not be running, nor ever start again.
    settings = settings_of(node)
    erase(settings.features_of(manifest.digest))
    settings.exclusions_of(manifest.digest).unlink(missing_ok=True)
    return manifest
