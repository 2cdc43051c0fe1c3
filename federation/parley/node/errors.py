"""What can go wrong in being a node; each message is one line and says what to change."""

from parley.errors import ParleyError
from parley.federation.errors import FieldError


class NodeError(ParleyError):
    """Base of every error that this room raises on purpose: a folder or a process that is not what it should be."""


class NodeFileError(FieldError, NodeError):
    """A node.toml that a node cannot start by."""
