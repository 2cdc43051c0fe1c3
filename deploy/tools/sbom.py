"""The bill of materials of a wheel or an image: CycloneDX 1.6, as JSON, validated against the schema before it is kept.

From what is really installed (tools/installed.py lists it), not from what was asked for.
"""

import datetime as dt
import json
import uuid
from pathlib import Path
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from parley.node.software import DISTRIBUTION

LISTING = Path(__file__).with_name("installed.py")
VERSION = SchemaVersion.V1_6


def _library(package: dict[str, Any]) -> Component:
    name = canonicalize_name(package["name"])
    licences = LicenseFactory()
    declared = package["license"]
    return Component(
        name=name,
        version=package["version"],
        purl=PackageURL("pypi", name=name, version=package["version"]),
        bom_ref=f"pypi:{name}",
        licenses=[licences.make_from_string(each) for each in ([declared] if declared else package["licenses"])],
    )


def _debian(package: dict[str, str]) -> Component:
    qualifiers = {"arch": package["architecture"], "distro": "debian"}
    return Component(
        name=package["name"],
        version=package["version"],
        purl=PackageURL("deb", "debian", package["name"], package["version"], qualifiers),
        bom_ref=f"deb:{package['name']}:{package['architecture']}",
    )


def _python(version: str) -> Component:
    purl = PackageURL("generic", None, "python", version)
    return Component(name="python", version=version, bom_ref="python", purl=purl)


def _required(package: dict[str, Any], extras: tuple[str, ...]) -> set[NormalizedName]:
    """Names of what it requires here, also by those of its extras."""
    found: set[NormalizedName] = set()
    for requirement in map(Requirement, package["requires"]):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            found.add(canonicalize_name(requirement.name))
    return found


def bill(listing: str, name: str, sha256: str, when: int, extras: tuple[str, ...], *, image: bool) -> str:
    """Of what `installed.py` listed; `name` and `sha256` are of the file or image that it belongs to.

    An image comes with Python and a system, a wheel meets those of its user.
    """
    told = json.loads(listing)
    packages = {canonicalize_name(each["name"]): each for each in told["packages"]}
    own = packages.pop(canonicalize_name(DISTRIBUTION))
    main = _library(own)
    main.type = ComponentType.APPLICATION
    main.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=sha256))
    main.description = name
    made = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{main.purl}#{sha256}"))
    made.metadata.component = main
    made.metadata.timestamp = dt.datetime.fromtimestamp(when, dt.UTC)
    libraries = {each: _library(package) for each, package in packages.items()}
    system = [_python(told["python"]), *map(_debian, told["debian"])] if image else []
    made.components.update([*libraries.values(), *system])
    wanted = _required(own, extras)
    made.register_dependency(main, [*system, *(libraries[each] for each in wanted if each in libraries)])
    for each, package in packages.items():
        made.register_dependency(libraries[each], [libraries[x] for x in _required(package, ()) if x in libraries])
    text = str(make_outputter(made, OutputFormat.JSON, VERSION).output_as_string(indent=2))
    if error := JsonStrictValidator(VERSION).validate_str(text):
        raise ValueError(f"the bill of materials of {name} is no CycloneDX: {error}")
    return text
