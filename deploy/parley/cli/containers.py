"""compose.yaml of one node, with its own folder and records: what `parley join --containers` writes beside node.toml.

Key, certificates and pins are secrets of the container, state is a folder on the host, and the records are mounted by
themselves, read-only. The user is the folder's owner, so that the key stays readable to one user alone.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from string import Template

from parley.cli.console import CommandError
from parley.federation.names import Role
from parley.node.invitation import Invitation
from parley.node.newcomer import USUAL_PORTS

IMAGE_USER = 10001
"""Of the images, for a folder that root made."""
SECRETS = {
    "node.key": "current/node.key",
    "node.crt": "current/node.crt",
    "authority.crt": "current/authority.crt",
    "pins.toml": "pins.toml",
}
FOLDERS = {Role.party: ("state",), Role.aggregator: ("state",), Role.coordinator: ("state", "models", "runs")}
TEXT = """\
# @name, @role of federation @federation, in a container: docs/containers.md. `parley join --containers` wrote this.
# Type these in this folder. First put @federation.members, which the lead sends, into it:
#
#   docker-compose run --rm setup join @name/@federation.members @name      # certificate and pins, once
@before#   docker-compose up -d
#   docker-compose run --rm @role doctor /node
@after#
# A newer image takes the state as it is, and there is no way back to the version before:
#
#   @variable=@image:NEW docker-compose run --rm @role doctor /node
#   @variable=@image:NEW docker-compose up -d
#
# A new certificate or a new pin is seen at the next start: docker-compose restart @role

x-node: &node
  image: ${@variable:-@image}
  user: "@user"
  read_only: true
  tmpfs: ["/tmp:size=64m,mode=1777,noexec,nosuid,nodev"]
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  pids_limit: 512
  stop_grace_period: 10s

services:
  @role:
    <<: *node
    command: [@role, run, /node]
    restart: unless-stopped
    healthcheck:
      {test: [CMD, python, -P, -m, parley.node.health, /node], interval: 30s, timeout: 10s, start_period: 60s}
    logging: {driver: json-file, options: {max-size: 10m, max-file: "3"}}
    volumes:
@volumes
    secrets:
@used
@ports
  # This node's key is made in this folder and never leaves it; nothing here reaches a network.
  setup:
    <<: *node
    profiles: [setup]
    entrypoint: [parley]
    network_mode: none
    healthcheck: {disable: true}
    working_dir: /setup
    volumes:
      - {type: bind, source: ., target: /setup/@name}

secrets:
@secrets
"""


CHECK = "#   docker-compose run --rm party schema check /node        # and after every change of the records\n"
RUN = "#   docker-compose exec coordinator parley run /node/runs/run.toml --node /node     # from the folder `runs`\n"
PUBLISHED = "    # As the others dial it; what may reach which port is for the firewall."
NOT_PUBLISHED = "    # It dials and serves nothing: no port is published.\n"


class _Text(Template):
    """With @ for names, because $ is compose's."""

    delimiter = "@"


def compose_text(invitation: Invitation, folder: Path, data: Sequence[Path]) -> str:
    """The file, for records where they are now, seen from the node's folder."""
    own, role = invitation.own, invitation.node.role
    loopback = [each for member in invitation.members for each in member.addresses.values() if each.loopback]
    if loopback:
        raise CommandError(
            f"this federation is on one machine ({loopback[0]}), which no container can dial: `make compose-up` in a "
            "clone runs one in containers"
        )
    if len({each.name for each in data}) < len(data):
        raise CommandError("two files of records have one name, and would be one file in the container: rename one")
    mounted = [(f"./{name}.toml", f"/node/{name}.toml", True) for name in ("node", "policy")]
    if role is Role.party:
        mounted.append(("./schema.toml", "/node/schema.toml", True))
    mounted += [(os.path.relpath(each, folder), f"/node/data/{each.name}", True) for each in data]
    mounted += [(f"./{each}", f"/node/{each}", each == "runs") for each in FOLDERS[role]]
    kind = "PARTY" if role is Role.party else "SERVER"
    ports = [
        f'      - "${{PARLEY_{name.upper()}:-0.0.0.0:{address.port}}}:{USUAL_PORTS[name]}"'
        for name, address in own.addresses.items()
    ]
    return _Text(TEXT).substitute(
        name=own.name,
        role=role.value,
        federation=invitation.node.federation,
        before=CHECK if role is Role.party else "",
        after=RUN if role is Role.coordinator else "",
        variable=f"PARLEY_{kind}_IMAGE",
        image=f"parley/{kind.lower()}",
        user=":".join(map(str, owner_of_new())),
        volumes="\n".join(_mount(*each) for each in mounted),
        used="\n".join(f"      - {{source: {name}, target: {name}}}" for name in SECRETS),
        ports="\n".join([PUBLISHED, "    ports:", *ports, ""]) if ports else NOT_PUBLISHED,
        secrets="\n".join(f"  {name}: {{file: ./identity/{path}}}" for name, path in SECRETS.items()),
    )


def _mount(source: str, target: str, fixed: bool) -> str:
    words = f"type: bind, source: {_quoted(source)}, target: {_quoted(target)}"
    return f"      - {{{words}, read_only: {str(fixed).lower()}}}"


def _quoted(text: str) -> str:
    """A path as YAML takes it, whatever it holds; $ would be a variable."""
    return json.dumps(text, ensure_ascii=False).replace("$", "$$").replace("\x7f", "\\u007f")


def owner_of_new() -> tuple[int, int]:
    """Who owns the folder, and so runs the container: never root."""
    return (IMAGE_USER, IMAGE_USER) if os.geteuid() == 0 else (os.geteuid(), os.getegid())


def prepare(folder: Path, role: Role) -> None:
    """The folders that the container writes; what root has made becomes its user's."""
    for name in FOLDERS[role]:
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, *owner_of_new(), follow_symlinks=False)
