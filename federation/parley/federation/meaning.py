"""What a manifest means, verified: the accountant's ε, the noise's exact law, the margin of the ring, in plain words.

Takes seconds and a hundred megabytes (scipy, the tables of the law), so a long-running process calls `verify_apart`,
which has a short-lived one do it. Nothing is admitted on the strength of what a manifest says of itself: `policy.admit`
takes a `Meaning`, and only this module makes one.
"""

import contextlib
import functools
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from parley.federation import columns, people, start_and_stop
from parley.federation.errors import FederationError, ManifestError
from parley.federation.extras import missing
from parley.federation.manifest import Manifest
from parley.federation.mechanism import sampling_sentence
from parley.mpc.errors import MpcError
from parley.mpc.parts import NoiseParts
from parley.mpc.tables import Cover, Precision
from parley.privacy.claim import Claim
from parley.privacy.errors import InvalidParameterError, PrivacyError
from parley.privacy.filters import Charge, Policy, charge_of
from parley.privacy.finite_precision import FinitePrecision
from parley.privacy.lying import NO_GUARANTEE, SHARE_IF_LYING, Servers, in_words

LARGEST_SHARE = 0.01
"""Of ε and of δ that the noise's finite precision may take."""
VERIFY_SECONDS = 600.0
MOST_KEPT = 1024
"""Verifications in a node's folder, a few kilobytes each: coordinators bring as many manifests as they like."""
UNFINISHED, UNFINISHED_SECONDS = ".new", 60.0
"""Writing one takes milliseconds: what is older was left behind."""


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """A manifest and the figures that were computed from it, not read in it."""

    manifest: Manifest
    epsilon: float
    """Of the worst party at `delta`, the finite precision of the noise included; at most what the manifest claims."""
    delta: float
    worst_party: str
    epsilon_added: float
    """Of it by finite precision."""
    delta_added: float
    range_margin_bits: float
    """How many times the largest possible sum could double before it left the ring, in the worst round."""
    statement: str
    epsilon_if_a_server_lies: float | None
    """ε₂ of the worst party at `delta`, if one server does anything whatever; None: no guarantee then."""

    def as_json(self) -> dict[str, Any]:
        """For scripts, and for `verify_apart`."""
        body = asdict(self)
        del body["manifest"]
        return body

    @property
    def sentences(self) -> list[str]:
        """The run in plain words, for the person who has to approve it."""
        manifest, mechanism, parts = self.manifest, self.manifest.mechanism, self.manifest.noise.parts
        units = [mechanism.sampler(party, 0).units for party in manifest.parties]
        first, second = manifest.aggregators
        neighbours = "one unit's data exchanged for any other (replace-one); how many there are is public"
        counted, released = (
            " then ".join(dict.fromkeys(f"{deviation(index):.4g}" for index in manifest.kinds_of_rounds))
            for deviation in (mechanism.noise_deviation, manifest.released_deviation)
        )
        return [
            f"Run {manifest.run} of federation {manifest.federation}, manifest {manifest.digest.hex()}.",
            f"Parties: {len(units)} ({columns.listed(manifest.parties)}) with {min(units):,} to {max(units):,} units; "
            f"a round needs {manifest.minimum_parties} of them within {manifest.deadline_seconds:g} seconds.",
            *(f"Records of {party}: its data set {name}." for party, name in manifest.data_sets),
            f"Model: {manifest.model.kind} of {manifest.model.dimension:,} parameters, trained by "
            f"{manifest.algorithm.name} in {manifest.releases:,} rounds.",
            *columns.sentences(manifest.schema.body),
            f"Privacy: epsilon {self.epsilon:.4g} at delta {self.delta:.3g} for the least protected party "
            f"({self.worst_party}), by accountant {manifest.guarantee.accountant}; the manifest claims "
            f"{manifest.guarantee.epsilon:.4g}.",
            f"Against whom: {against_whom(parts, self.epsilon, self.epsilon_if_a_server_lies, self.delta)}",
            f"Unit of privacy: {mechanism.unit.name}. Neighbours: {neighbours}.",
            f"Sampling: {sampling_sentence(manifest.mechanism)}.",
            f"Noise: deviation {counted} on the sum, {mechanism.noise_multiplier:.4g} times its sensitivity, "
            f"however many parties are present; {made_of(parts)}. The released sum has deviation {released}.",
            f"Precision: {manifest.noise.precision} ({manifest.noise.cover}), {manifest.noise.fraction_bits} fraction "
            f"bits; it takes {self.epsilon_added:.2g} of epsilon and {self.delta_added:.2g} of delta.",
            f"Range: no overflow from answers that follow the protocol ({int(self.range_margin_bits)} bits to spare).",
            f"Aggregators, who must not collude: {first.name} of {first.legal_entity}, {second.name} of "
            f"{second.legal_entity}. Coordinator: {manifest.coordinator.name} of {manifest.coordinator.legal_entity}.",
            *start_and_stop.sentences(manifest.start, manifest.stop_early),
            *people.sentences(manifest),
        ]


