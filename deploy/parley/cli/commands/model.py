"""`parley model`: an institution's own PyTorch module, looked at before any run.

parley model check hospital_models.nets:build --input 1,28,28 --outputs 10     # what it is, or what to change in it
parley model show study.toml              # its digest and size: for a policy, and for a manifest
parley model show manifest.toml --files   # each file that the digest is of; imports nothing

A manifest is somebody else's: which function of which installed package it names, and what it tells it, was written by
whoever proposes the run. So `show` imports nothing for one, and `check` runs what it names only where it is allowed.
"""

import json
import resource
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley.cli.console import CommandError, emit_json
from parley.cli.options import Json
from parley.federation.toml_text import toml_text
from parley.learning.schema import Schema, schema_from_json
from parley.learning.transforms import Extractor
from parley.models.extractor_spec import extractor_digest, extractors_of
from parley.models.module_spec import PREFIX, ModuleSpec, digest_of, digest_with, is_module
from parley.models.package_files import PackageFiles
from parley.models.registry import open_module

if TYPE_CHECKING:
    from parley.models.module import TorchModel

MOST_SHOWN = 30
"""Parameters, or files, on the screen; --json has all."""
MEGABYTE = 1 << 20
app = typer.Typer(help="Look at a PyTorch module of your own, before any run.", no_args_is_help=True)


@app.command()
def check(
    spec: Annotated[
        str, typer.Argument(metavar="SPEC", help="package.module:function, or a study or manifest that names one.")
    ],
    shape: Annotated[str | None, typer.Option("--input", help="The shape of one record, such as 1,28,28.")] = None,
    outputs: Annotated[int | None, typer.Option(help="Classes, or 1 for two classes or a number.")] = None,
    options: Annotated[str, typer.Option(help="The function's keyword arguments, as JSON.")] = "{}",
    loss: Annotated[str | None, typer.Option(help="A built-in loss, or torch:package.module:function.")] = None,
    low: Annotated[float, typer.Option(help="The least that a cell can be.")] = 0.0,
    high: Annotated[float, typer.Option(help="The most that a cell can be.")] = 1.0,
    whole: Annotated[bool, typer.Option("--whole", help="Cells are whole numbers, for an embedding.")] = False,
    device: Annotated[str, typer.Option(help="Where it computes: cpu, or cuda where torch has it.")] = "cpu",
    threads: Annotated[int, typer.Option(help="Threads of torch.", min=1)] = 1,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE", help="A module that a manifest names and whose code may run here."),
    ] = None,
    json_output: Json = False,
) -> None:
    """Import a module, build it, and try it on public rows: is it safe to train, how fast, what must be changed?

    It must be installed. Nothing of your records is read. Its code runs here, with your rights. What a manifest names,
    and the options that it gives, are somebody else's words: run it only with --allow torch:package.module:function.

    Example: parley model check parley.networks.mnist:cnn --input 1,28,28 --outputs 10
    """
    if Path(spec).is_file():
        table, schema, dimension = _of_document(Path(spec))
        found, classes = _module_of(Path(spec), table, schema), schema.outputs
        if dimension is not None and found.kind not in (allow or ()):
            raise CommandError(
                f"{spec} is a manifest, and {found.kind} would run here with the options that it gives: see `parley "
                f"model show {spec}`, and where you trust it give --allow {found.kind}"
            )
    else:
        if shape is None or outputs is None:
            raise CommandError("a module by its name needs --input and --outputs, such as --input 1,28,28 --outputs 10")
        schema = _schema(_shape(shape), outputs, loss, low, high, whole)
        kind = spec if is_module(spec) else PREFIX + spec
        told = {"kind": kind, "options": _options(options), "input": _shape(shape)}
        found, classes = ModuleSpec.of(told if loss is None else {**told, "loss": loss}, schema), schema.outputs
    model = open_module(found, classes, device=device, threads=threads)
    body = _body(model)
    if json_output:
        emit_json(body)
        return
    _say(body)
    for note in body["notes"]:
        print(f"note         {note}")


