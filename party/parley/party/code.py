"""A user's own module at a party: opened on public inputs before this party takes part, and fast enough for its rounds.

What others are told of it here follows from public facts (parley.models.admitted), its speed on public inputs among
them: of that no more than whether it is enough.
"""

from parley.federation.errors import ManifestError
from parley.federation.manifest import Manifest
from parley.federation.policy import PartyPolicy, Policy
from parley.learning.schema import Schema
from parley.models.admitted import admitted
from parley.models.apart import Apart
from parley.models.extractor_apart import ExtractorsApart, extractors_of
from parley.party.data import Understood
from parley.party.errors import refused

SHARE_OF_DEADLINE = 0.5
"""Of a round's, that a party's own computation may take; the rest is for the servers."""


def opened(manifest: Manifest, understood: Understood, policy: Policy | None, party: str | None) -> Apart | None:
    """The module's process, checked and without a record, by policy.toml as it is now; None for a built-in model.

    `party` is whose rounds it has to be fast enough for, where that is still to be decided.
    """
    allowed = policy.code if isinstance(policy, PartyPolicy) else {}
    try:
        apart = admitted(manifest, understood.schema, understood.model, allowed)
    except ManifestError as error:
        raise refused("policy", str(error)) from None
    if apart is not None and party is not None and not _fast_enough(manifest, apart, understood.schema, party):
        apart.close()
        raise refused(
            "policy",
            f"rounds.deadline_seconds: is {manifest.deadline_seconds:g} and this party needs longer for one round of "
            "this model",
            "raise it, or take a smaller batch",
        )
    return apart


def opened_extractors(manifest: Manifest, schema: Schema, policy: Policy | None) -> ExtractorsApart | None:
    """What computes a user's own features, likewise; None where the manifest names no such code."""
    try:
        return extractors_of(manifest, schema, policy.code if isinstance(policy, PartyPolicy) else {})
    except ManifestError as error:
        raise refused("policy", str(error)) from None


def _fast_enough(manifest: Manifest, apart: Apart, schema: Schema, party: str) -> bool:
    """By public lengths, at the speed of public inputs."""
    mechanism, most = manifest.mechanism, SHARE_OF_DEADLINE * manifest.deadline_seconds
    return all(
        apart.slots.slot(
            mechanism.sampler(party, index).length * (schema.records_per_unit if schema.unit else 1),
            mechanism.clip.terms(index).points,
        )
        <= most
        for index in manifest.kinds_of_rounds
    )
