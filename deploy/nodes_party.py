"""A party's process: node.toml, the ready line, signals. Nothing is served; what it does is in `party.client`.

NODE/node.toml        role = "party"
                      coordinator = "lead@lead.example:7400"    # name of its certificate @ address
                      [aggregators]
                      north = "north.example:7401"
                      south = "south.example:7401"
                      [data]
                      files = ["records.csv"]
                      population = "patients"
                      [budget]
                      epsilon = 4.0
                      delta = 1e-4
"""

import json
import re
import signal
import tomllib
from pathlib import Path

from parley.federation import logs
from parley.federation.credentials import NodeFolder
from parley.federation.errors import FieldError, ManifestError, PolicyError
from parley.federation.fields import Fields
from parley.federation.manifest import Manifest
from parley.federation.names import LABEL_RULE, Role, is_label
from parley.federation.policy import PartyPolicy, read_policy

from deploy import metering
from deploy.errors import DeployError
from deploy.node_file import read_node
from deploy.run_file import build_model
from party.client.client import PartyClient
from party.client.settings import Settings
from party.errors import PartyError
from party.models import Model
from party.schema import Schema, schema_from_json
from privacy.filters import Cap

ADDRESS = re.compile(r"([A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}")
LARGEST_BUDGET = 1e6


class NodeFileError(FieldError):
    """A node.toml that cannot be followed."""


def read_settings(node: Path) -> Settings:
    """NODE/node.toml, strictly: an unknown field is an error, for it might have meant something."""
    path = node / "node.toml"
    try:
        body = tomllib.loads(path.read_text())
    except OSError as error:
        raise NodeFileError("node.toml", f"cannot be read ({error.strerror}): `parley init` writes one") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NodeFileError("node.toml", f"is not TOML, mend the syntax: {error}") from None
    document = Fields(body, "", NodeFileError)
    document.choice("role", (Role.party.value,))
    coordinator, address = _coordinator(document, node / "policy.toml")
    aggregators = dict(document.text_by_label("aggregators"))
    for name, target in aggregators.items():
        if ADDRESS.fullmatch(target) is None:
            raise document.refuse(f"aggregators.{name}", f'is {target!r}: write "host:port"')
    data, budget = document.table("data"), document.table("budget")
    document.has("metrics")  # `run` reads it
    settings = Settings(
        NodeFolder(node / "identity"),
        node / "policy.toml",
        node / "state",
        coordinator,
        address,
        aggregators,
        tuple(node / name for name in data.lines("files")),
        data.text("population"),
        Cap(budget.number("epsilon", 0, LARGEST_BUDGET), budget.number("delta", 0, 0.5)),
    )
    for table in (data, budget, document):
        table.finish()
    return settings


def _coordinator(document: Fields, policy: Path) -> tuple[str, str]:
    """`name@host:port`; or `host:port`, where the policy knows exactly one coordinator."""
    name, at, address = document.text("coordinator").rpartition("@")
    if ADDRESS.fullmatch(address) is None or (at and not is_label(name)):
        raise document.refuse("coordinator", f'write "name@host:port", the name {LABEL_RULE}')
    if at:
        return name, address
    try:
        known = read_policy(policy)
    except PolicyError:
        known = None
    if not isinstance(known, PartyPolicy) or len(known.coordinators) != 1:
        raise document.refuse("coordinator", 'names no coordinator: write "name@host:port", as its certificate has it')
    return next(iter(known.coordinators)), address


def vocabulary(manifest: Manifest) -> tuple[Schema, Model]:
    """What this installation has built in; a ManifestError names what it does not know."""
    try:
        schema = schema_from_json(manifest.schema.body)
    except (PartyError, TypeError, ValueError) as error:
        raise ManifestError("schema", str(error)) from None
    try:
        return schema, build_model({"kind": manifest.model.kind, **manifest.model.options.body}, schema)
    except (PartyError, DeployError, TypeError, ValueError) as error:
        raise ManifestError("model", str(error)) from None


def run(node: Path) -> None:
    """Until SIGTERM or SIGINT; a restart takes up what was under way."""
    settings = read_settings(node)
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    identity = settings.identity.load().name
    name = identity.name
    logs.configure(Role.party, name, folder=settings.state)
    metering.start(read_node(node), identity)
    client = PartyClient(settings, vocabulary)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: client.stop())
    print(json.dumps({"ready": True, "role": "party", "name": name}), flush=True)
    client.serve()
