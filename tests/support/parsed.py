"""How often a manifest is parsed."""

import pytest

from parley.federation.manifest import Manifest


def counted(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Of every manifest that is parsed from now on its bytes."""
    parsed: list[bytes] = []
    parse = Manifest.from_canonical

    def counting(data: bytes) -> Manifest:
        parsed.append(data)
        return parse(data)

    monkeypatch.setattr(Manifest, "from_canonical", counting)
    return parsed
