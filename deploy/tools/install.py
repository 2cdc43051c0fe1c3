"""Installs this checkout into an environment and shows meanwhile what it does, for `make demo` and `make test`.

python3 deploy/tools/install.py .venv study,dashboard

Standard library only: it is what runs before anything is installed. On a terminal one line says which package pip is
at; elsewhere there are two lines, before and after. What pip says is shown only if it fails.
"""

import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
AT = re.compile(r"\s*(?:Collecting|Downloading|Using cached|Building|Preparing|Installing|Created wheel)\b.*")
WIDTH = 78


def install(environment: Path, extras: str) -> int:
    """pip's exit code."""
    begun, said, shown = time.monotonic(), [], sys.stderr.isatty()
    lasting = "a few minutes" if extras in ("dev", "whole") else "about a minute"
    print(f"installing parley and what it needs into {environment}: {lasting}", file=sys.stderr, flush=True)
    command = [environment / "bin" / "python", "-m", "pip", "install", "--progress-bar", "off", "-e", f".[{extras}]"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, bufsize=1
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            said.append(line)
            if shown and AT.fullmatch(line.rstrip()):
                what = re.sub(r" \((?:from|/|\d).*", "", line.strip())
                seconds = f"{time.monotonic() - begun:3.0f} s"
                print(f"\r  {seconds}  {what[:WIDTH]:{WIDTH}}", end="", file=sys.stderr, flush=True)
    if shown:
        print(f"\r{'':{WIDTH + 10}}\r", end="", file=sys.stderr)
    if pip.returncode:
        print("".join(said), end="", file=sys.stderr)
        print("this failed; docs/install.md says what is needed", file=sys.stderr)
    else:
        print(f"installed in {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return pip.returncode


if __name__ == "__main__":
    raise SystemExit(install(Path(sys.argv[1]), sys.argv[2]))
