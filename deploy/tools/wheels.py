"""Builds all wheels of a source tree: one for each platform with its kernels, one for any other without: `make wheels`.

python -m tools.wheels [--output dist/wheels]

Nothing is fetched: the compiler and the builder are those of this environment (the extra `wheels`).
"""

import argparse
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


class WheelError(Exception):
    """What was to be built and was not."""


def platforms(source: Path) -> dict[str, str]:
    """The tag of each platform that a wheel is built for."""
    found = runpy.run_path(str(source / "mpc/parley/mpc/native/build.py"))["PLATFORMS"]
    return {name: each.tag for name, each in found.items()}


def build_wheel(source: Path, output: Path, name: str, python: str | Path = sys.executable, **more: str) -> Path:
    """The wheel of one platform, by `python`, which has what pyproject.toml's build needs, and `build`."""
    output.mkdir(parents=True, exist_ok=True)
    command = [str(python), "-P", "-m", "build", "--no-isolation", "--wheel", "--outdir", str(output), str(source)]
    environment = {**os.environ, **more, "PARLEY_PLATFORM": name}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found = list(output.glob(f"*-py3-none-{platforms(source)[name]}.whl"))
    if done.returncode or len(found) != 1:
        told = f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
        raise WheelError(f"of {name} one wheel was to be built, not {len(found)}: {told}")
    return found[0]


def build_wheels(source: Path, output: Path, python: str | Path = sys.executable, **more: str) -> dict[str, Path]:
    """Of every platform."""
    return {name: build_wheel(source, output, name, python, **more) for name in platforms(source)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.wheels", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("dist/wheels"))
    target: Path = parser.parse_args().output
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".wheels-", dir=target) as work:  # none is half there, none is of before
        try:
            made = build_wheels(ROOT, Path(work))
        except WheelError as error:
            raise SystemExit(f"error: {error}") from None
        for old in target.glob("parley_federation-*.whl"):
            old.unlink()
        for wheel in made.values():
            print(wheel.rename(target / wheel.name))


if __name__ == "__main__":
    main()
