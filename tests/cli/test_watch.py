"""`parley watch` as a person uses it: to leave it is not to stop the run."""

import signal
import subprocess
import sys
from pathlib import Path

from tests.support.folders import coordinator_folder

NODE = 'role = "coordinator"\nlisten = "127.0.0.1:0"\n[aggregators]\nnorth = "a:1"\nsouth = "b:1"\n'


def test_whoever_leaves_is_told_that_the_run_goes_on(tmp_path: Path) -> None:
    state, _ = coordinator_folder(tmp_path, 3)
    (state.parent / "node.toml").write_text(NODE)
    command = [sys.executable, "-P", "-m", "parley.cli.main", "watch", "heart-1", "--node", str(state.parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        code = process.wait()
    assert first[20:].startswith("heart-1 is "), first + said  # after the time
    lines = said.splitlines()
    commands = lines[lines.index("the run goes on. To follow it again, to pause it, to end it for good:") + 1 :]
    which = f"heart-1 --node {state.parent}"
    assert commands == [f"  parley watch {which}", f"  parley stop {which}", f"  parley stop {which} --final"]
    assert "Traceback" not in said
    assert code == 130
