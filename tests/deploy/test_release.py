"""`make release` in a clone of its own with a throw-away key, and what a stranger does with the result."""

import hashlib
import json
import re
import runpy
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from tests.support.libraries import NATIVE, functions, require_elf, require_mach_o

from tools.release import ReleaseError, Tag, build_packages, export, release, tag_of
from tools.signing import SIGNATURE, SIGNERS, SUMS, SigningError, require_announced, require_valid, sign, write_sums

ROOT = Path(__file__).parents[2]
BUILD = runpy.run_path(str(NATIVE / "build.py"))
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH's ssh-keygen is not installed")


def git(folder: Path, *words: str) -> str:
    names = ("-c", "user.name=releaser", "-c", "user.email=releaser@example.org", "-c", "tag.gpgSign=false")
    done = subprocess.run(["git", *names, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def new_key(path: Path, kind: str = "ed25519") -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", str(path)], check=True)
    return path


def announcement(key: Path) -> str:
    kind, text = key.with_name(f"{key.name}.pub").read_text().split()[:2]
    return f'parley-release namespaces="parley-release" {kind} {text}\n'


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return new_key(tmp_path / "key")


@pytest.fixture
def clone(tmp_path: Path, key: Path) -> Path:
    """What git has here, also where it is not committed yet; the key announced, the changelog's section named."""
    folder = tmp_path / "clone"
    for name in git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    with (folder / "docs" / SIGNERS).open("a") as signers:
        signers.write(announcement(key))
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {VERSION}\n\n- Released.\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "to release")
    git(folder, "tag", f"v{VERSION}")
    return folder


@pytest.fixture
def signed(tmp_path: Path, key: Path) -> Path:
    """A folder of two files as a release has them, with the announced key beside it."""
    folder = tmp_path / "release"
    folder.mkdir()
    (folder / "parley.whl").write_bytes(b"wheel")
    (folder / "parley.tar.gz").write_bytes(b"sdist")
    write_sums(folder)
    sign(folder, key)
    (tmp_path / SIGNERS).write_text((ROOT / "docs" / SIGNERS).read_text() + announcement(key))
    return folder


def commands_of_the_docs() -> str:
    """What docs/release.md tells a stranger to type."""
    text = (ROOT / "docs" / "release.md").read_text()
    found = re.search(r"## Is this file ours\?.*?```sh\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def stranger(folder: Path, signers: Path) -> int:
    shutil.copy(signers, folder / SIGNERS)
    return subprocess.run(
        ["bash", "-c", commands_of_the_docs()], cwd=folder, capture_output=True, check=False
    ).returncode


def test_a_stranger_verifies_by_the_commands_of_the_docs(signed: Path) -> None:
    assert stranger(signed, signed.parent / SIGNERS) == 0
    (signed / "parley.tar.gz").unlink()  # who took the wheel alone verifies that
    assert stranger(signed, signed.parent / SIGNERS) == 0


@pytest.mark.parametrize("name", ["parley.whl", SUMS, SIGNATURE])
def test_a_changed_file_is_refused(signed: Path, name: str) -> None:
    data = bytearray((signed / name).read_bytes())
    data[len(data) // 2] ^= 1
    (signed / name).write_bytes(bytes(data))
    assert stranger(signed, signed.parent / SIGNERS) != 0


def test_who_changes_a_file_and_its_sum_is_refused(signed: Path) -> None:
    (signed / "parley.whl").write_bytes(b"another")
    write_sums(signed)
    assert hashlib.sha256(b"another").hexdigest() in (signed / SUMS).read_text()
    assert stranger(signed, signed.parent / SIGNERS) != 0
    with pytest.raises(SigningError, match="does not hold"):
        require_valid(signed, signed.parent / SIGNERS)


def test_another_key_and_another_purpose_are_refused(signed: Path, key: Path, tmp_path: Path) -> None:
    other = new_key(tmp_path / "other")
    sign(signed, other)
    assert stranger(signed, tmp_path / SIGNERS) != 0
    (signed / SIGNATURE).unlink()
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", "git", signed / SUMS], check=True)
    assert stranger(signed, tmp_path / SIGNERS) != 0


def test_a_locked_key_signs_by_its_passphrase_alone(
    signed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked of the releaser, whose answer a program gives here; nothing of ours ever holds it."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "the right one", "-f", str(key)], check=True)
    answer = tmp_path / "answer"
    monkeypatch.setenv("SSH_ASKPASS", str(answer))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    for passphrase in ("the right one", "another"):
        answer.write_text(f"#!/bin/sh\necho '{passphrase}'\n")
        answer.chmod(0o700)
        if passphrase == "another":
            with pytest.raises(SigningError, match="is its passphrase right"):
                sign(signed, key)
            assert not (signed / SIGNATURE).exists()
        else:
            sign(signed, key)
            assert stranger(signed, tmp_path / SIGNERS) == 0


def test_a_key_is_announced_by_the_commit_and_never_in_the_repository(clone: Path, key: Path, tmp_path: Path) -> None:
    signers = clone / "docs" / SIGNERS
    require_announced(key, signers, clone)
    with pytest.raises(SigningError, match="does not name the key") as told:
        require_announced(new_key(tmp_path / "unknown"), signers, clone)
    assert announcement(tmp_path / "unknown").strip() in str(told.value)
    with pytest.raises(SigningError, match="lies in the repository"):
        require_announced(new_key(clone / "inside"), signers, clone)
    with pytest.raises(SigningError, match="of kind ecdsa"):
        require_announced(new_key(tmp_path / "curve", "ecdsa"), signers, clone)
    with pytest.raises(SigningError, match="ssh-keygen -t ed25519"):
        require_announced(tmp_path / "nothing", signers, clone)
    signers.write_text(signers.read_text().replace("parley-release namespaces", "# parley-release namespaces"))
    with pytest.raises(SigningError, match="does not name the key"):
        require_announced(key, signers, clone)


@pytest.mark.slow
def test_the_tag_is_the_version_and_the_tree_is_clean(clone: Path) -> None:
    found = tag_of(clone)
    assert (found.name, found.version) == (f"v{VERSION}", VERSION)
    assert str(found.seconds) == git(clone, "show", "-s", "--format=%ct", "HEAD").strip()
    (clone / "LICENSE").write_text("mine")
    with pytest.raises(ReleaseError, match=r"changes \(M LICENSE\): commit or stash"):
        tag_of(clone)
    git(clone, "checkout", "-q", "LICENSE")
    (clone / "privacy" / "new.py").touch()
    with pytest.raises(ReleaseError, match="commit or stash"):
        tag_of(clone)
    (clone / "privacy" / "new.py").unlink()
    git(clone, "tag", "v9.9.9")
    with pytest.raises(ReleaseError, match=rf"tag is v{VERSION} v9.9.9 and pyproject.toml says {VERSION}"):
        tag_of(clone)
    git(clone, "tag", "-d", f"v{VERSION}")
    with pytest.raises(ReleaseError, match=rf"tag is v9.9.9 and .* change the version there .* v{VERSION}"):
        tag_of(clone)
    git(clone, "tag", "-d", "v9.9.9")
    with pytest.raises(ReleaseError, match=rf"no version's tag .*: git tag -a v{VERSION}"):
        tag_of(clone)
    (clone / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n")
    git(clone, "commit", "-q", "-a", "-m", "no section")
    git(clone, "tag", f"v{VERSION}")
    with pytest.raises(ReleaseError, match=f"no section '## {VERSION}'"):
        tag_of(clone)


def check_libraries(wheel: Path) -> None:
    """Each is of the wheel's system and processor, and exports what its source says, and nothing else."""
    named = re.search(r"(linux|macosx).*?_((?:x86|arm|aarch)\w*)\.whl", wheel.name)
    assert named is not None
    system, machine = named.groups()
    (platform,) = (each for each in BUILD["PLATFORMS"].values() if wheel.name.endswith(f"-{each.tag}.whl"))
    with zipfile.ZipFile(wheel) as archive:
        libraries = {Path(name).stem: archive.read(name) for name in archive.namelist() if name.endswith(".so")}
    more = {"clip-avx2", "trees-avx2", "waves-avx2"} if machine == "x86_64" else set()
    more |= (
        {"kernels-wide", "products-wide", "clip-avx512", "trees-avx512", "waves-avx512"}
        if (system, machine) == ("linux", "x86_64")
        else set()
    )
    assert (
        set(libraries) == {"processor", "kernels-baseline", "clip-portable", "trees-portable", "waves-portable"} | more
    )
    for name, data in libraries.items():
        exports = functions(platform.libraries[name].source)
        assert exports, name
        if system == "linux":
            require_elf(data, machine, exports)
        else:
            require_mach_o(data, machine, exports, f"{name}.so")


@pytest.mark.slow
def test_one_tag_gives_one_wheel_for_each_platform_and_one_sdist(clone: Path, key: Path, tmp_path: Path) -> None:
    """Built twice, from two clones; what lies beside the tag's files is in neither. One release is made to its end."""
    other = tmp_path / "elsewhere" / "clone"
    git(tmp_path, "clone", "-q", str(clone), str(other))
    (other / "privacy" / "parley" / "privacy" / "ignored.pyc").touch()
    assert isinstance(release(clone, key, clone / "dist", images=False), Tag)
    first, second = clone / "dist", tmp_path / "second"
    second.mkdir()
    tag = tag_of(other)
    build_packages(export(other, tag, tmp_path / "elsewhere" / "source"), tag, second)
    names = sorted(path.name for path in first.iterdir())
    built = [name for name in names if name.endswith((".whl", ".gz"))]
    tags = sorted(name.split("-none-")[1] for name in built if name.endswith(".whl"))
    assert tags == [
        "any.whl", "macosx_11_0_arm64.whl", "macosx_11_0_x86_64.whl", "manylinux_2_28_aarch64.whl",
        "manylinux_2_28_x86_64.whl",
    ]  # fmt: skip
    assert len(built) == 6
    with zipfile.ZipFile(first / built[0]) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".so")]
    for name in built[1:5]:
        check_libraries(first / name)
    for name in built:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    assert stranger(first, clone / "docs" / SIGNERS) == 0
    document = (first / f"parley-federation-{VERSION}.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(document) is None
    told = json.loads(document)
    (wheel,) = (name for name in built if name.endswith("x86_64.whl") and "linux" in name)  # that was tried here
    digest = hashlib.sha256((first / wheel).read_bytes()).hexdigest()
    assert told["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    components = {each["name"] for each in told["components"]}
    assert {"numpy", "grpcio", "starlette", "scipy", "pyarrow", "matplotlib"} <= components
    assert not components & {"pytest", "pip", "adduser"}
