"""The table [track] of a coordinator's node.toml: folders of this machine, or a server that its operator names."""

from pathlib import Path

import pytest

from parley.node.errors import NodeFileError
from parley.node.node_file import read_node
from parley.node.node_text import node_text
from parley.node.track_settings import NOWHERE, TrackSettings
from tests.support.node_files import node_with


def test_nothing_is_tracked_unless_it_is_said(tmp_path: Path) -> None:
    assert node_with(tmp_path, "").track == NOWHERE == TrackSettings(None, None)
    assert "track" not in node_text(node_with(tmp_path, ""))


@pytest.mark.parametrize("place", ["https://mlflow.example.org/base", "http://127.0.0.1:5000"])
def test_folders_are_from_the_nodes_own_and_a_server_is_as_it_was_written(tmp_path: Path, place: str) -> None:
    node = node_with(tmp_path, f'[track]\nmlflow = "{place}"\ntensorboard = "events"\n')
    assert node.track == TrackSettings(place, tmp_path / "events")
    (tmp_path / "node.toml").write_text(node_text(node))
    assert read_node(tmp_path) == node
    assert node_with(tmp_path, '[track]\nmlflow = "databricks"\n').track.mlflow == tmp_path / "databricks"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('mlflow = "sqlite:///here"', "give a folder or an http"),
        ('mlflow = "databricks://profile"', "give a folder or an http"),
        ('mlflow = "https://"', "give the address of a server"),
        ('mlflow = "https://[bad"', "give the address of a server"),
        ('mlflow = "https://me:secret@mlflow.example.org"', "leave name and password out"),
        ('mlflow = "https://mlflow.example.org?token=x"', "leave name and password out"),
        ('tensorboard = "https://board.example.org"', "give a folder"),
        ('wandb = "here"', "is unknown"),
    ],
)
def test_any_other_place_is_refused(tmp_path: Path, line: str, why: str) -> None:
    with pytest.raises(NodeFileError, match=why):
        node_with(tmp_path, f"[track]\n{line}\n")


def test_a_party_tracks_nothing(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text(
        'role = "party"\ncoordinator = "lead@a:1"\n[aggregators]\nnorth = "a:2"\nsouth = "b:2"\n[data]\n'
        'files = ["a.csv"]\nschema = "schema.toml"\npopulation = "us"\n[budget]\nepsilon = 1.0\ndelta = 1e-5\n'
        '[track]\ntensorboard = "events"\n'
    )
    with pytest.raises(NodeFileError, match="track: is unknown"):
        read_node(tmp_path)
