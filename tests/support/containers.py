"""Files of containers."""

from pathlib import Path

import pytest

from parley.demo import provision as provisioning
from parley.demo.recipe import STUDY


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("federation")
    provisioning.provision(folder, STUDY.manifest(), 4, lambda line: None)
    return folder
