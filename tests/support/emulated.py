"""Python on processors that this machine has not, by QEMU's user-mode emulation (Debian's qemu-user).

For ARM a Debian of its own is unpacked into a folder, by apt and dpkg-deb without touching this machine's packages, and
the wheel for ARM is installed beside it with what it needs, as pip would there.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tools.wheels import build_wheel

ROOT = Path(__file__).parents[2]
WITHOUT_AES = "max,-aes,-pclmulqdq,-vaes,-vpclmulqdq,-fma"
"""QEMU 7.2 computes some fused multiply-adds of x86-64 wrongly; without them (and with the least of OpenBLAS's kernels,
which otherwise uses them unasked) it agrees with hardware."""
GLIBCS = (17, 24, 26, 27, 28, 31, 34)
"""Minor versions of glibc 2 that wheels are marked for."""


@dataclass(frozen=True)
class Machine:
    """How a program is started there."""

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)

    def python(self, *words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self.command, *words], cwd=cwd, env=self._environment(), capture_output=True, text=True, check=False
        )

    def started(self, *words: str, cwd: Path) -> "subprocess.Popen[str]":
        """The same, that goes on beside."""
        return subprocess.Popen(
            [*self.command, *words], cwd=cwd, env=self._environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1", **self.environment}


def emulator(processor: str) -> str:
    """QEMU's for that processor, from qemu-user or qemu-user-static; nothing where neither is installed."""
    return shutil.which(f"qemu-{processor}") or shutil.which(f"qemu-{processor}-static") or ""


def intel_without_aes() -> Machine:
    """This installation, on an x86-64 processor without AES-NI and PCLMUL."""
    command = (emulator("x86_64"), "-cpu", WITHOUT_AES, sys.executable)
    return Machine(command, {"OPENBLAS_CORETYPE": "Nehalem"})


def arm(folder: Path) -> Machine:
    """Debian's Python for ARM, and the wheel for ARM, in this folder."""
    system, site = folder / "system", folder / "site"
    _unpack(folder / "apt", system)
    wheel = build_wheel(ROOT, folder, "linux-aarch64")
    (python,) = (each for each in (system / "usr" / "bin").glob("python3.*") if each.name.count(".") == 1)
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(site), "--only-binary=:all:"]
    command += [f"--python-version={python.name.removeprefix('python')}", "--implementation=cp"]
    command += [f"--platform=manylinux_2_{each}_aarch64" for each in GLIBCS] + ["--platform=manylinux2014_aarch64"]
    subprocess.run([*command, f"{wheel}[study]", "pytest", "hypothesis"], check=True, capture_output=True)
    return Machine((emulator("aarch64"), "-L", str(system), str(python)), {"PYTHONPATH": str(site)})


HIDDEN = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/auxv.h>
unsigned long getauxval(unsigned long kind) {
    unsigned long (*real)(unsigned long) = (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT, "getauxval");
    return kind == AT_HWCAP ? real(kind) & ~24ul : real(kind);
}
"""
"""AES and PMULL are bits 3 and 4 of what Linux says of an ARM."""


def without_aes(machine: Machine, folder: Path) -> Machine:
    """That ARM, as if Linux had said that it has neither AES nor PMULL."""
    (folder / "hidden.c").write_text(HIDDEN)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-gnu.2.28", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", "hidden.so", "hidden.c"], cwd=folder, check=True, capture_output=True)
    started, *rest = machine.command
    return Machine((started, "-E", f"LD_PRELOAD={folder / 'hidden.so'}", *rest), machine.environment)


def _unpack(place: Path, system: Path) -> None:
    """What apt would install for a Python on an empty ARM machine of this Debian."""
    for each in ("state/lists/partial", "cache/archives/partial"):
        (place / each).mkdir(parents=True)
    (place / "status").touch()
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Dir::State": place / "state",
        "Dir::State::status": place / "status",
        "Dir::Cache": place / "cache",
    }
    apt = ["apt-get", "-q", "-y", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    subprocess.run([*apt, "update"], check=True, capture_output=True)
    wanted = ("install", "--no-install-recommends", "--download-only", "python3", "libstdc++6")
    subprocess.run([*apt, *wanted], check=True, capture_output=True)
    for package in sorted((place / "cache" / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, system], check=True)


def missing(processor: str, *programs: str) -> str:
    """What is not here and has to be, or nothing."""
    absent = [] if emulator(processor) else [f"qemu-{processor} (apt-get install qemu-user)"]
    return ", ".join([*absent, *(each for each in programs if shutil.which(each) is None)])