def verify(manifest: Manifest) -> Meaning:
    """Compute what the manifest means; refused if it claims more privacy than that, or cannot be certified."""
    return _verified(manifest)[0]


def verify_with_charge(manifest: Manifest, party: str, filters: Policy) -> tuple[Meaning, Charge]:
    """The same, and what the ledger of `party` has to charge for the run under its rule of adding up.

    Without a party it is the least protected one's charge: a coordinator's ledger counts for all of them.
    """
    from parley.privacy.accountants import accountant

    meaning, precision = _verified(manifest)
    of_all, party = not party, party or meaning.worst_party
    if party not in manifest.parties:
        listed = ", ".join(manifest.parties)
        raise ManifestError("parties", f"have no {party!r} but {listed}: ask for a manifest with it")
    claimed = manifest.guarantee
    chosen = accountant(claimed.accountant)
    try:
        charge = charge_of(
            manifest.mechanism,
            party,
            manifest.longest_answer,
            claimed.delta,
            chosen,
            precision,
            filters,
            servers_of(manifest),
        )
    except PrivacyError as error:  # of another party than the one that the claim is about
        raise ManifestError("privacy.epsilon", f"no charge can be made for {party}: {error}") from None
    if of_all:  # another party may be the least protected one if a server lies
        lying = meaning.epsilon_if_a_server_lies
        delta = claimed.delta if lying is not None else 0.0
        charge = replace(
            charge, cost=replace(charge.cost, epsilon_if_a_server_lies=lying, delta_if_a_server_lies=delta)
        )
    return meaning, charge


def _verified(manifest: Manifest) -> tuple[Meaning, FinitePrecision]:
    return _verified_form(manifest.canonical)


@functools.lru_cache(maxsize=2)
def _verified_form(canonical: bytes) -> tuple[Meaning, FinitePrecision]:
    """Kept, for whoever asks what several parties have to charge, and for `main`."""
    manifest = Manifest.from_canonical(canonical)  # however it was made, it passes every check of the parser
    from parley.privacy.accountants import accountant

    claimed = manifest.guarantee
    precision = precision_of(manifest)
    try:
        claim = Claim.of(
            manifest.mechanism,
            manifest.longest_answer,
            claimed.delta,
            accountant(claimed.accountant),
            precision,
            servers_of(manifest),
        )
    except PrivacyError as error:
        raise ManifestError("privacy.epsilon", f"no claim can be made: {error}") from None
    if not claim.epsilon <= claimed.epsilon:
        raise ManifestError(
            "privacy.epsilon",
            f"claims {claimed.epsilon:.6g} and the run costs {claim.party} {claim.epsilon:.6g}: claim at least that, "
            "or raise mechanism.noise_multiplier, or sample less, or plan fewer steps",
        )
    lying, most = claim.epsilon_if_a_server_lies, claimed.epsilon_if_a_server_lies
    if most is not None and not (lying is not None and lying <= most):
        found = NO_GUARANTEE if lying is None else f"a server that lies could cost {claim.party} {lying:.6g}"
        raise ManifestError(
            "privacy.epsilon_if_a_server_lies",
            f"claims {most:.6g} and {found}: claim at least that or nothing, raise noise.own, or add noise",
        )
    meaning = Meaning(
        manifest=manifest,
        epsilon=float(claim.epsilon),
        delta=float(claim.delta),
        worst_party=claim.party,
        epsilon_added=precision.epsilon_added,
        delta_added=float(claim.delta - claim.gaussian.delta),
        range_margin_bits=min(margin_bits(manifest, index) for index in manifest.kinds_of_rounds),
        statement=claim.sentence,
        epsilon_if_a_server_lies=None if lying is None else float(lying),
    )
    return meaning, precision


