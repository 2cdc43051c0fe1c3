"""What can go wrong in `deploy`; each message is one line and says what to change."""


class DeployError(Exception):
    """Base of every error that this folder raises on purpose."""


class RunFileError(DeployError):
    """A run file or the data folder is not what a command needs."""
