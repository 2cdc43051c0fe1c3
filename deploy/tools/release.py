"""Makes a release of the tag that stands at this commit: `make release`, see docs/release.md.

python -m tools.release --key KEY [--output dist] [--no-images]

Everything is built from what the tag names and from nothing else in the working tree, and lies in the output folder at
the end only if every step held.
"""

import argparse
import gzip
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from parley.node.software import DISTRIBUTION, IMAGES
from tools.sbom import LISTING, bill
from tools.signing import (
    SIGNERS,
    SigningError,
    digest_of,
    require_announced,
    require_valid,
    sign,
    write_sums,
)
from tools.wheels import WheelError, build_wheels

RELEASED = ("party", "server")
EXTRAS = ("accounting", "dashboard", "parquet", "plots", "sql")
SHOWN = """
import importlib.metadata as m
print(*sorted({f.parts[0] for f in m.files("parley-federation") if f.parts[0] != ".."}))
print(*sorted({f.as_posix() for f in m.files("parley-federation") if f.parts[0] == ".."}))
import parley.study, parley.party.process
from parley.cli.main import app
"""


class ReleaseError(Exception):
    """What stands against a release, and what to change."""


@dataclass(frozen=True)
class Tag:
    """What is released."""

    name: str
    version: str
    commit: str
    seconds: int
    """The commit's time: that of everything that is built."""


