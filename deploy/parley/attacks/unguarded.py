"""Run a module of the product as a process from which guards are taken away: for attacks whose victims are processes.

    python -m parley.attacks.unguarded GUARD[,GUARD…] MODULE ARGUMENT…

`MODULE` runs as `python -m MODULE ARGUMENT…` would. A guard that stands in MODULE itself cannot be taken away so: as
the main module it is loaded a second time.
"""

import runpy
import sys
from collections.abc import Sequence

from parley.attacks.kinds import Guard, removed
from parley.attacks.registry import guards
from parley.cli.console import fail


def command(without: Sequence[Guard], module: str, *arguments: str) -> list[str]:
    """What to start: the module itself where no guard is taken away."""
    if not without:
        return [sys.executable, "-P", "-m", module, *arguments]
    names = ",".join(guard.name for guard in without)
    return [sys.executable, "-P", "-m", "parley.attacks.unguarded", names, module, *arguments]


def main() -> None:
    if len(sys.argv) < 3:
        fail("give the guards, a module and its arguments: python -m parley.attacks.unguarded GUARD MODULE …")
    names, module, *arguments = sys.argv[1:]
    known = guards()
    if unknown := [name for name in names.split(",") if name not in known]:
        fail(f"no guard is called {', '.join(unknown)}: see parley audit attacks --list")
    chosen = [known[name] for name in names.split(",")]
    if module in {guard.target.partition(":")[0] for guard in chosen}:
        fail(f"a guard of {module} cannot be taken away where that is the main module: start another one")
    sys.argv = [module, *arguments]
    with removed(*chosen):
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
