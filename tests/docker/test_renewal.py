"""New certificates and keys under running containers: nothing is restarted, and the next run is trained with them."""

import json
from typing import Any

import pytest

from parley.node.credentials import certificate_fingerprint
from tests.docker.dashboard import presented, study, submit
from tests.docker.engine import COORDINATOR, IMAGES, NODES, PARTIES, RUN_SECONDS, Federation, wait

pytestmark = pytest.mark.docker
PARTY, AGGREGATOR = "va", "north"
SHOWN = """
import socket, ssl, sys
from cryptography import x509
from parley.node.pins import key_of, key_text
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.set_alpn_protocols(["h2"])
with socket.create_connection((sys.argv[1], 7402), timeout=100) as raw, context.wrap_socket(raw) as wrapped:
    print(key_text(key_of(x509.load_der_x509_certificate(wrapped.getpeercert(binary_form=True)).public_key())))
"""


def command(federation: Federation, user: int, *words: str) -> str:
    """In a container of its own over the federation's folder, as operators do with `setup`."""
    found: bytes = federation.client.containers.run(
        IMAGES["server"], list(words), user=f"{user}:{user}", remove=True, network_mode="none",
        volumes={str(federation.folder): {"bind": "/federation"}},
    )  # fmt: skip
    return found.decode()


def renew(federation: Federation, name: str, how: str) -> dict[str, Any]:
    """docs/containers.md, "A new certificate"; what is installed then. A new key is accepted by its peers first."""
    folder = f"/federation/{name}/identity"
    asked = _answer(command(federation, 10001, "node", how, "--folder", folder, "--json"))
    for peer in NODES if how == "rotate" else ():
        if peer != name and not {peer, name} <= set(PARTIES):
            rotation = ("pin", "accept", asked["rotation"], "--pin", asked["pin"])
            command(federation, 10001, *rotation, "--folder", f"/federation/{peer}/identity")
    approved = f"/federation/{name}/approved.pem"
    command(
        federation, 0, "ca", "approve", f"{folder}/pending/request.pem", "--fingerprint", asked["fingerprint"],
        "--out", approved, "--folder", "/federation/authority",
    )  # fmt: skip
    return _answer(command(federation, 10001, "node", "install", approved, "--folder", folder, "--json"))


def _answer(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    return found


def test_renewed_certificates_are_taken_up_without_a_restart(federation: Federation) -> None:
    names = (PARTY, AGGREGATOR, COORDINATOR)
    started = {name: federation.container(name).attrs["State"]["StartedAt"] for name in names}
    bindings = federation.container(COORDINATOR).attrs["NetworkSettings"]["Ports"]["7480/tcp"]
    port = int(bindings[0]["HostPort"])

    def of_aggregator() -> str:
        return federation.run(COORDINATOR, "python", "-c", SHOWN, f"control.{AGGREGATOR}").strip()

    def of_dashboard() -> str:
        return certificate_fingerprint(presented(federation, port))

    before = {AGGREGATOR: of_aggregator(), COORDINATOR: of_dashboard()}
    how = {PARTY: "rotate", AGGREGATOR: "rotate", COORDINATOR: "renew"}
    after = {name: renew(federation, name, how[name]) for name in names}
    assert of_aggregator() == after[AGGREGATOR]["pin"] != before[AGGREGATOR]
    shown = after[COORDINATOR]["fingerprint"]
    wait(lambda: of_dashboard() == shown != before[COORDINATOR], RUN_SECONDS, "the dashboard's certificate")
    submit(federation, study("renewed", 10))
    assert federation.wait_state("renewed", ["finished", "failed", "stalled"])[0] == "finished"
    assert "dialling with the newly installed certificate" in federation.logs(PARTY)
    for name in names:
        federation.wait_ready(name)
        assert federation.container(name).attrs["State"]["StartedAt"] == started[name]
