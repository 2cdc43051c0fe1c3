"""The whole command line."""

import pytest


def test_the_whole_command_line_mounts_these_groups() -> None:
    bench = pytest.importorskip("parley.cli.commands.bench", reason="the command line's other groups come from mpc")
    assert bench
    from parley.cli.main import app

    assert {"privacy", "ledger", "audit"} <= {group.name for group in app.registered_groups}