def against_whom(parts: NoiseParts, epsilon: float, lying: float | None, delta: float) -> str:
    """What holds against which server, for people who decide."""
    if not parts.joint:
        most = "" if lying is not None else f" So large an epsilon counts as {NO_GUARANTEE}."
        return (
            f"epsilon {epsilon:.4g} holds against one aggregator that does anything at all, with the coordinator and "
            f"all other parties; the result is not protected against it, only the records are.{most}"
        )
    follows = f"epsilon {epsilon:.4g} holds against an aggregator that follows the protocol; "
    audits = f" {parts.audits}" if parts.audits else ""
    if lying is None:
        return f"{follows}there is {NO_GUARANTEE}: one that does not follow it may see through the noise.{audits}"
    return f"{follows}{in_words(lying, delta)}, whatever it does.{audits}"


def made_of(parts: NoiseParts) -> str:
    """The noise's parts, in words."""
    if not parts.joint:
        return "each server adds a whole sample of its own; none is joint"
    own = f", and each server adds {parts.own:g} times as much of its own" if parts.own else ""
    return f"sampled jointly{own}" + (f", and audits {parts.audit} of the batches" if parts.audit else "")


@dataclass(frozen=True)
class Certifying:
    """A preset's certificates, for whoever accounts."""

    cover: Cover
    precision: Precision

    def __call__(self, samples: int, epsilon: float, delta: float) -> FinitePrecision:
        try:
            return finite_precision(samples, epsilon, delta, self.cover, self.precision, SHARE_IF_LYING)
        except MpcError as error:
            raise InvalidParameterError(str(error)) from None


def servers_for(parts: NoiseParts, cover: Cover, precision: Precision) -> Servers:
    """Who makes the noise, as accounting has to know it."""
    return Servers(parts.samples, parts.left_by_a_liar, Certifying(cover, precision), parts.audits)


def servers_of(manifest: Manifest) -> Servers:
    """Of a run."""
    noise = manifest.noise
    return servers_for(noise.parts, noise.cover, noise.precision)


def finite_precision(
    samples: int, epsilon: float, delta: float, cover: Cover, precision: Precision, share: float = LARGEST_SHARE
) -> FinitePrecision:
    """What the noise's certificate costs a claim of (ε, δ): whoever calibrates, verifies or shows one counts by it.

    An MpcError where nothing can be certified, a PrivacyError where it takes more than its share.
    """
    from parley.mpc.law import certify  # megabytes, here and not in every process that reads a manifest

    certificate = certify(samples, epsilon, delta, cover, precision)
    if not certificate.within(share):
        raise InvalidParameterError(
            f"{precision} noise takes over {share:.0%} of epsilon {epsilon:g} or delta {delta:g} over "
            f"{samples:,} samples ({certificate.epsilon_added:.3g}, {certificate.delta_added:.3g}): use high, fewer "
            "rounds or fewer parameters"
        )
    return FinitePrecision(certificate.samples, certificate.xi, certificate.hop_delta, certificate.hop_delta)


def precision_of(manifest: Manifest) -> FinitePrecision:
    """For all samples of the run; refused where it takes too much."""
    claimed, noise = manifest.guarantee, manifest.noise
    try:
        return finite_precision(manifest.samples, claimed.epsilon, claimed.delta, noise.cover, noise.precision)
    except (MpcError, PrivacyError) as error:
        raise ManifestError("noise.precision", str(error)) from None


def verify_apart(manifest: Manifest, kept: Path | None = None) -> Meaning:
    """`verify` in a process of its own, so that this one stays small; the same result or the same refusal.

    `kept` is a folder of this node's state for what it has verified: it is not computed again after a restart.
    """
    return Meaning(manifest=manifest, **_apart(manifest, [], kept)["meaning"])


def verify_apart_with_charge(
    manifest: Manifest, party: str, filters: Policy, kept: Path | None = None
) -> tuple[Meaning, Charge]:
    """`verify_with_charge` in a process of its own."""
    answer = _apart(manifest, charged(party, filters), kept)
    return Meaning(manifest=manifest, **answer["meaning"]), Charge.from_json(answer["charge"])


