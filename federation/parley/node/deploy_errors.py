"""What can go wrong in `deploy`; each message is one line and says what to change."""

from parley.federation.errors import FieldError


class DeployError(Exception):
    """Base of every error that this folder raises on purpose."""


class RunFileError(DeployError):
    """A run file or the data folder is not what a command needs."""


class NodeFileError(FieldError, DeployError):
    """A node.toml that a node cannot start by."""


class ModelFileError(DeployError):
    """A model file that is none, or that is not the one that was written."""
