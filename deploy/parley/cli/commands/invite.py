"""`parley invite`: a file for each institution that takes part in a study.

parley invite heart --all
parley invite heart hospital-a -o hospital-a.invitation
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley.cli.commands.ca import KEY, Passphrase
from parley.cli.console import CommandError, emit_json, progress
from parley.cli.options import Json
from parley.cli.passphrase import entered

if TYPE_CHECKING:
    from parley.federation.manifest import Manifest
    from parley.node.membership import Plan

OWN = ("data",)
"""What of study.toml stays with whoever wrote it."""


def invite(
    study: Annotated[Path, typer.Argument(help="The folder that `parley init` wrote.", metavar="STUDY")],
    names: Annotated[list[str] | None, typer.Argument(help="Whom to invite.", metavar="NAME")] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Everybody in federation.toml.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="For one NAME; else STUDY/invitations/NAME.invitation.")
    ] = None,
    passphrase_file: Passphrase = None,
    json_output: Json = False,
) -> None:
    """Write an invitation: the authority, who takes part and where, the study, and the role and name of whom it is for.

    No secret is in it. The first time this also makes the federation's authority, in STUDY/authority.

    Example: parley invite heart --all. Next: send each its file; they run parley join
    """
    from parley.node import membership

    plan = membership.Plan.read(study)
    chosen = [each.name for each in plan.members] if everybody else list(names or [])
    if not chosen or (everybody and names):
        raise CommandError("say whom to invite: one NAME or more, or --all")
    if output is not None and len(chosen) != 1:
        raise CommandError("-o is for one NAME: leave it out, and each file goes to STUDY/invitations")
    if output is not None and output.exists():
        raise CommandError(f"{output} is there already, and nothing was written: give another name")
    nodes = [plan.named(each) for each in chosen]
    body, noise = _planned(study, plan)
    fingerprint = _authority(study, plan.federation, passphrase_file)
    written = []
    for node in nodes:
        path = output or membership.invitation_path(study, node)
        membership.invite(study, node, plan, body, noise, path)
        written.append(path)
    if json_output:
        emit_json({"authority": fingerprint, "invitations": [str(path) for path in written]})
        return
    for node, path in zip(nodes, written, strict=True):
        print(f"{path}: for {node.role} {node.name}")
    print("next: send each its file; there `parley join FILE` answers with a request, for `parley accept`")


def _planned(study: Path, plan: "Plan") -> tuple[dict[str, Any], dict[str, Any]]:
    """The study as it travels, and what the servers have to offer for it; refused where it names others."""
    from parley.federation.files import toml_file
    from parley.federation.names import Role
    from parley.node.membership import STUDY_FILE
    from parley.node.node_file import NoiseSettings
    from parley.study.document import read

    path = study / STUDY_FILE
    progress("planning the run, to see which noise the servers have to offer")
    document = read(path)
    manifest = document.manifest()
    for role in Role:
        told = [each.name for each in manifest.identities(role)]
        planned = [each.name for each in plan.members if each.role is role]
        if sorted(told) != sorted(planned) or (role is Role.aggregator and told != planned):
            raise CommandError(f"study.toml names as {role} {', '.join(told)}, federation.toml {', '.join(planned)}")
    if manifest.federation != plan.federation:
        raise CommandError(f"study.toml is of {manifest.federation}, federation.toml of {plan.federation}: correct one")
    _same_organisations(manifest, plan)
    body = toml_file(path, lambda what: CommandError(f"{path.name} {what}"))
    body = {name: value for name, value in body.items() if name not in OWN}
    columns = {name: value for name, value in document.schema.as_json().items() if value is not None}
    usual, needed = NoiseSettings().capacity, manifest.joint_samples
    trial = all(each.loopback for member in plan.members for each in member.addresses.values())
    noise = {
        "cover": manifest.noise.cover,
        "precision": manifest.noise.precision,
        "capacity": min(usual, needed) if trial or not needed else usual,
    }
    return {**body, "schema": columns}, noise


def _same_organisations(manifest: "Manifest", plan: "Plan") -> None:
    """Policies are written from the one, and judge the other."""
    planned = {each.name: each.organisation for each in plan.members}
    for each in (*manifest.aggregators, manifest.coordinator):
        if planned[each.name] != each.legal_entity:
            raise CommandError(
                f"{each.name} is {each.legal_entity!r} in study.toml and {planned[each.name]!r} in federation.toml: "
                "write the same in both"
            )


def _authority(study: Path, federation: str, passphrase_file: Path | None) -> str:
    """Its fingerprint; made where there is none."""
    from parley.node.authority import Authority, federation_of
    from parley.node.credentials import certificate_fingerprint, load_certificate, read_file
    from parley.node.membership import AUTHORITY

    place = study / AUTHORITY
    if not (place / "authority.crt").exists():
        made = Authority.create(federation)
        made.save(place, entered(passphrase_file, KEY, confirm=True))
        progress(f"made the authority of {federation} in {place}: its key is what makes somebody a member")
        if passphrase_file is None:
            progress("the key has no passphrase: on a machine that others use, remove it and give --passphrase-file")
    held = load_certificate(read_file(place / "authority.crt"), "authority.crt")
    if federation_of(held) != federation:
        raise CommandError(f"{place} is the authority of {federation_of(held)}: this study is of {federation}")
    return certificate_fingerprint(held)
