"""study.toml: the one document of a study, read by `simulate`, `manifest draft`, `doctor`, `study plan` and Python.

    run = "heart-1"                     names of the run and of its federation, once there is one
    federation = "cardio"
    start = "model.npz"                 a public model file that runs start from
    [model]  [algorithm]                kind and options; name and parameters
    [privacy]                           epsilon, delta, and perhaps accountant and worst_epsilon
    [regulariser]                       kind and weight
    [schema]                            the columns; without it all those of [data] schema, and an intercept
    [data]                              files of records: parley.study.files
    [noise]                             cover, precision, security, own, audit
    [rounds]                            minimum_parties, deadline_seconds, stop_early, uploads
    [[parties]]                         name, units: the public size of each data set; legal_entity, contact
    [[aggregators]]  [coordinator]      name, legal_entity, contact
    [legal]                             purpose, legal_basis, ethics_number, expires, retention

docs/study.md explains every key. Whatever a command does not need may be left out.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley.federation.fields import Fields
from parley.federation.files import file_bytes, toml_table
from parley.federation.toml_text import toml_text
from parley.learning.errors import SchemaError
from parley.learning.located import in_lines
from parley.learning.schema import Schema, schema_from_json
from parley.study.columns import columns_of
from parley.study.content import arguments_of, tables_of
from parley.study.errors import Collected, DocumentError, StudyError
from parley.study.files import Files

if TYPE_CHECKING:
    from parley.study.study import Study

COLUMNS = ("schema", "data", "start")
"""What is not `parley.study.content`'s."""


def read(path: Path | str) -> "Study":
    """A study from its file, with all that is wrong with it said at once.

    >>> study.read("study.toml")
    Study(logistic of 'num' on 12 columns, auto, epsilon 1)
    """
    path = Path(path)
    text = file_bytes(path, lambda what: StudyError(f"{path.name} {what}"))
    body = toml_table(text, lambda what: StudyError(f"{path.name} {what}"))
    return parse(body, path, text.decode())


def parse(body: dict[str, Any], path: Path, text: str) -> "Study":
    """The same of a table; its files are looked for from the folder of `path`, and errors' lines in `text`."""
    from parley.study.study import Study

    rest = {name: value for name, value in body.items() if name not in COLUMNS}
    wrong = Collected()
    data = wrong.look(lambda: Files.of(body["data"], path.parent)) if "data" in body else None
    columns = wrong.look(lambda: _columns(body, data, text))
    arguments = wrong.look(lambda: arguments_of(Fields(rest, "", DocumentError)))
    start = wrong.look(lambda: path.parent / Fields(body, "", DocumentError).text("start")) if "start" in body else None
    wrong.finish()
    assert columns is not None
    assert arguments is not None
    return Study(columns[0], layout=columns[1], data=data, start=start, **arguments)


def _columns(body: dict[str, Any], data: Files | None, text: str) -> tuple[Schema, Any]:
    told, layout = (None, None) if data is None or data.schema is None else columns_of(data.schema)
    if "schema" in body:
        free = Fields(body, "", DocumentError).free("schema").body
        try:
            return schema_from_json(free), layout
        except SchemaError as error:
            raise DocumentError("schema", in_lines(error, text)) from None
    if told is None:
        raise DocumentError("schema", "is missing, add it, or name a schema.toml in [data]")
    return told, layout


def write(study: "Study", path: Path) -> None:
    """The file, with paths of records from its own folder."""
    if study.layout is not None and (study.data is None or study.data.schema is None):
        raise StudyError("what the files look like is in no schema.toml: name one in [data], or give no layout")
    arguments = {name: getattr(study, name) for name in study.arguments()}
    body = {
        **({} if study.start is None else {"start": os.path.relpath(study.start, path.resolve().parent)}),
        **tables_of(arguments),
        "schema": {name: value for name, value in study.schema.as_json().items() if value is not None},
        **({} if study.data is None else {"data": study.data.as_json(path.resolve().parent)}),
    }
    head = "# A study: docs/study.md says what every key means.\n\n"
    try:
        path.write_text(head + toml_text(body) + "\n")
    except OSError as error:
        raise StudyError(f"{path} cannot be written: {error.strerror}") from None
