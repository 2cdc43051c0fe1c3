"""Whose report it is: the node's identity as it is installed, also where its certificate has run out since."""

from dataclasses import replace

from parley.node.credentials import Identity, NodeFolder
from parley.node.pins import read_pins


def identity_of(folder: NodeFolder) -> Identity:
    """With its pins. No peer is asked to believe the certificate: a report is believed by its key alone."""
    identity = Identity.load(folder.installed)
    return replace(identity, pins=read_pins(folder.pin_file).with_own(identity.name, identity.pin))
