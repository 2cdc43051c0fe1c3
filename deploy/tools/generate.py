"""Generates the wire's Python code from proto/, in place; `--check` compares instead and fails on a difference.

python -m tools.generate [--check]
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROTO = ROOT / "proto"


def generate(target: Path) -> None:
    """Run protoc on every .proto, writing below `target`."""
    from grpc_tools import protoc

    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.glob("parley/v1/*.proto"))
    arguments = ["protoc", f"-I{PROTO}", f"--python_out={target}", f"--pyi_out={target}", f"--grpc_python_out={target}"]
    if protoc.main(arguments + sources):
        raise SystemExit("protoc failed")


def differing() -> list[str]:
    """Generated files that are missing, stale or left over."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh = {path.name: path.read_bytes() for path in Path(folder, "parley/v1").iterdir()}
    kept = {path.name: path.read_bytes() for path in (PROTO / "parley/v1").glob("*_pb2*")}
    return sorted(name for name in fresh.keys() | kept.keys() if fresh.get(name) != kept.get(name))


def main() -> None:
    if "--check" not in sys.argv[1:]:
        generate(PROTO)
    elif names := differing():
        raise SystemExit(f"generated code is stale: {', '.join(names)}; run `make generate`")


if __name__ == "__main__":
    main()
