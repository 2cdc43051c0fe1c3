"""Compiles kernels.c for both kinds of processor and products.c for the newer one, with the `ziglang` wheel's compiler.

Run by hatchling when the package is built or installed (also in editable mode); by hand after a change to a .c file:

    python mpc/parley/mpc/native/build.py
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand
    BuildHookInterface = object

HERE = Path(__file__).parent
TARGET = "x86_64-linux-gnu.2.28"
PROCESSORS = {
    "baseline": "x86_64_v2+aes+pclmul",
    "wide": "x86_64_v4+aes+pclmul+vaes+vpclmulqdq+gfni",
}
LIBRARIES = {
    "kernels-baseline": ("kernels.c", PROCESSORS["baseline"]),
    "kernels-wide": ("kernels.c", PROCESSORS["wide"]),
    "products-wide": ("products.c", "x86_64_v4+avx512vnni"),
}


def compile_kernels() -> None:
    """Every library, beside this file."""
    for name, (source, processor) in LIBRARIES.items():
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, "-P", "-m", "ziglang", "cc", "-O3", "-std=c11", "-shared", "-fPIC"]
            command += ["-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-g0", "-s"]
            command += ["-target", TARGET, f"-mcpu={processor}", "-o", str(HERE / f"{name}.so"), str(HERE / source)]
            environment = {"ZIG_LOCAL_CACHE_DIR": cache, "ZIG_GLOBAL_CACHE_DIR": cache}
            subprocess.run(command, check=True, env={**os.environ, **environment})


class KernelBuildHook(BuildHookInterface):  # type: ignore[misc]
    """Hatchling's entry: compile, and mark the wheel as one for this platform (any Python: the kernels use ctypes)."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name == "wheel":
            compile_kernels()
            build_data["pure_python"] = False
            build_data["tag"] = "py3-none-manylinux_2_28_x86_64"


if __name__ == "__main__":
    compile_kernels()
