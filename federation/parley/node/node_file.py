"""node.toml: where a node listens, whom it dials, which data it has. Read strictly, before anything else is touched.

    # party                              # aggregator                         # coordinator
    role = "party"                       role = "aggregator"                  role = "coordinator"
    coordinator = "lead@host:7400"       [listen]                             listen = "0.0.0.0:7400"
    [aggregators]                        share = "0.0.0.0:7401"               [aggregators]      # control ports
    north = "host:7401"                  control = "0.0.0.0:7402"             north = "host:7402"
    south = "host:7401"                  peer = "0.0.0.0:7403"   # B only     south = "host:7402"
    [data]                               [peer]                               [evaluation]       # public, optional
    files = ["records.csv"]              name = "south"                       files = ["test.csv"]
    schema = "schema.toml"               address = "host:7403"   # A only     schema = "test.toml"
    population = "patients"
    [budget]                             [noise]          # optional         [budget]           # optional
    epsilon = 4.0                        cover = "strips"                     epsilon = 10.0     # the default
    delta = 1e-4                         precision = "standard"               delta = 1e-3       # the default
                                         capacity = 1_048_576  # samples held in memory
                                         workers = "auto"      # or 1 to 16
    [log]                                # every role, optional
    level = "info"                       # the default; debug, info, warning, error
    file = false                         # the default; true: also NODE/state/log.jsonl, rotated
    [notify]                             # every role, optional: parley.node.notify_settings
    url = "https://chat.example.org/hooks/8d1c"
    [compute]                            # party, optional: parley.node.compute_settings
    backend = "ray"
    workers = 4
    [metrics]                            # every role, optional: Prometheus' text, loopback only
    listen = "127.0.0.1:9464"
    [dashboard]                          # coordinator, optional
    listen = "127.0.0.1:7480"            # elsewhere than on loopback with TLS: this node's certificate, or
    certificate = "dashboard.crt"        # one that browsers know, with
    key = "dashboard.key"
    metrics = false                      # the default; true: /metrics without a token, on loopback
    [track]                              # optional: parley.node.track_settings
    tensorboard = "events"

The coordinator's name, as its certificate has it, stands before its address; it may be left out where the party's
policy lists exactly one coordinator. What stands in an aggregator's [noise] here are the defaults. A party's budget
caps all runs on its records, for good; a coordinator's what all its runs together may cost any party's units.

`listen.share` and the coordinator's `listen` may be lists, one address per network interface: so a host that is in
several networks serves each port on those that need it and on no other.

What else may stand in [data], and several data sets: `parley.node.data_sets`.

Unknown fields are errors with a suggestion. Paths are from the folder of node.toml. A listener on port 0 takes one of
the kernel's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Self, get_args

from parley.federation.errors import PolicyError
from parley.federation.fields import Fields
from parley.federation.files import toml_file
from parley.federation.names import LABEL_RULE, Role, is_label
from parley.federation.policy import PartyPolicy
from parley.federation.policy_file import LARGEST_TOTAL, read_policy
from parley.mpc.tables import Cover, Precision
from parley.node.compute_settings import ComputeSettings, compute_settings
from parley.node.credentials import NodeFolder
from parley.node.data_sets import DataSet, data_sets, files_of
from parley.node.errors import NodeFileError
from parley.node.notify_settings import NotifySettings, notify_settings
from parley.node.track_settings import NOWHERE, TrackSettings, track_settings

NODE_FILE = "node.toml"
MOST_BYTES = 1 << 16
LEVELS = ("debug", "info", "warning", "error")
LARGEST_CAPACITY = 1 << 31
MOST_WORKERS = 16
PARTIES_CONNECTIONS = 400
"""A party has three with a coordinator and two with an aggregator, and one more for every run beside the first."""
COORDINATOR_BUDGET = (10.0, 1e-3)


@dataclass(frozen=True, order=True)
class Address:
    """Where to listen or to dial; prints as gRPC takes it."""

    host: str
    port: int
    """0 only where a node listens."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `host:port`, `1.2.3.4:port` or `[::1]:port`; ValueError otherwise."""
        host, colon, digits = text.rpartition(":")
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if (
            not colon
            or not bare
            or (":" in bare and bare == host)
            or any(each.isspace() or each in "/[]" for each in bare)
        ):
            raise ValueError("no address")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 5 and int(digits) <= 65535):
            raise ValueError("no port")
        return cls(bare, int(digits))

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in ("127.0.0.1", "::1", "localhost")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class LogSettings:
    """How much a node says, and where besides standard error."""

    level: str = "info"
    file: bool = False
    """Also NODE/state/log.jsonl, rotated."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """What the nodes of all roles have. `parley.node.node_text` writes one as a node.toml."""

    folder: Path
    """The node's, absolute."""
    log: LogSettings = LogSettings()
    metrics: Address | None = None
    """Where Prometheus asks; None for nowhere."""
    notify: NotifySettings | None = None
    """Who is told when something waits for a person; None for nobody."""

    @property
    def identity(self) -> NodeFolder:
        return NodeFolder(self.folder / "identity")

    @property
    def policy(self) -> Path:
        """May be absent: then nothing is admitted but by hand."""
        return self.folder / "policy.toml"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def admissions(self) -> Path:
        return self.state / "admissions.sqlite"

    @property
    def ledger(self) -> Path:
        return self.state / "ledger.sqlite"

    @property
    def trail(self) -> Path:
        return self.state / "trail.jsonl"

    @property
    def verified(self) -> Path:
        """Verifications of manifests that need not be computed again."""
        return self.state / "verified"


