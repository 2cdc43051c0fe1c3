"""Manifests for Kubernetes, as kustomize renders them, against the API's schemas and the table of docs/federation.md.

No cluster has run them.
"""

import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.support.edges import Edge, edges
from tests.support.programs import program, said

from parley.demo.provision import LISTEN
from parley.federation.names import NodeName, Role
from parley.node.authority import ThrowAwayAuthority
from parley.node.credentials import NodeFolder
from parley.node.health import check_health
from parley.node.node_file import read_node

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
TEMPLATES = ROOT / "deploy" / "parley" / "cli" / "templates"
OVERLAYS = {"hospital-a": "party", "north": "A", "south": "B", "lead": "coordinator"}
ROLES = {"party": Role.party, "A": Role.aggregator, "B": Role.aggregator, "coordinator": Role.coordinator}
ADDRESSES = {
    "lead": {"192.0.2.10/32"}, "north": {"198.51.100.10/32"}, "south": {"203.0.113.10/32"},
    "parties": {f"192.0.2.{place}/32" for place in (20, 21, 22)},
}  # fmt: skip
OTHER = {"nothing-else", "asks-for-names"}
VERSIONS = ("1.30", "1.37")
"""The oldest that is asked for, and the newest that the package knows."""
AUTHORITY = ThrowAwayAuthority("cardio")


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Each overlay in the folder of a node that `parley init` wrote and that has its certificate."""
    kubectl = program(
        "kubectl", "kubernetes-client (its kustomize is too old: take kubectl 1.27 or newer)", from_debian=False
    )
    found = {}
    copy = tmp_path_factory.mktemp("kubernetes")
    shutil.copytree(KUBERNETES, copy, dirs_exist_ok=True)
    for overlay, kind in OVERLAYS.items():
        folder = copy / "overlays" / overlay
        for path in (TEMPLATES / overlay).iterdir():
            shutil.copy(path, folder)
        AUTHORITY.install(folder / "identity", NodeName("cardio", ROLES[kind], overlay))
        code, text = said([kubectl, "kustomize", str(folder)])
        assert code == 0, text
        found[overlay] = list(yaml.safe_load_all(text))
    return found


def of(resources: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in resources if each["kind"] == kind}


def pod(resources: list[dict[str, Any]]) -> dict[str, Any]:
    (one,) = of(resources, "StatefulSet").values()
    found: dict[str, Any] = one["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_resource_is_of_the_schema_of_its_kind(
    rendered: dict[str, list[dict[str, Any]]], overlay: str, version: str
) -> None:
    for resource in rendered[overlay]:
        kubernetes_validate.validate(resource, version, strict=True)


def test_a_misspelt_field_is_found(rendered: dict[str, list[dict[str, Any]]]) -> None:
    (budget,) = of(rendered["lead"], "PodDisruptionBudget").values()
    wrong = {**budget, "spec": {**budget["spec"], "maxUnavailble": 0}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[1], strict=True)


def test_every_file_is_part_of_what_is_rendered() -> None:
    for folder in {path.parent for path in KUBERNETES.rglob("*.yaml")}:
        said_here = yaml.safe_load((folder / "kustomization.yaml").read_text())
        named = {*said_here["resources"], *(each["path"] for each in said_here.get("patches", []) if "path" in each)}
        here = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
        assert here == {name for name in named if name.endswith(".yaml")}, folder
        assert all((folder / name).exists() for name in named), folder


# ------------------------------------------------------------ what a pod may do


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_pod_may_do_as_little_as_in_compose(rendered: dict[str, list[dict[str, Any]]], overlay: str) -> None:
    spec = pod(rendered[overlay])
    assert spec["automountServiceAccountToken"] is False
    security = spec["securityContext"]
    assert (security["runAsNonRoot"], security["runAsUser"], security["runAsGroup"]) == (True, 10001, 10001)
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in [*spec["initContainers"], *spec["containers"]]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in container["resources"]["limits"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert not [volume for volume in spec["volumes"] if "hostPath" in volume]
    (namespace,) = of(rendered[overlay], "Namespace").values()
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_one_node_is_one_pod_with_its_own_state_and_probes(
    rendered: dict[str, list[dict[str, Any]]], overlay: str
) -> None:
    resources = rendered[overlay]
    (node,) = of(resources, "StatefulSet").values()
    assert node["spec"]["replicas"] == 1
    (claim,) = node["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert node["spec"]["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    (container,) = pod(resources)["containers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["exec"]["command"] == ["python", "-P", "-m", check_health.__module__, "/node"]
    image = (ROOT / "deploy" / "Dockerfile").read_text()
    assert f'CMD ["python", "-P", "-m", "{check_health.__module__}", "/node"]' in image
    role = ROLES[OVERLAYS[overlay]]
    assert container["args"] == [role.value, "run", "/node"]
    assert container["image"] == ("parley/party" if role is Role.party else "parley/server")
    assert {each["image"] for each in pod(resources)["initContainers"]} == {container["image"]}
    (budget,) = of(resources, "PodDisruptionBudget").values()
    labels = node["spec"]["template"]["metadata"]["labels"]
    assert (budget["spec"]["maxUnavailable"], budget["spec"]["selector"]["matchLabels"]) == (0, labels)
    assert ("records" in of(resources, "PersistentVolumeClaim")) == (role is Role.party)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_whatever_is_mounted_is_there(rendered: dict[str, list[dict[str, Any]]], overlay: str) -> None:
    resources, spec = rendered[overlay], pod(rendered[overlay])
    (node,) = of(resources, "StatefulSet").values()
    volumes = {each["name"]: each for each in spec["volumes"]}
    claims = {each["metadata"]["name"] for each in node["spec"]["volumeClaimTemplates"]}
    for container in [*spec["initContainers"], *spec["containers"]]:
        assert {each["name"] for each in container["volumeMounts"]} <= set(volumes) | claims
    settings = of(resources, "ConfigMap")[volumes["settings"]["configMap"]["name"]]["data"]
    mounted = {each["subPath"] for each in spec["containers"][0]["volumeMounts"] if each["name"] == "settings"}
    assert mounted == set(settings)
    secret = of(resources, "Secret")[volumes["given"]["secret"]["secretName"]]["data"]
    image = (ROOT / "deploy" / "Dockerfile").read_text()
    assert set(secret) == {"node.key", "node.crt", "authority.crt", "pins.toml"}
    assert "ln -s /run/secrets /node/identity/current" in image
    for place in ("state", "models"):
        assert f"/volume/{place}" in spec["initContainers"][0]["command"][-1]
    assert secret["node.key"] not in yaml.safe_dump([each for each in resources if each["kind"] != "Secret"])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_settings_are_those_of_a_node(overlay: str, tmp_path: Path) -> None:
    shutil.copytree(TEMPLATES / overlay, tmp_path / overlay)
    NodeFolder(tmp_path / overlay / "identity")
    assert read_node(tmp_path / overlay).role is ROLES[OVERLAYS[overlay]]


# ------------------------------------------------------------ who reaches whom


@cache
def wanted(kind: str) -> set[tuple[str, str]]:
    """Ways of a policy, by the table of docs/federation.md: dials or serves, and which port."""
    dials = {("dials", edge.port) for edge in edges() if kind in edge.callers}
    return dials | {("serves", edge.port) for edge in edges() if kind in edge.callees}


def ways(resources: list[dict[str, Any]]) -> dict[str, tuple[str, set[str], int]]:
    """By name of the policy: Ingress or Egress, whose addresses, and the port."""
    found = {}
    for name, policy in of(resources, "NetworkPolicy").items():
        if name in OTHER:
            continue
        spec = policy["spec"]
        (kind,) = spec["policyTypes"]
        assert spec["podSelector"] == {}
        assert set(spec) == {"podSelector", "policyTypes", kind.lower()}
        (rule,) = spec[kind.lower()]
        peers = {each["ipBlock"]["cidr"] for each in rule["to" if kind == "Egress" else "from"]}
        (port,) = rule["ports"]
        assert port["protocol"] == "TCP"
        found[name] = (kind, peers, port["port"])
    return found


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_policy_for_each_connection_of_the_architecture_and_no_other(
    rendered: dict[str, list[dict[str, Any]]], overlay: str
) -> None:
    kind, found = OVERLAYS[overlay], ways(rendered[overlay])
    assert set(found) == {f"{how}-{port}" for how, port in wanted(kind)}
    for how, port in wanted(kind):
        direction, _, number = found[f"{how}-{port}"]
        assert (direction, number) == ("Egress" if how == "dials" else "Ingress", LISTEN[port])
    policies = of(rendered[overlay], "NetworkPolicy")
    assert policies["nothing-else"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    names = policies["asks-for-names"]["spec"]
    assert names["policyTypes"] == ["Egress"]
    assert {each["port"] for rule in names["egress"] for each in rule["ports"]} == {53}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_connection_is_open_for_who_has_it_and_for_nobody_else(
    rendered: dict[str, list[dict[str, Any]]], overlay: str
) -> None:
    kind = OVERLAYS[overlay]
    nodes = {"party": "parties", "A": "north", "B": "south", "coordinator": "lead"}
    for edge in edges():
        other = edge.callees if kind in edge.callers else edge.callers if kind in edge.callees else frozenset()
        if other:
            name = f"{'dials' if kind in edge.callers else 'serves'}-{edge.port}"
            addresses = set().union(*(ADDRESSES[nodes[each]] for each in other))
            assert ways(rendered[overlay])[name][1] == addresses, name


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_service_for_each_port_that_is_served(rendered: dict[str, list[dict[str, Any]]], overlay: str) -> None:
    served = {port: LISTEN[port] for how, port in wanted(OVERLAYS[overlay]) if how == "serves"}
    services = of(rendered[overlay], "Service")
    assert {name: each["spec"]["ports"][0]["port"] for name, each in services.items()} == served
    assert {each["spec"]["externalTrafficPolicy"] for each in services.values()} <= {"Local"}


def test_the_table_is_understood() -> None:
    assert edges() == [
        Edge(frozenset({"party"}), frozenset({"coordinator"}), "coordinator"),
        Edge(frozenset({"party"}), frozenset({"A", "B"}), "share"),
        Edge(frozenset({"coordinator"}), frozenset({"A", "B"}), "control"),
        Edge(frozenset({"A"}), frozenset({"B"}), "peer"),
    ]


def test_the_page_names_what_validates_them() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    (pinned,) = re.findall(r'"(kubernetes-validate==[\d.]+)"', project)
    assert pinned.replace("==", " ") in page
