"""What is installed apart, and the one sentence about it where it is missing.

Long-running processes do without these (a party holds 100 MB less), so they are extras; whoever needs one imports it
where it is needed, and a ModuleNotFoundError is said in these words by whoever answers the user: the command line
(`parley.cli.main`), the dashboard, a process that verifies manifests.
"""

EXTRAS = {"scipy": "accounting", "dp_accounting": "accounting", "pyarrow": "parquet", "matplotlib": "plots"}
"""The modules of pyproject's optional dependencies that users install, and the extra that brings each."""


def missing(error: ImportError) -> str | None:
    """What to install; None where no extra brings it, which makes it a defect."""
    module = (error.name or "").split(".")[0]
    return install(module) if module in EXTRAS else None


def install(module: str) -> str:
    """One line for a module of `EXTRAS`."""
    return f"{module} is not installed here: pip install 'parley-federation[{EXTRAS[module]}]'"