@dataclass(frozen=True, kw_only=True)
class PartyNode(Node):
    """An institution. It dials and is never dialled."""

    coordinator: Address
    coordinator_name: str
    """From node.toml, or the only one in policy.toml."""
    aggregators: Mapping[str, Address]
    """Share ports by name."""
    data: tuple[DataSet, ...]
    """One without a name, or several that each have one."""
    epsilon: float
    """The cap over all runs on the records of one population, for good."""
    delta: float
    compute: ComputeSettings | None = None
    """Where its sums are computed; None for in its own process."""

    role = Role.party


@dataclass(frozen=True)
class NoiseSettings:
    """How an aggregator prepares noise ahead of rounds."""

    cover: Cover = "strips"
    precision: Precision = "standard"
    capacity: int = 1 << 20
    """Joint samples held in memory, 8 bytes each; with 0 this server samples none with the other one, and takes part in
    no run that needs them.
    """
    workers: int | Literal["auto"] = "auto"
    """Batches in the making at once, at most; the other server has a say too."""


@dataclass(frozen=True, kw_only=True)
class AggregatorNode(Node):
    """One of the two servers."""

    share: tuple[Address, ...]
    """One per interface that parties come by."""
    control: Address
    peer_name: str
    peer_listener: Address | None = None
    """B's, which A dials."""
    peer_address: Address | None = None
    """What A dials; B has none."""
    noise: NoiseSettings = NoiseSettings()
    connections: int = PARTIES_CONNECTIONS
    """Of parties, at once: each takes some 150 KiB, also while nobody knows whose it is."""

    role = Role.aggregator

    @property
    def index(self) -> int:
        """0 for A, which dials; 1 for B. A manifest's order of aggregators has to say the same."""
        return 0 if self.peer_address is not None else 1


@dataclass(frozen=True)
class DashboardSettings:
    """Where a coordinator's dashboard listens."""

    listen: Address
    certificate: Path | None = None
    """None on loopback is plain HTTP, elsewhere the node's own."""
    key: Path | None = None
    metrics: bool = False
    """Whether /metrics is answered without a token, on loopback."""


@dataclass(frozen=True, kw_only=True)
class CoordinatorNode(Node):
    """Whoever leads the study."""

    listen: tuple[Address, ...]
    """One per interface that parties come by."""
    aggregators: Mapping[str, Address]
    """Control ports by name."""
    evaluation: tuple[Path, ...] = ()
    """A PUBLIC test set; empty for none."""
    layout: Path | None = None
    """What its files look like: `parley.learning.holding`."""
    epsilon: float = COORDINATOR_BUDGET[0]
    """The cap over all runs that this coordinator leads."""
    delta: float = COORDINATOR_BUDGET[1]
    dashboard: DashboardSettings | None = None
    """None for none."""
    track: TrackSettings = NOWHERE
    connections: int = PARTIES_CONNECTIONS
    """Of parties, at once; as an aggregator's."""

    role = Role.coordinator


