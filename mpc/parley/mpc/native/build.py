"""Compiles the kernels with the `ziglang` wheel's compiler, for this machine or for any other of PLATFORMS.

Run by hatchling when the package is built or installed (also in editable mode); by hand after a change to a .c file:

    python mpc/parley/mpc/native/build.py

A wheel for another platform than this machine's: PARLEY_PLATFORM=macos-arm64 python -m build --wheel
All of them, and one without kernels: make wheels
"""

import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand
    BuildHookInterface = object

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Library:
    """One of native/*.so, by the name that Python loads it by (on a Mac as well)."""

    source: str
    processor: str
    """What the compiler may assume"""


@dataclass(frozen=True)
class Platform:
    """What a wheel is for."""

    target: str
    """As zig names it, with the oldest system that the libraries run on"""
    tag: str
    libraries: dict[str, Library]


INTEL = {
    "processor": Library("processor.c", "x86_64"),
    "kernels-baseline": Library("kernels.c", "x86_64_v2+aes+pclmul"),
    "clip-avx2": Library("clip.c", "x86_64_v2+avx2+fma"),
    "clip-portable": Library("clip.c", "x86_64"),
    "trees-avx2": Library("trees.c", "x86_64_v2+avx2"),
    "trees-portable": Library("trees.c", "x86_64"),
    "waves-avx2": Library("waves.c", "x86_64_v2+avx2"),
    "waves-portable": Library("waves.c", "x86_64"),
}
WIDE = {  # for servers: a Mac with such a processor runs the others
    "kernels-wide": Library("kernels.c", "x86_64_v4+aes+pclmul+vaes+vpclmulqdq+gfni"),
    "products-wide": Library("products.c", "x86_64_v4+avx512vnni"),
    "clip-avx512": Library("clip.c", "x86_64_v4"),
    "trees-avx512": Library("trees.c", "x86_64_v4"),
    "waves-avx512": Library("waves.c", "x86_64_v4"),
}
ARM = {
    "processor": Library("processor.c", "generic"),
    "kernels-baseline": Library("kernels.c", "generic+aes"),
    "clip-portable": Library("clip.c", "generic"),
    "trees-portable": Library("trees.c", "generic"),
    "waves-portable": Library("waves.c", "generic"),
}
PLATFORMS = {
    "linux-x86_64": Platform("x86_64-linux-gnu.2.28", "manylinux_2_28_x86_64", INTEL | WIDE),
    "linux-aarch64": Platform("aarch64-linux-gnu.2.28", "manylinux_2_28_aarch64", ARM),
    "macos-arm64": Platform("aarch64-macos.11.0", "macosx_11_0_arm64", ARM),
    "macos-x86_64": Platform("x86_64-macos.11.0", "macosx_11_0_x86_64", INTEL),
    "any": Platform("", "any", {}),
}
"""The last is pure Python, for whatever is not in this table: all but aggregators run there."""


def this_machine() -> str:
    """Its name in PLATFORMS, if it is one of them."""
    system = {"darwin": "macos"}.get(sys.platform, sys.platform)
    return f"{system}-{platform.machine()}"


def compile_kernels(name: str, folder: Path) -> list[Path]:
    """Every library of a platform; none for a machine that is not in PLATFORMS, where all but noise runs."""
    if name not in PLATFORMS:
        return []
    made = []
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "ZIG_LOCAL_CACHE_DIR": cache, "ZIG_GLOBAL_CACHE_DIR": cache}
        for library, what in PLATFORMS[name].libraries.items():
            command = [sys.executable, "-P", "-m", "ziglang", "cc", "-O3", "-std=c11", "-shared", "-fPIC"]
            command += ["-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-g0", "-s"]
            command += ["-target", PLATFORMS[name].target, f"-mcpu={what.processor}"]
            command += ["-o", f"{library}.so", str(HERE / what.source)]  # a Mac's library holds the name given here
            subprocess.run(command, check=True, env=environment, cwd=folder)
            made.append(folder / f"{library}.so")
    return made


class KernelBuildHook(BuildHookInterface):  # type: ignore[misc]
    """Hatchling's entry: compile, and mark the wheel as one for its platform (any Python: the kernels use ctypes)."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        if version == "editable":
            compile_kernels(this_machine(), HERE)
            return
        name = os.environ.get("PARLEY_PLATFORM") or this_machine()
        if name not in PLATFORMS and "PARLEY_PLATFORM" in os.environ:
            raise ValueError(f"PARLEY_PLATFORM is {name!r}: use one of {', '.join(PLATFORMS)}")
        self.folder = tempfile.TemporaryDirectory()  # beside the tree, which may hold this machine's own
        for path in compile_kernels(name, Path(self.folder.name)):
            build_data["force_include"][str(path)] = f"parley/mpc/native/{path.name}"
        if name in PLATFORMS:
            build_data["pure_python"] = not PLATFORMS[name].libraries
            build_data["tag"] = f"py3-none-{PLATFORMS[name].tag}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if folder := getattr(self, "folder", None):
            folder.cleanup()


if __name__ == "__main__":
    compile_kernels(this_machine(), HERE)
