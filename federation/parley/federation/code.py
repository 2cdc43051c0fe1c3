"""A user's own code in a run: named by a manifest as "torch:package.module:name" with a digest, and allowed by policy.

Code never travels: a package is installed by a node's operator, and a node runs nothing that its policy.toml does not
name with the digest of the very bytes, not even where a person has approved the run.

    [code]
    "torch:hospital_models.nets:build" = "sha256:…"
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from parley.federation.fields import Fields
from parley.federation.manifest import Manifest

PREFIX = "torch:"
NAME = re.compile(r"torch:[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
LONGEST_NAME = 200
MOST_NAMES = 1000


@dataclass(frozen=True)
class Code:
    """One piece of code that a manifest names."""

    field: str
    """Of the manifest."""
    name: str
    digest: str | None
    """None where the manifest gives none, or no digest at all: nothing is run then."""


def is_code(kind: object) -> bool:
    """Whether a kind names a user's code, rightly spelled or not."""
    return isinstance(kind, str) and kind.startswith(PREFIX)


def named_code(manifest: Manifest) -> Iterator[Code]:
    """All of the code that a run needs: its model's, and what its columns are made by."""
    if is_code(manifest.model.kind):
        yield _code("model", manifest.model.kind, manifest.model.options.body)
    transforms = manifest.schema.body.get("transform", [])
    listed = transforms if isinstance(transforms, list) else [transforms]
    for place, each in enumerate(listed):
        if isinstance(each, Mapping) and is_code(each.get("kind")):
            yield _code(f"schema.transform[{place}]", each["kind"], each)


def _code(field: str, name: str, body: Mapping[str, Any]) -> Code:
    digest = body.get("digest")
    return Code(field, name, digest if isinstance(digest, str) and DIGEST.fullmatch(digest) else None)


def unlisted(manifest: Manifest, allowed: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What of a run's code is not allowed, by name and digest: the manifest's field, and what is wrong with it."""
    for code in named_code(manifest):
        if not is_name(code.name):
            yield f"{code.field}.kind", f"is {code.name[:LONGEST_NAME]!r}: write torch:package.module:name"
        elif code.digest is None:
            yield f"{code.field}.digest", "is no digest: `parley model show` writes it"
        elif code.name not in allowed:
            yield (
                f"{code.field}.kind",
                f"is {code.name}, code that policy.toml does not name: whoever answers for these records reads the "
                f'package, and adds "{code.name}" = "{code.digest}" to [code]',
            )
        elif code.digest != allowed[code.name]:
            yield (
                f"{code.field}.digest",
                f"is {code.digest} and [code] of policy.toml allows {allowed[code.name]} of {code.name}: correct one "
                "of them",
            )


def is_name(text: str) -> bool:
    return len(text) <= LONGEST_NAME and NAME.fullmatch(text) is not None


def code_table(fields: Fields) -> Mapping[str, str]:
    """[code] of a policy; left out, nothing is allowed."""
    if not fields.has("code"):
        return {}
    table = fields.table("code")
    names = table.names()
    if len(names) > MOST_NAMES:
        raise fields.refuse("code", f"has {len(names):,} names: allow at most {MOST_NAMES:,}")
    for name in names:
        if not is_name(name):
            raise table.refuse(name, 'is no name of code: write "torch:package.module:name"')
        if not DIGEST.fullmatch(table.text(name)):
            raise table.refuse(name, 'is no digest: write "sha256:" and 64 digits, as `parley model show` has them')
    return {name: table.text(name) for name in names}
