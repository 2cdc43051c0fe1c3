"""What is installed apart, and the one sentence about it where it is missing.

Long-running processes do without these (a party holds 100 MB less), so they are extras; whoever needs one imports it
where it is needed, and a ModuleNotFoundError is said in these words by whoever answers the user: the command line
(`parley.cli.main`), the dashboard, a process that verifies manifests.
"""

EXTRAS = {
    **dict.fromkeys(("scipy", "dp_accounting"), "accounting"),
    **dict.fromkeys(("starlette", "uvicorn", "jinja2", "markupsafe"), "dashboard"),
    "pyarrow": "parquet",
    "matplotlib": "plots",
    **dict.fromkeys(("sqlalchemy", "psycopg"), "sql"),
    "mlflow": "mlflow",
    "tensorboard": "tensorboard",
    "onnx": "onnx",
    "fpdf": "report",
    "torch": "torch",
    "ray": "ray",
}
"""The modules of pyproject's optional dependencies that users install, and the extra that brings each."""


def missing(error: ImportError) -> str | None:
    """What to install; None where no extra brings it, which makes it a defect.

    A whole room of parley is missing only from an image, which holds what its node needs and no more.
    """
    module, _, rest = (error.name or "").partition(".")
    if module == "parley" and rest and "." not in rest:
        return f"{error.name} is not in this image: run this command where all of parley is installed"
    return install(module) if module in EXTRAS else None


def install(module: str) -> str:
    """One line for a module of `EXTRAS`."""
    return f"{module} is not installed here: {pip(module)}"


def pip(module: str) -> str:
    """The command alone."""
    return f"pip install 'parley-federation[{EXTRAS[module]}]'"
