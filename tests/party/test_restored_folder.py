"""A restored party's folder before its operator has done what is to be done: what no command does in it."""

from contextlib import closing
from pathlib import Path

import pytest

from parley.node.backup import RESTORED
from parley.node.backup_key import BackupError
from parley.node.restoration import confirm
from parley.party.backup import contents, require_list
from parley.party.process import party_node, settings_of
from parley.party.settlement import settle_now
from parley.privacy.durable import replace_durably
from parley.privacy.errors import LedgerRefusedError
from tests.support.command import parley
from tests.support.party_process import gate_of
from tests.support.stage import Stage

pytestmark = pytest.mark.usefixtures("verified_in_process")


def mark(stage: Stage) -> None:
    with closing(gate_of(stage)) as gate:
        gate.ledger.put_back(1_700_000_000, "ab" * 16)
    replace_durably(stage.node / "state" / RESTORED, '{"made": 1700000000, "at": 1700000001, "confirmed_by": ""}\n')


def test_nothing_is_settled_before_pins_are_confirmed_and_servers_have_accounted(stage: Stage) -> None:
    mark(stage)
    done = parley("party", "settle", str(stage.node))
    assert done.returncode != 0
    assert "this node was restored" in done.stderr
    node = party_node(stage.node)
    confirm(node, "Dr. Ada Osei")
    with pytest.raises(LedgerRefusedError, match="restore --account"):
        settle_now(settings_of(node), None)


def test_no_list_of_people_who_objected_is_begun_anew_and_none_is_in_a_backup(stage: Stage) -> None:
    path = stage.node / "node.toml"
    path.write_text(path.read_text().replace("[data]\n", '[data]\nexcluded = "excluded.toml"\n'))
    node = party_node(stage.node)
    settings = settings_of(node)
    assert contents(node).place("excluded.toml") == "out"
    require_list(node, settings, "")
    mark(stage)
    with pytest.raises(BackupError, match="Bring the newest one"):
        require_list(node, settings, "")
    done = parley("party", "exclude", str(stage.node), "7")
    assert done.returncode != 0
    assert "Bring the newest one" in done.stderr
    Path(stage.node / "excluded.toml").touch()
    require_list(node, settings, "")