def run(
    *words: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None, stdin: Path | None = None
) -> str:
    """Standard output; all that was said where it fails."""
    given = stdin.read_text() if stdin else ""
    done = subprocess.run(
        [str(each) for each in words], cwd=cwd, env={**os.environ, **(env or {})}, input=given, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ReleaseError(f"this failed: {' '.join(map(str, words))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def say(text: str) -> None:
    print(f"== {text}", flush=True)


def tag_of(root: Path) -> Tag:
    """The tag at this commit; refused unless the tree is clean and every place names one version."""
    if changed := run("git", "status", "--porcelain", cwd=root).splitlines():
        raise ReleaseError(f"the working tree has changes ({changed[0].strip()}): commit or stash them")
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    wanted = f"v{version}"
    tags = [each for each in run("git", "tag", "--points-at", "HEAD", cwd=root).split() if re.match(r"v\d", each)]
    if not tags:
        raise ReleaseError(f"no version's tag stands at this commit: git tag -a {wanted} -m 'parley {version}'")
    if tags != [wanted]:
        raise ReleaseError(
            f"the tag is {' '.join(tags)} and pyproject.toml says {version}: "
            f"change the version there and commit, or delete the tag and make {wanted}"
        )
    if not re.search(rf"^## {re.escape(version)}\b", (root / "CHANGELOG.md").read_text(), re.MULTILINE):
        raise ReleaseError(
            f"CHANGELOG.md has no section '## {version}': name the section 'Unreleased' so, commit, tag anew"
        )
    commit, seconds = run("git", "show", "-s", "--format=%H %ct", "HEAD", cwd=root).split()
    return Tag(wanted, version, commit, int(seconds))


def export(root: Path, tag: Tag, folder: Path) -> Path:
    """The tag's files, without what lies beside them."""
    archive = subprocess.run(["git", "archive", tag.commit], cwd=root, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return folder


def build_packages(source: Path, tag: Tag, output: Path) -> Path:
    """The sdist, and from that a wheel for each platform; that of this machine."""
    say("sdist, and the wheels from it")
    env = {"SOURCE_DATE_EPOCH": str(tag.seconds), "LC_ALL": "C.UTF-8"}
    project = tomllib.loads((source / "pyproject.toml").read_text())
    with tempfile.TemporaryDirectory(prefix="parley-build-") as work:
        python = Path(work, "tools", "bin", "python")
        run(sys.executable, "-m", "venv", "--without-pip", python.parents[1])
        required = project["build-system"]["requires"]  # once for all of them: a compiler is large
        run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "build", *required)
        build = (python, "-P", "-m", "build", "--no-isolation", "--outdir", output)
        run(*build, "--sdist", source, env=env)
        (sdist,) = output.glob("*.tar.gz")
        with tarfile.open(sdist) as tar:
            tar.extractall(work, filter="data")
        made = build_wheels(Path(work, sdist.name.removesuffix(".tar.gz")), output, python, **env)
    stem = sdist.name.removesuffix(".tar.gz")
    strange = [each.name for each in output.glob("*.whl") if not each.name.startswith(f"{stem}-py3-none-")]
    if tag.version != stem.split("-")[1] or strange:
        raise ReleaseError(f"wheels of {tag.version} were to be built, not {strange} of {stem}")
    for wheel in made.values():
        run(sys.executable, "-m", "check_wheel_contents", "--config", source / "pyproject.toml", wheel)
    this_machine = runpy.run_path(str(source / "mpc/parley/mpc/native/build.py"))["this_machine"]()
    return made[this_machine]


def install(wheel: Path, folder: Path) -> Path:
    """A fresh environment with the wheel and all its extras; the interpreter in it."""
    say("the wheel in a fresh environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", f"{wheel}[{','.join(EXTRAS)}]")
    shown = run(python, "-P", "-c", SHOWN, cwd=folder).splitlines()
    top = ["parley", wheel.name.split("-py3")[0] + ".dist-info"]
    if [each.split() for each in shown] != [top, ["../../../bin/parley"]]:
        raise ReleaseError(
            f"an installation shows {shown}, not {top} and the command alone: see packages in pyproject.toml"
        )
    run(folder / "bin" / "parley", "--help", cwd=folder)
    return python


def build_image(source: Path, tag: Tag, target: str, output: Path) -> None:
    """Its archive for `docker load`, and its bill of materials."""
    say(f"image {target}")
    name = f"parley/{target}:{tag.version}"
    digest = run("python3", source / "federation/parley/node/software.py", target).strip()
    arguments = {"VERSION": tag.version, f"{target.upper()}_DIGEST": digest}
    if base := os.environ.get("PARLEY_BASE"):
        arguments["BASE"] = base
    words = [word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")]
    network = os.environ.get("PARLEY_BUILD_NETWORK", "host")
    run("docker", "build", "--network", network, "-f", source / "deploy/Dockerfile", "--target", target, "-t", name,
        *words, source)  # fmt: skip
    archive = output / f"parley-{target}-{tag.version}.tar.gz"
    saving = subprocess.Popen(["docker", "save", name], stdout=subprocess.PIPE)
    assert saving.stdout is not None
    with gzip.GzipFile(archive, "wb", compresslevel=6, mtime=tag.seconds) as packed:
        shutil.copyfileobj(saving.stdout, packed)
    if saving.wait():
        raise ReleaseError(f"docker save {name} failed")
    listing = run(
        "docker", "run", "--rm", "-i", "--network", "none", "--entrypoint", "python", name, "-", stdin=LISTING
    )
    identity = run("docker", "image", "inspect", "--format", "{{.Id}}", name).strip().removeprefix("sha256:")
    extras = ("accounting", "dashboard") if "dashboard" in IMAGES[target] else ("accounting",)
    text = bill(listing, name, identity, tag.seconds, extras, image=True)
    (output / f"parley-{target}-{tag.version}.cdx.json").write_text(text)


def release(root: Path, key: Path, target: Path, images: bool) -> Tag:
    """All of it; `target` is replaced at the end."""
    tag = tag_of(root)
    require_announced(key, root / "docs" / SIGNERS, root)
    if images and subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        raise ReleaseError("no Docker engine answers: start it, or make the release without images (--no-images)")
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="parley-release-") as work,
        tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as unfinished,
    ):
        output = Path(unfinished, "release")
        output.mkdir()
        source = export(root, tag, Path(work, "source"))
        wheel = build_packages(source, tag, output)
        python = install(wheel, Path(work, "environment"))
        listing = run(python, "-", stdin=LISTING)
        text = bill(listing, wheel.name, digest_of(wheel), tag.seconds, EXTRAS, image=False)
        (output / f"{DISTRIBUTION}-{tag.version}.cdx.json").write_text(text)
        for each in RELEASED if images else ():
            build_image(source, tag, each, output)
        say("checksums and signature")
        write_sums(output)
        sign(output, key)
        require_valid(output, source / "docs" / SIGNERS)
        if target.exists():
            shutil.rmtree(target)
        output.rename(target)
    return tag


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--key", type=Path, default=os.environ.get("PARLEY_RELEASE_KEY"), help="the releaser's key")
    parser.add_argument("--output", type=Path, default=Path("dist"))
    parser.add_argument("--no-images", action="store_true")
    chosen = parser.parse_args()
    if chosen.key is None:
        raise SystemExit("error: no key signs this: set PARLEY_RELEASE_KEY to its file, see docs/release.md")
    root = Path(__file__).parents[2]
    try:
        tag = release(root, Path(chosen.key).expanduser(), chosen.output.resolve(), not chosen.no_images)
    except (ReleaseError, SigningError, WheelError) as error:
        raise SystemExit(f"error: {error}") from None
    say(f"parley {tag.version} is in {chosen.output}/")


if __name__ == "__main__":
    main()