def charged(party: str, filters: Policy) -> list[str]:
    """The arguments that ask for a charge, too."""
    return [party, json.dumps(filters.as_json())]


def kept_file(folder: Path, manifest: Manifest, arguments: list[str]) -> Path:
    """Where a verification is kept: by the manifest, by what was asked, by the version of this software."""
    what = json.dumps([version("parley-federation"), manifest.digest.hex(), arguments])
    return folder / f"{hashlib.sha256(what.encode()).hexdigest()[:32]}.json"


def _apart(manifest: Manifest, arguments: list[str], kept: Path | None) -> dict[str, Any]:
    """Only what was verified is kept: a refusal may be of a passing cause."""
    if kept is None:
        return _computed(manifest, arguments)
    with contextlib.suppress(FileNotFoundError, ValueError):  # not there, or cut short by a power failure
        found: dict[str, Any] = json.loads(kept_file(kept, manifest, arguments).read_text())
        return found
    answer = _computed(manifest, arguments)
    keep(kept, manifest, arguments, answer)
    return answer


def keep(folder: Path, manifest: Manifest, arguments: list[str], answer: dict[str, Any]) -> None:
    """For `verify_apart` of the node whose folder this is; mode 600, and whole or not there."""
    folder.mkdir(mode=0o700, exist_ok=True)
    tidy(folder)
    handle, fresh = tempfile.mkstemp(dir=folder, suffix=UNFINISHED)
    try:
        with open(handle, "w") as file:
            file.write(json.dumps(answer))
        os.replace(fresh, kept_file(folder, manifest, arguments))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise


def tidy(folder: Path) -> None:
    """Remove what a process that was killed, or a full disk, left half written, and the oldest of too many."""
    found = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another process of this node may tidy as well
            written = path.stat().st_mtime
            if path.suffix != UNFINISHED:
                found.append((written, path))
            elif time.time() - written > UNFINISHED_SECONDS:
                path.unlink()
    for _, path in sorted(found)[: max(0, len(found) - MOST_KEPT + 1)]:
        with contextlib.suppress(OSError):
            path.unlink()


def _computed(manifest: Manifest, arguments: list[str]) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "parley.federation.meaning", *arguments],
            input=manifest.canonical,
            capture_output=True,
            timeout=VERIFY_SECONDS,
            check=False,
        )
        answer: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise FederationError(f"the manifest was not verified in {VERIFY_SECONDS:g} s: nothing is admitted") from None
    except ValueError:
        raise FederationError(
            f"the process that verifies manifests ended with code {done.returncode}: {done.stderr.decode()[-300:]}"
        ) from None
    if "missing" in answer:
        raise FederationError(f"no manifest can be verified: {answer['missing']}")
    if "refused" in answer:
        raise ManifestError(answer["field"], answer["refused"])
    return answer


def margin_bits(manifest: Manifest, round_index: int) -> float:
    """How many times the round's largest possible sum could double before it left the ring."""
    lattice = manifest.lattice(round_index)
    largest = lattice.largest_sum(
        manifest.most_contributions(round_index), manifest.mechanism.clip.contribution_bound(round_index)
    )
    return lattice.opening_bits - 1 - math.log2(largest)


def answered(manifest: Manifest, arguments: list[str]) -> dict[str, Any]:
    """What a process apart answers; with a party and a ledger's policy also what that ledger charges."""
    if not arguments:
        return {"meaning": verify(manifest).as_json()}
    party, filters = arguments
    meaning, charge = verify_with_charge(manifest, party, Policy(**json.loads(filters)))
    return {"meaning": meaning.as_json(), "charge": charge.as_json()}


def main() -> None:
    """Canonical bytes in, one line of JSON out."""
    try:
        meaning, _ = _verified_form(sys.stdin.buffer.read())
        answer = answered(meaning.manifest, sys.argv[1:])
    except ManifestError as refusal:
        answer = {"field": refusal.field, "refused": str(refusal).removeprefix(f"{refusal.field}: ")}
    except ImportError as error:
        wanted = missing(error)
        if wanted is None:
            raise
        answer = {"missing": wanted}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
