"""Commands that are called in this process."""

from typer.testing import CliRunner

from parley.cli.main import app


def refused(*words: str) -> str:
    """What such a call is told: it must not succeed."""
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code != 0
    return done.stderr if done.exception is None or isinstance(done.exception, SystemExit) else str(done.exception)
