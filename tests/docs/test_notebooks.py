"""The notebooks run from the first cell to the last in a kernel of their own, and end in a picture."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT

EXAMPLES = ROOT / "examples"
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))
LONGEST_CELL = 25
"""Lines: what fits a screen beside its output."""
CELL_SECONDS = 600


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the kernel's sockets are: a short path, as they need. Nothing of the person who runs this is read."""
    with tempfile.TemporaryDirectory(prefix="nb") as folder:
        for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "HOME", "TMPDIR"):
            monkeypatch.setenv(name, folder)
        monkeypatch.setenv("PYTHONPATH", "")
        yield Path(folder)


def executed(path: Path, folder: Path, runtime: Path) -> Any:
    """A copy of examples/ is its folder; the kernel listens on Unix sockets, on no port."""
    import nbformat
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    shutil.copytree(EXAMPLES, folder / "examples")
    client = NotebookClient(
        nbformat.read(path, as_version=4),
        timeout=CELL_SECONDS,
        resources={"metadata": {"path": str(folder / "examples" / "notebooks")}},
    )
    client.km = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=str(runtime / "kernel"))
    return client.execute()


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_ends_in_a_picture(path: Path, tmp_path: Path, runtime: Path) -> None:
    import nbformat

    nbformat.validate(nbformat.read(path, as_version=4))
    done = executed(path, tmp_path, runtime)
    cells = [cell for cell in done.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert any("image/png" in output.get("data", {}) for output in cells[-1].outputs)
    printed = [output["text"] for cell in cells for output in cell.outputs if output.get("name") == "stderr"]
    assert printed == [], "warnings that a reader would have to explain away"
    assert [each.name for each in runtime.iterdir() if each.name.startswith("four-hospitals-")] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_as_it_is_written(path: Path) -> None:
    """Without outputs: noise differs every time, so that what was kept would be of another run than what is seen."""
    cells = json.loads(path.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert max(sum(text.count("\n") for text in cell["source"]) + 1 for cell in code) <= LONGEST_CELL
    assert "".join(cells[0]["source"]).startswith(f"# {path.name.split('-')[0]}. ")


def test_every_notebook_is_in_the_index() -> None:
    index = (EXAMPLES / "README.md").read_text()
    assert len(NOTEBOOKS) >= 4
    assert [path.name for path in NOTEBOOKS if f"(notebooks/{path.name})" not in index] == []