AnyNode = PartyNode | AggregatorNode | CoordinatorNode


def read_node(folder: Path) -> AnyNode:
    """A node from its folder, or from the path of its node.toml; the first thing wrong is named."""
    path = folder if folder.name == NODE_FILE else folder / NODE_FILE
    body = toml_file(path, partial(NodeFileError, str(path)), "see `parley init`", MOST_BYTES)
    fields, home = Fields(body, "", NodeFileError), path.parent.absolute()
    readers = {Role.party: _party, Role.aggregator: _aggregator, Role.coordinator: _coordinator}
    node = readers[fields.choice("role", tuple(Role))](fields, home, _log(fields))
    if isinstance(node, CoordinatorNode) and fields.has("dashboard"):
        node = replace(node, dashboard=_dashboard(fields.table("dashboard"), home))
    if isinstance(node, CoordinatorNode) and fields.has("track"):
        node = replace(node, track=track_settings(fields.table("track"), home))
    node = replace(node, metrics=_metrics(fields.table("metrics")) if fields.has("metrics") else None)
    if fields.has("notify"):
        node = replace(node, notify=notify_settings(fields.table("notify"), path))
    fields.finish()
    return node


def _party(fields: Fields, home: Path, log: LogSettings) -> AnyNode:
    name, at, address = fields.text("coordinator").rpartition("@")
    coordinator = _parsed(fields, "coordinator", address, 1)
    if at and not is_label(name):
        raise fields.refuse("coordinator", f'is {name + at + address!r}: give "name@host:port", the name {LABEL_RULE}')
    aggregators = _two(fields)
    budget = fields.table("budget")
    node = PartyNode(
        folder=home,
        log=log,
        coordinator=coordinator,
        coordinator_name=name or _only_coordinator(fields, home),
        aggregators=aggregators,
        data=data_sets(fields, home, Node(folder=home).state),
        epsilon=budget.number("epsilon", 0, LARGEST_TOTAL),
        delta=budget.number("delta", 0, 0.5),
        compute=compute_settings(fields.table("compute"), home) if fields.has("compute") else None,
    )
    budget.finish()
    return node


def _only_coordinator(fields: Fields, home: Path) -> str:
    try:
        policy = read_policy(home / "policy.toml")
    except PolicyError:
        policy = None
    if not isinstance(policy, PartyPolicy) or len(policy.coordinators) != 1:
        raise fields.refuse("coordinator", 'names no coordinator: write "name@host:port", as its certificate has it')
    return next(iter(policy.coordinators))


def _aggregator(fields: Fields, home: Path, log: LogSettings) -> AnyNode:
    listen, peer = fields.table("listen"), fields.table("peer")
    dialled = _parsed(peer, "address", peer.text("address"), 1) if peer.has("address") else None
    listener = _address(listen, "peer") if listen.has("peer") else None
    if dialled is None and listener is None:
        raise listen.refuse("peer", "is missing: aggregator B needs it to be dialled by A, and A needs peer.address")
    if dialled is not None and listener is not None:
        raise listen.refuse("peer", "and peer.address are both there: aggregator A has the address, B the listener")
    node = AggregatorNode(
        folder=home,
        log=log,
        share=_addresses(listen, "share"),
        control=_address(listen, "control"),
        peer_listener=listener,
        peer_name=peer.label("name"),
        peer_address=dialled,
        noise=_noise(fields.table("noise")) if fields.has("noise") else NoiseSettings(),
        connections=_connections(listen),
    )
    listen.finish()
    peer.finish()
    listeners = [each for each in (*node.share, node.control, listener) if each is not None and each.port]
    if len(set(listeners)) < len(listeners):
        raise fields.refuse("listen", "has one address twice: every listener needs a port of its own")
    return node


