"""Asks a registry whether what is installed here has known vulnerabilities: `make audit`, in CI.

python -m tools.audit [--seconds 180] [-- what pip-audit is given instead of the defaults]

Ends within that time. A registry that cannot be reached, or knows none of our packages, is said and is no failure; one
that knows some of them and not others is: a package nobody looked at must not pass for a clean one.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field

from parley.node.software import DISTRIBUTION

SECONDS = 180.0
SOCKET_SECONDS = 10
UNREACHABLE = ("ConnectionError", "ConnectTimeout", "ReadTimeout", "Could not connect", "NameResolutionError")


@dataclass
class Findings:
    """What the registry said of every package."""

    clean: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    vulnerable: list[str] = field(default_factory=list)


def ask(seconds: float, words: list[str]) -> tuple[int, str, str] | None:
    """Exit code, standard output and standard error of pip-audit; None if it took too long, and it has ended then."""
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off"]
    command += ["--timeout", str(SOCKET_SECONDS), *(words or ["--local", "--skip-editable"])]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None
    return process.returncode, out, err


def findings(report: str) -> Findings:
    """Of the report in JSON, without parley itself."""
    found = Findings()
    for package in json.loads(report)["dependencies"]:
        if package["name"] == DISTRIBUTION:
            continue
        if "skip_reason" in package:
            found.unknown.append(package["name"])
        elif package["vulns"]:
            mended = {version for each in package["vulns"] for version in each["fix_versions"]}
            names = ", ".join(each["id"] for each in package["vulns"])
            advice = f"install {' or '.join(sorted(mended))}" if mended else "no version mends it"
            found.vulnerable.append(f"{package['name']} {package['version']}: {names}: {advice}")
        else:
            found.clean.append(package["name"])
    return found


def judge(seconds: float, words: list[str]) -> tuple[int, str]:
    """Exit code, and what to say."""
    answer = ask(seconds, words)
    if answer is None:
        return 0, f"audit skipped: the registry did not answer within {seconds:g} s"
    code, out, err = answer
    try:
        found = findings(out)
    except (ValueError, KeyError):
        last = err.strip().splitlines()[-1:] or [f"exit code {code}"]
        if any(each in err for each in UNREACHABLE):
            return 0, "audit skipped: the registry cannot be reached from here"
        return 1, f"pip-audit failed: {last[0]}"
    if found.vulnerable:
        return 1, "known vulnerabilities:\n  " + "\n  ".join(found.vulnerable)
    if not found.clean:
        return 0, f"audit skipped: the registry knows none of {len(found.unknown)} packages"
    if found.unknown:
        return 1, f"the registry knows nothing of {', '.join(found.unknown)}: ask one that does"
    return 0, f"no known vulnerabilities in {len(found.clean)} packages"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.audit")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("words", nargs="*")
    chosen = parser.parse_args()
    code, text = judge(chosen.seconds, chosen.words)
    print(text)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