@app.command()
def show(
    document: Annotated[Path, typer.Argument(metavar="STUDY-or-MANIFEST", help="A study, or a run's manifest.")],
    files: Annotated[bool, typer.Option("--files", help="Its files instead; nothing of it is imported.")] = False,
    json_output: Json = False,
) -> None:
    """Print a module's digest, size and probe, and the lines for a policy and a manifest.

    The digest is of what the document tells the module and of its package's exact bytes, as they are installed here.
    If institutions get different ones, --files shows which file differs. The module of a study is imported and built;
    of a manifest's nothing is run.

    What makes a user's own features (a transform of the schema) is shown likewise.

    Example: parley model show study.toml. Next: read the package, and put its line under [code] in
    policy.toml
    """
    table, schema, dimension = _of_document(document)
    own = extractors_of(schema)
    if own and not is_module(table.get("kind")):
        _show_extractors(own, files, json_output)
        return
    spec, outputs = _module_of(document, table, schema), schema.outputs
    if files:
        _show_files(spec, outputs, json_output)
        return
    if dimension is not None:
        _show_proposed(spec, schema, own, dimension, json_output)
        return
    model = open_module(spec, outputs)
    body = _body(model)
    if json_output:
        emit_json(body | ({"extractors": {each.kind: extractor_digest(each) for each in own}} if own else {}))
        return
    _say(body)
    print("\npolicy.toml, of a party that allows it:\n")
    print(f'[code]\n"{model.spec.kind}" = "{model.spec.digest}"')
    for each in own:
        print(f'"{each.kind}" = "{extractor_digest(each)}"')
    print("\nmanifest, as `parley manifest draft` writes it:\n")
    print(toml_text({"model": {"dimension": model.dimension, **model.spec.body()}}))


def _show_files(spec: ModuleSpec, outputs: int, json_output: bool) -> None:
    found = PackageFiles.find(spec.module)
    digest = digest_with(spec, outputs, found)
    if json_output:
        rows = [{"name": name, "bytes": length, "sha256": each} for name, length, each in found.files]
        emit_json({"digest": digest, "expected": spec.digest, "package": found.name, "files": rows})
        return
    for name, length, each in found.files:
        print(f"{each}  {length:>12,}  {name}")
    print(f"\npackage      {found.name}, {len(found.files):,} files in {found.folder}")
    print(f"digest       {digest}")
    if spec.digest is not None:
        same = "the same" if spec.digest == digest else "NOT the same: the package or what it is told differs"
        print(f"agreed on    {spec.digest}, {same}")


def _show_proposed(spec: ModuleSpec, schema: Schema, own: list[Extractor], dimension: int, json_output: bool) -> None:
    """Of a manifest: what it says, and the digest of what is installed here. Imports nothing."""
    digest = digest_of(spec, schema.outputs)
    named = {spec.kind: digest, **{each.kind: extractor_digest(each) for each in own}}
    expected = {spec.kind: spec.digest, **{each.kind: each.digest for each in own}}
    if json_output:
        told = {"kind": spec.kind, "options": dict(spec.options), "input": list(spec.input), "loss": spec.loss}
        more = {"digest": digest, "expected": spec.digest, "dimension": dimension, "probe": list(spec.probe)}
        emit_json({**told, **more, **({"extractors": {each.kind: named[each.kind] for each in own}} if own else {})})
        return
    print(f"module       {spec.kind}, loss {spec.loss}")
    print(f"options      {json.dumps(dict(spec.options))}")
    print(f"parameters   {dimension:,} trained, the manifest says; nothing of it was run")
    for kind, found in named.items():
        same = "as the manifest says" if found == expected[kind] else f"NOT the manifest's, {expected[kind]}"
        print(f"digest       {found}, {same}")
    print("\npolicy.toml, of a node that allows it, once somebody has read the package and the options:\n\n[code]")
    print("\n".join(f'"{kind}" = "{found}"' for kind, found in named.items()))


def _module_of(path: Path, body: Mapping[str, Any], schema: Schema) -> ModuleSpec:
    """Of a document's model."""
    if not is_module(body.get("kind")):
        raise CommandError(f"{path.name} names the built-in model {body.get('kind')}: there is no code to show")
    return ModuleSpec.of(body, schema)


