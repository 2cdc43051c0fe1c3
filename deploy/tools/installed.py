"""Lists the software of the interpreter that runs it, as JSON: Python packages, and Debian's where there are any.

    python - < installed.py        # also in an image: docker run -i --entrypoint python IMAGE - < installed.py

Standard library only: it runs where nothing else of ours is.
"""

import json
import platform
from importlib.metadata import Distribution, distributions
from pathlib import Path

DPKG = Path("/var/lib/dpkg/status")


def python_package(found: Distribution) -> dict[str, object]:
    """Name, version, licence as it is declared, and what it requires (with markers)."""
    told = found.metadata
    return {
        "name": told["Name"],
        "version": found.version,
        "license": "".join(told.get_all("License-Expression") or []),
        "licenses": [each.split(" :: ")[-1] for each in told.get_all("Classifier") or [] if each.startswith("License")],
        "requires": list(found.requires or []),
    }


def debian_packages() -> list[dict[str, str]]:
    """Those that are installed, of the database that the base image came with."""
    if not DPKG.exists():
        return []
    found = []
    for entry in DPKG.read_text().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in entry.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status", "").endswith(" installed"):
            found.append(
                {"name": fields["Package"], "version": fields["Version"], "architecture": fields["Architecture"]}
            )
    return found


if __name__ == "__main__":
    packages = [python_package(each) for each in distributions()]
    print(json.dumps({"python": platform.python_version(), "packages": packages, "debian": debian_packages()}))
