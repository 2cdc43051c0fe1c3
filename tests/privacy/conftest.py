"""Shared by the tests of `privacy`: a small mechanism, and the commands as a process would see them."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import typer
from typer.testing import CliRunner

from parley.cli.commands import audit, ledger, privacy
from parley.privacy.clipping import MomentumClip
from parley.privacy.errors import PrivacyError
from parley.privacy.mechanism import Cohort, Mechanism
from parley.privacy.sampling import FixedSize


@pytest.fixture
def mechanism() -> Mechanism:
    """DDP-SRM at two parties of different sizes, 21 releases."""
    cohorts = (Cohort("north", FixedSize(1000, 50)), Cohort("south", FixedSize(200, 20)))
    return Mechanism(cohorts, MomentumClip(1.0, 0.02, 0.4), 4.0, 20)


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
    """Run `parley` with the groups of this folder; errors become exit codes as in `parley.cli.main`."""
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
