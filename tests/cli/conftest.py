"""The commands as a process would see them, without one."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import typer
from typer.testing import CliRunner

from parley.cli.commands import audit, ledger, privacy
from parley.privacy.errors import PrivacyError
from tests.coordinator.conftest import lead  # noqa: F401  fixtures
from tests.party.conftest import stage, verified_in_process  # noqa: F401  fixtures
from tests.support.enrolment import authority  # noqa: F401  fixtures
from tests.support.examined import party, ports  # noqa: F401  fixtures
from tests.support.model_files import path  # noqa: F401  fixtures
from tests.support.pinned import issuer  # noqa: F401  fixtures
from tests.support.studies import folder  # noqa: F401  fixtures


class Answer(NamedTuple):
    """A finished command."""

    code: int
    output: str
    error: str

    @property
    def json(self) -> Any:
        """The last line of standard output."""
        return json.loads(self.output.strip().splitlines()[-1])


@pytest.fixture
def parley() -> Callable[..., Answer]:
    """Run `parley` with the groups that count; errors become exit codes as in `parley.cli.main`."""
    app = typer.Typer(pretty_exceptions_enable=False)
    for name, group in (("privacy", privacy), ("ledger", ledger), ("audit", audit)):
        app.add_typer(group.app, name=name)

    def run(*arguments: object) -> Answer:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if isinstance(result.exception, PrivacyError):
            return Answer(2, result.stdout, f"error: {result.exception}\n")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    return run
