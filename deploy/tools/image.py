"""What the Dockerfile does with Python: which packages an image needs, and what is taken out of it.

    python3 image.py requirements accounting    # of pyproject.toml beside this file, with that extra if there is one
    python3 image.py strip /opt/parley party    # rooms of other images; tests, headers and stubs of other packages
    python3 image.py trim                       # what installs software, and texts that nobody reads in a container

Which rooms an image holds is said once, in parley/node/software.py. Runs inside of the build only, by the standard
library alone.
"""

import runpy
import shutil
import stat
import sys
import tomllib
from pathlib import Path

UNNEEDED_FOLDERS = ("tests", "include")
KEPT = ("numpy/_core/tests/__init__.py", "numpy/_core/tests/_natype.py")
"""numpy.testing imports it, and scipy imports numpy.testing."""
UNNEEDED_FILES = ("*.pyi", "*.pxd", "*.pyx", "*.c", "*.h", "*.a", "*.lib")
UNUSED = ("scipy/io", "scipy/cluster", "scipy/datasets", "scipy/odr", "scipy/misc", "scipy/fftpack", "wrapt-stubs")
"""Parts of the accountants' libraries that no accountant imports; the image's test verifies with all of those."""
OWN = ("parley",)
SYSTEM = (
    "usr/lib/python3/dist-packages/pip*",
    "usr/lib/python3/dist-packages/setuptools*",
    "usr/lib/python3/dist-packages/pkg_resources",
    "usr/lib/python3/dist-packages/wheel*",
    "usr/local/lib/python3*/site-packages/*",
    "usr/local/bin/pip*",
    "usr/bin/pip*",
    "usr/share/python-wheels",
    "usr/lib/apt",
    "usr/bin/apt*",
    "usr/bin/dpkg*",
    "usr/bin/perl*",
    "usr/lib/*-linux-gnu/perl*",
    "usr/share/perl5",
    "usr/lib/*-linux-gnu/gconv",
    "var/lib/dpkg/info",
    "usr/lib/python3*/ensurepip",
    "usr/lib/python3*/idlelib",
    "usr/lib/python3*/lib2to3",
    "usr/lib/python3*/pydoc_data",
    "usr/local/lib/python3*/ensurepip",
    "usr/local/lib/python3*/idlelib",
    "usr/local/lib/python3*/lib2to3",
    "usr/share/doc",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
    "var/cache/*",
    "var/lib/apt/lists/*",
    "var/log/*",
    "tmp/*",
)


def requirements(pyproject: Path, extra: str) -> list[str]:
    """The package's dependencies with those of one extra."""
    project = tomllib.loads(pyproject.read_text())["project"]
    return [*project["dependencies"], *project["optional-dependencies"].get(extra, [])]


def strip_rooms(site: Path, image: str) -> None:
    """Leave the rooms of this image and no other."""
    kept = runpy.run_path(str(site / "parley" / "node" / "software.py"))["IMAGES"][image]
    for room in (site / "parley").iterdir():
        if room.name not in kept:
            shutil.rmtree(room)


def strip(environment: Path, image: str) -> None:
    """Take out rooms of other images, and of other packages what only their developers need."""
    for site in environment.glob("lib/python3*/site-packages"):
        strip_rooms(site, image)
        for name in UNUSED:
            shutil.rmtree(site / name, ignore_errors=True)
        kept = {name: (site / name).read_bytes() for name in KEPT if (site / name).exists()}
        for package in list(site.iterdir()):
            if package.name in OWN or not package.is_dir():
                continue
            for name in UNNEEDED_FOLDERS:
                for folder in [each for each in package.rglob(name) if each.is_dir()]:
                    shutil.rmtree(folder, ignore_errors=True)
            for pattern in UNNEEDED_FILES:
                for file in package.rglob(pattern):
                    file.unlink()
        for name, data in kept.items():
            (site / name).parent.mkdir(exist_ok=True)
            (site / name).write_bytes(data)


def trim(root: Path = Path("/")) -> None:
    """Leave a system that runs Python and nothing else."""
    for pattern in SYSTEM:
        for found in root.glob(pattern):
            shutil.rmtree(found) if found.is_dir() and not found.is_symlink() else found.unlink()
    for folder in ("usr/bin", "usr/sbin", "bin", "sbin"):
        for program in (root / folder).iterdir():
            if not program.is_symlink() and program.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
                program.unlink()


def main(arguments: list[str]) -> None:
    match arguments:
        case ["requirements", extra]:
            print("\n".join(requirements(Path(__file__).with_name("pyproject.toml"), extra)))
        case ["strip", folder, image]:
            strip(Path(folder), image)
        case ["trim"]:
            trim()
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
