"""What `parley watch` shows in a terminal, and what the dashboard's wiring reads in node.toml."""

from pathlib import Path

import pytest

from parley.dashboard.process import DEFAULT, settings_of
from parley.node.errors import NodeError, NodeFileError
from parley.node.node_file import Address
from tests.support.node_files import node_with


def test_a_dashboard_is_on_loopback_unless_it_is_said(tmp_path: Path) -> None:
    node = node_with(tmp_path, "")
    assert node.dashboard is None
    assert node.metrics is None
    assert settings_of(node).loopback
    assert not settings_of(node).secure
    assert settings_of(node).port == DEFAULT.listen.port
    assert settings_of(node).link("t") == "http://127.0.0.1:7480/login#t"


def test_a_link_leads_to_where_a_container_publishes_the_port(tmp_path: Path) -> None:
    """`dashboard.lead:7480`, which a container listens on, is a name that no browser knows."""
    (tmp_path / "c").write_text("")
    node = node_with(tmp_path, '[dashboard]\nlisten = "dashboard.lead:7480"\ncertificate = "c"\nkey = "c"\n')
    assert settings_of(node).link("t", Address("127.0.0.1", 8443)) == "https://127.0.0.1:8443/login#t"


def test_elsewhere_it_needs_a_certificate(tmp_path: Path) -> None:
    node = node_with(tmp_path, '[dashboard]\nlisten = "0.0.0.0:7480"\n')
    with pytest.raises(NodeError, match="does not exist"):
        settings_of(node)
    (tmp_path / "c").write_text("")
    (tmp_path / "k").write_text("")
    node = node_with(tmp_path, '[dashboard]\nlisten = "0.0.0.0:7480"\ncertificate = "c"\nkey = "k"\n')
    assert settings_of(node).secure
    assert settings_of(node, Address("127.0.0.1", 0)).port == 0


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('[dashboard]\nlisten = "0.0.0.0:7480"\nmetrics = true\n', "for loopback"),
        ('[dashboard]\nlisten = "127.0.0.1:7480"\nkey = "k"\n', "belong together"),
        ('[dashboard]\nlisten = "127.0.0.1:7480"\ntoken = "x"\n', "unknown"),
        ('[metrics]\nlisten = "0.0.0.0:9464"\n', "no login"),
    ],
)
def test_what_would_open_it_too_far_is_refused(tmp_path: Path, more: str, says: str) -> None:
    with pytest.raises(NodeFileError, match=says):
        node_with(tmp_path, more)