def _show_extractors(own: list[Extractor], files: bool, json_output: bool) -> None:
    """What makes features, where the model is built in. Imports nothing."""
    found = {each.kind: extractor_digest(each) for each in own}
    if json_output:
        emit_json({"extractors": found})
        return
    for each in own:
        print(f"extractor    {each.declaration}")
        if files:
            package = PackageFiles.find(each.kind.split(":")[1])
            print("\n".join(f"{digest}  {length:>12,}  {name}" for name, length, digest in package.files))
        if each.digest and each.digest != found[each.kind]:
            print(f"agreed on    {each.digest}, NOT the same: the package differs")
    print("\npolicy.toml, of a node that allows it:\n\n[code]")
    print("\n".join(f'"{kind}" = "{digest}"' for kind, digest in found.items()))


def _of_document(path: Path) -> tuple[Mapping[str, Any], Schema, int | None]:
    """[model] and columns of a study, or of a manifest, which a party's image can read too; and a manifest's dimension,
    which a study has not."""
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from None
    if "protocol" in table:
        from parley.federation.manifest import read_manifest

        manifest = read_manifest(path)
        body = {"kind": manifest.model.kind, **manifest.model.options.body}
        return body, schema_from_json(manifest.schema.body), manifest.model.dimension
    from parley.study.document import read

    study = read(path)
    return study.model, study.schema, None


def _schema(shape: list[int], outputs: int, loss: str | None, low: float, high: float, whole: bool) -> Schema:
    """Columns like those that a study would have, of which a module sees the shape and the bounds."""
    width = 1
    for each in shape:
        width *= each
    target: dict[str, Any] = {"name": "target", "kind": "classes", "classes": [str(each) for each in range(outputs)]}
    if outputs == 1:
        target = {"name": "target", "kind": "binary", "positive": ["1"], "negative": ["0"]}
        if loss in ("squared", "huber"):
            target = {"name": "target", "kind": "number", "low": -1.0, "high": 1.0}
    features = {"count": width, "low": low, "high": high, "whole": whole}
    return schema_from_json({"features": features, "target": target, "bits": 8})


def _shape(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise CommandError(f"--input is {text!r}: give whole numbers with commas, such as 1,28,28") from None


def _options(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise CommandError(f"--options is {text!r}: give a JSON object, such as '{{\"width\": 16}}'")
    return found


def _body(model: "TorchModel") -> dict[str, Any]:
    import torch

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    notes = list(model.findings.notes)
    if model.findings.place_matters:
        notes.append("a gradient's last bits differ with a record's place in a chunk, which harms nobody")
    return {
        "kind": model.spec.kind,
        "digest": model.spec.digest,
        "dimension": model.dimension,
        "parameters": [[name, list(shape)] for name, shape in model.parameters],
        "probe": list(model.spec.probe),
        "loss": model.spec.loss,
        "route": model.route,
        "routes": model.findings.routes,
        "records_per_second": model.records_per_second,
        "chunk": model.chunk,
        "device": model.device,
        "threads": model.threads,
        "memory_bytes": peak * (1 if sys.platform == "darwin" else 1024),
        "gradient_bytes": 2 * 4 * model.chunk * model.dimension,
        "torch": torch.__version__,
        "notes": notes,
    }


def _say(body: dict[str, Any]) -> None:
    print(f"module       {body['kind']}, loss {body['loss']}")
    print(f"digest       {body['digest']}")
    print(f"parameters   {body['dimension']:,} trained")
    for name, shape in body["parameters"][:MOST_SHOWN]:
        print(f"             {name}  {' x '.join(str(each) for each in shape) or 'one number'}")
    if len(body["parameters"]) > MOST_SHOWN:
        print(f"             and {len(body['parameters']) - MOST_SHOWN:,} more")
    print(f"route        {body['route']}" + "".join(f"; {name} {said}" for name, said in body["routes"].items()))
    where = f"{body['device']}, torch {body['torch']}"
    print(f"isolation    a hostile record left all others of its chunk bit-equal ({where})")
    print(
        f"speed        {body['records_per_second']:,.0f} records/s at one point, {body['threads']} thread(s), "
        f"chunks of {body['chunk']}"
    )
    most, kept = body["memory_bytes"] / MEGABYTE, body["gradient_bytes"] / MEGABYTE
    print(f"memory       {most:,.0f} MB at most so far, {kept:,.1f} MB of it for a chunk's gradients at two points")