def _coordinator(fields: Fields, home: Path, log: LogSettings) -> AnyNode:
    evaluation: tuple[Path, ...] = ()
    layout: Path | None = None
    if fields.has("evaluation"):
        table = fields.table("evaluation")
        evaluation, layout = files_of(table, home), home / table.text("schema")
        table.finish()
    epsilon, delta = COORDINATOR_BUDGET
    if fields.has("budget"):
        table = fields.table("budget")
        epsilon, delta = table.number("epsilon", 0, LARGEST_TOTAL), table.number("delta", 0, 0.5)
        table.finish()
    return CoordinatorNode(
        folder=home,
        log=log,
        listen=_addresses(fields, "listen"),
        aggregators=_two(fields),
        evaluation=evaluation,
        layout=layout,
        epsilon=epsilon,
        delta=delta,
        connections=_connections(fields),
    )


def _connections(fields: Fields) -> int:
    return fields.whole("connections", 64, 100_000) if fields.has("connections") else PARTIES_CONNECTIONS


def _dashboard(fields: Fields, home: Path) -> DashboardSettings:
    files = {name: home / fields.text(name) for name in ("certificate", "key") if fields.has(name)}
    if len(files) == 1:
        raise fields.refuse("certificate", "and key belong together: give both, or neither for this node's own")
    settings = DashboardSettings(
        _address(fields, "listen"),
        files.get("certificate"),
        files.get("key"),
        fields.flag("metrics") if fields.has("metrics") else False,
    )
    if settings.metrics and not settings.listen.loopback:
        raise fields.refuse("metrics", f"without a token is for loopback, and this listens on {settings.listen}")
    fields.finish()
    return settings


def _metrics(fields: Fields) -> Address:
    listen = _address(fields, "listen")
    if not listen.loopback:
        raise fields.refuse("listen", f"is {str(listen)!r}: metrics have no login, listen on 127.0.0.1")
    fields.finish()
    return listen


def _noise(fields: Fields) -> NoiseSettings:
    default = NoiseSettings()
    covers: tuple[Cover, ...] = get_args(Cover)
    precisions: tuple[Precision, ...] = get_args(Precision)
    settings = NoiseSettings(
        fields.choice("cover", covers) if fields.has("cover") else default.cover,
        fields.choice("precision", precisions) if fields.has("precision") else default.precision,
        fields.whole("capacity", 0, LARGEST_CAPACITY) if fields.has("capacity") else default.capacity,
        default.workers if not fields.has("workers") or fields.is_text("workers", "auto") else
        fields.whole("workers", 1, MOST_WORKERS),
    )  # fmt: skip
    fields.finish()
    return settings


def _log(fields: Fields) -> LogSettings:
    if not fields.has("log"):
        return LogSettings()
    table, default = fields.table("log"), LogSettings()
    settings = LogSettings(
        table.choice("level", LEVELS) if table.has("level") else default.level,
        table.flag("file") if table.has("file") else default.file,
    )
    table.finish()
    return settings


def _two(fields: Fields) -> Mapping[str, Address]:
    table = fields.text_by_label("aggregators")
    if len(table) != 2:
        raise fields.refuse("aggregators", f"are {len(table)}: give two, each by its name")
    return MappingProxyType({name: _parsed(fields, f"aggregators.{name}", text, 1) for name, text in table.items()})


def _address(fields: Fields, name: str) -> Address:
    return _parsed(fields, name, fields.text(name), 0)


def _addresses(fields: Fields, name: str) -> tuple[Address, ...]:
    return tuple(_parsed(fields, name, text, 0) for text in fields.text_or_list(name))


def _parsed(fields: Fields, name: str, text: str, lowest: int) -> Address:
    try:
        address = Address.parse(text)
    except ValueError:
        raise fields.refuse(name, f'is {text!r}: give "host:port" or "[IPv6]:port", without a scheme') from None
    if address.port < lowest:
        raise fields.refuse(name, f"is {text!r}: port 0 cannot be dialled, give the one the other node listens on")
    return address
