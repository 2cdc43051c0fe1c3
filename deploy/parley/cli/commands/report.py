"""`parley report`: what a data-protection officer reads of a run, signed by the node that says it.

parley report hospital-a -o report.html                      # the newest run, for a browser and for paper
parley report hospital-a --run heart-1 -o report.pdf -o report.json
parley report verify report.html                             # on any machine: no node is needed
parley report verify report.html --pin 02:3f1a:…             # is it this node's key that signed it?

`verify` exits with 0 where everything holds, with 1 where a report was altered or another key signed it than the one
given, and with 2 for a file that is no report.
"""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from parley.cli.console import EXIT_BAD_NEWS, emit_json, fail
from parley.cli.options import Json, NodeFolder


class NodeOrCommand(TyperGroup):
    """`parley report NODE` is `parley report make NODE`."""

    default = "make"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [self.default, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(help="Make a run's signed report, or verify one.", no_args_is_help=True, cls=NodeOrCommand)
Outputs = Annotated[
    list[Path],
    typer.Option("--output", "-o", metavar="FILE", help="report.html, report.pdf or report.json; repeatable."),
]


@app.callback()
def _group() -> None:
    """Make a run's signed report, or verify one. `parley report NODE` is short for `parley report make NODE`."""


@app.command()
def make(
    node: NodeFolder,
    output: Outputs,
    run: Annotated[str | None, typer.Option(help="The run's name; the newest one where none is given.")] = None,
    json: Json = False,
) -> None:
    """Write what this node knows of a run on two pages, signed with its key: for a data-protection officer.

    At every role. The figures that are for this institution's eyes alone are not in it. A PDF needs the extra `report`.

    Example: parley report make hospital-a -o report.html, of which `make` may be left out. Next: parley report verify
    """
    from parley.cli.reports import signed_report
    from parley.report.check import FORMS
    from parley.report.content import fingerprint

    wanted = {path: _form(path) for path in output}
    report = signed_report(node, run)
    files = {path: FORMS[form](report) for path, form in wanted.items()}
    for path, data in files.items():
        _write(path, data)
    if json:
        body = {"run": report.content["run"]["run"], "key_fingerprint": fingerprint(report.key)}
        emit_json({**body, "files": [str(path) for path in files]})
        return
    for path in files:
        print(path)
    print(f"run      {report.content['run']['run']}\nkey      {fingerprint(report.key)}")
    print(f"next     whoever gets it: parley report verify {next(iter(files))} --pin KEY, with the pin of this node")


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A report, in any of its forms.")],
    pin: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The node's pin, as `parley node show` prints it there, or SHA-256:… of it."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Draw the signed content anew, in any form.")
    ] = None,
    json: Json = False,
) -> None:
    """Check a report on any machine: its signature, that it shows what was signed, and the aggregators' words in it.

    It names a key; --pin says whose. Of a PDF the attached content is checked, and the pages are drawn again and
    compared byte for byte, which needs the versions of the extra `report` that made it. Exit code 1 if a report was
    altered, if another key signed it than the one given, or if a PDF's pages cannot be compared.

    Example: parley report verify report.html --pin 02:3f1a:…
    """
    from parley.report.check import FORMS, opened, verified
    from parley.report.content import fingerprint
    from parley.report.errors import PagesError, TamperedError
    from parley.report.words import cut

    wanted = _pinned(pin)
    data = _data(file)
    body: dict[str, Any] = {"verdict": "good", "key_fingerprint": None, "key_is_the_pin": None, "what": []}
    try:
        form, report = opened(data)
        body |= {"form": form, "key_fingerprint": fingerprint(report.key)}
        if output is not None:
            _write(output, FORMS[_form(output)](report))
        body["what"] = list(verified(data).what)
    except PagesError as error:
        body |= {"verdict": "content only", "what": [str(error)]}
    except TamperedError as error:
        body |= {"verdict": "altered", "what": [str(error)]}
    if wanted is not None and body["key_fingerprint"] is not None:
        body["key_is_the_pin"] = wanted == body["key_fingerprint"]
        if not body["key_is_the_pin"] and body["verdict"] == "good":
            body["verdict"] = "another key"
    if body["verdict"] != "altered":
        found = report.content
        said = {"node": found["node"]["identity"], "run": found["run"]["run"], "made": found["made"]}
        body |= {name: cut(str(text), 200) for name, text in said.items()}  # anybody may have signed it
    if json:
        emit_json(body)
    else:
        _show(body)
    if body["verdict"] != "good":
        raise SystemExit(EXIT_BAD_NEWS)


def _show(body: dict[str, Any]) -> None:
    titles = {
        "good": "good     everything holds",
        "altered": "ALTERED  do not rely on this file",
        "content only": "CONTENT ONLY  do not rely on the pages",
    }
    print(titles.get(body["verdict"], "ANOTHER KEY than the one given has signed this report"))
    for line in body["what"]:
        print(f"         {line}")
    if body["verdict"] != "altered":
        print(f"says     {body['node']}, of run {body['run']}, made {body['made']}")
    if body["key_fingerprint"] is not None:
        print(f"key      {body['key_fingerprint']}")
        known = {None: "not compared: give --pin, or compare it with `parley node show` there", True: "it is the pin"}
        print(f"         {known.get(body['key_is_the_pin'], 'it is NOT the pin that was given')}")


def _pinned(text: str | None) -> str | None:
    """The fingerprint of the key that is given, as a pin or as that."""
    if text is None:
        return None
    if text.upper().startswith("SHA-256:"):
        return f"SHA-256:{text[8:].replace(':', '').lower()}"
    from parley.node.pins import parse_key
    from parley.report.content import fingerprint

    return fingerprint(parse_key(text))


def _form(path: Path) -> str:
    from parley.report.check import FORMS

    form = path.suffix.removeprefix(".").lower()
    if form not in FORMS:
        fail(f"{path} has no ending that says what to write: call it .html, .pdf or .json")
    if path.exists():
        fail(f"{path} is there already and is not overwritten: choose another name")
    return form


def _data(file: Path) -> bytes:
    from parley.federation.files import endless
    from parley.report.signed import MOST_BYTES

    if endless(file):
        fail(f"{file} is no regular file: give a report")
    try:
        with file.open("rb") as opened:
            return opened.read(MOST_BYTES + 1)
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}")


def _write(path: Path, data: bytes) -> None:
    try:
        with path.open("xb") as file:
            file.write(data)
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}")
