"""Every command once without extras, and with one image's rooms alone: it works, or says in a line what is missing.

A process in which those modules cannot be imported, nor in the processes that it starts, plays all of them.
"""

import bz2
import gzip
import json
import lzma
import os
import re
import struct
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from parley.cli.main import app
from parley.demo.provision import provision
from parley.demo.recipe import STUDY
from parley.federation.extras import EXTRAS, missing
from parley.node.software import IMAGES, ROOMS
from tests.support.command import typed

ROOT = Path(__file__).parents[2]
ABSENT = """
import sys
from importlib.machinery import PathFinder

class Installed(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if {modules} & {{name, name.split(".")[0]}} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Installed
"""
PLAYER = """
import contextlib, io, json, os, subprocess, sys, traceback
from parley.cli.main import main

def beside(program, words):
    # A command that becomes a role's process would end this one.
    done = subprocess.run(words, capture_output=True, text=True)
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr)
    raise SystemExit(done.returncode)

os.execv = beside
for words in json.load(sys.stdin):
    code, out, err = 0, io.StringIO(), io.StringIO()
    sys.argv = ["parley", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as done:
            code = done.code or 0
        except BaseException:
            code = -1
            traceback.print_exc()
    print(json.dumps([words, code, out.getvalue(), err.getvalue()]), file=sys.__stdout__, flush=True)
"""
APPROVAL = "--by me --digest {digest}"
WITHOUT = {
    # These do without, as far as an installation, files or a federation at hand let them.
    "accept": "nowhere nowhere",
    "aggregator run": "nowhere",
    "aggregator status": "north",
    "aggregator withdraw": "north heart-disease --by me",
    "audit verify": "lead",
    "backup": "va -o va.backup --to nobody",
    "bench aggregate": "--parties 2 --dimension 8",
    "bench gradients": "--seconds 0.1",
    "bench noise": "--dimension 8 --no-baseline",
    "ca approve": "nowhere --fingerprint 00 --out there",
    "ca init": "banks --folder banks",
    "ca inspect": "nowhere",
    "ca revoke": "nowhere --reason left --out there",
    "ca revoked": "--folder authority",
    "ca show": "--folder authority",
    "coordinator run": "nowhere",
    "coordinator status": "lead",
    "evidence answer": "lead 00112233 --by me --reason why",
    "evidence list": "lead",
    "evidence verify": "nowhere",
    "export": "nowhere --output model.npz",
    "health": "nowhere",
    "init": "study-of-mine",
    "join": "nowhere",
    "ledger show": "nowhere",
    "ledger verify": "nowhere",
    "manifest digest": "study.toml",
    "model show": "study.toml --files",
    "node install": "nowhere",
    "node notify": "va",
    "node revoked": "--node va",
    "node renew": "--folder one",
    "node request": "parley://banks/party/one --folder one",
    "node rotate": "--folder one",
    "node show": "--folder va/identity",
    "noise certificate": "--samples 1e5 --epsilon 1 --delta 1e-5",
    "party check": "va --run study.toml",
    "party exclude": "va",
    "party policy": "va",
    "party populations": "va",
    "party refuse": "va nowhere --by me --reason no",
    "party run": "nowhere",
    "party runs": "va",
    "party settle": "nowhere",
    "party status": "va",
    "party withdraw": "va heart-disease --by me",
    "pin accept": "nowhere --folder va/identity",
    "pin add": "aggregator/north 00 --folder va/identity",
    "pin list": "--folder va/identity",
    "pin remove": "aggregator/nobody --folder va/identity",
    "predict": "nowhere.npz rows.csv --output -",
    "reproduce cifar10": "--data nowhere --show",
    "report make": "va --output report.html",
    "report verify": "nowhere",
    "restore": "--confirm va --by me",
    "upgrade": "va --check",
    "resume": "heart-disease --node lead",
    "reviewer key": "-o ada.key --name ada",
    "reviewer show": "nowhere",
    "run": "study.toml --node lead",
    "schema check": "va",
    "schema confirm": "nowhere --by me",
    "schema diff": "nowhere nowhere",
    "schema draft": "nowhere",
    "schema study": "va",
    "status": "--node lead",
    "stop": "heart-disease --node lead",
    "study made-up": "study-of-mine/study.toml --output made-up.csv",
    "watch": "heart-disease --node lead",
    # The lemma of the paper's accountant needs no numbers of others.
    "privacy epsilon": "--records 99 --batch 9 --rounds 9 --noise-multiplier 9 --delta 1e-5 --accountant paper",
}
WITH = {
    "aggregator approve": f"north study.toml {APPROVAL}",
    "audit attacks": "--list",
    "audit privacy": "--runs 100",
    "bench train": "--parties 2 --rounds 10",
    "dashboard": "nowhere",
    "page": "va",
    "coordinator approve": f"lead study.toml {APPROVAL}",
    "demo": "--output demo",
    "doctor": "va --manifest study.toml",
    "invite": "invited --all",
    "manifest check": "study.toml",
    "manifest draft": "study-of-mine/study.toml -o drafted.toml",
    "model check": "parley.networks.mnist:cnn --input 1,28,28 --outputs 10",
    "party approve": f"va study.toml {APPROVAL}",
    "privacy calibrate": "--records 99 --batch 9 --rounds 9 --epsilon 1 --delta 1e-5",
    "privacy rounds": "--records 99 --batch 9 --noise-multiplier 9 --epsilon 1 --delta 1e-5",
    "provision": "provisioned",
    "reproduce a9a": "--data {data} --seeds 1 --method ddp-srm",
    "reproduce adaptive": "--data {data} --seeds 1 --passes 0.01",
    "reproduce convex": "--data {data} --seeds 1 --only wine",
    "reproduce figures": "--data {data} --out pictures",
    "reproduce ijcnn1": "--data {data} --seeds 1 --method ddp-srm",
    "reproduce mnist": "--data {data} --seeds 1 --only scattering/dp-sgd/eps1.2/m1/own0",
    "simulate": "simulated.toml",
    "study plan": "simulated.toml",
    "study sweep": "simulated.toml",
}
BY = {"model check": "torch", "reproduce figures": "plots", "dashboard": "dashboard", "page": "dashboard",
      "audit attacks": "dashboard"}  # fmt: skip
"""What needs an extra: `accounting`, or one of these."""
OF_SERVERS = (
    "aggregator approve", "aggregator run", "aggregator status", "aggregator withdraw",
    "coordinator approve", "coordinator run", "coordinator status", "dashboard", "export",
    "invite", "manifest check", "manifest draft", "predict", "resume", "run", "simulate", "status", "stop",
    "study made-up", "study plan", "study sweep", "watch",
)  # fmt: skip
OF_NO_NODE = (
    "audit attacks", "audit privacy", "bench aggregate", "bench gradients", "bench noise", "bench train", "demo",
    "page", "provision", "reproduce a9a", "reproduce adaptive", "reproduce cifar10", "reproduce convex",
    "reproduce figures", "reproduce ijcnn1", "reproduce mnist",
)  # fmt: skip
NOT_IN = {
    "party": (*OF_SERVERS, *OF_NO_NODE),
    "server": OF_NO_NODE,
    "demo": tuple(name for name in OF_NO_NODE if name != "provision"),
}
"""Commands of rooms that an image does not hold."""
RUN_FILE = """
data.train = ["a9a/a9a.xz"]
schema.nonzeros = 14
schema.features = { count = 123, low = 0, high = 1, whole = true }
schema.target = { name = "label", kind = "binary", positive = ["1"], negative = ["-1"] }
model.kind = "logistic"
algorithm.name = "dp-gd"
privacy = { epsilon = 1.0, delta = 1e-5 }
"""


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[str]:
    if not hasattr(command, "commands"):
        yield " ".join(words)
        return
    for name, each in command.commands.items():
        yield from leaves(each, (*words, name))


def data_sets(folder: Path) -> None:
    """Sixty records of each that `reproduce` and `simulate` read before they calibrate; `convex` does that first."""
    lines = b"\n".join((b"+1 3:1 11:1", b"-1 5:1 14:1", b"-1 3:1 5:1") * 20) + b"\n"
    tested = lines[: len(lines) // 2]  # a test set that is the records themselves is refused
    images = struct.pack(">IIII", 0x803, 60, 28, 28) + bytes(60 * 784)
    labels = struct.pack(">II", 0x801, 60) + bytes(range(10)) * 6
    for name, content in {
        "a9a/a9a.xz": lzma.compress(lines),
        "a9a/a9a.t.xz": lzma.compress(tested),
        "ijcnn1/ijcnn1.bz2": bz2.compress(lines),
        "ijcnn1/ijcnn1.t.bz2": bz2.compress(tested),
        "mnist/train-images-idx3-ubyte.gz": gzip.compress(images),
        "mnist/train-labels-idx1-ubyte.gz": gzip.compress(labels),
        "mnist/t10k-images-idx3-ubyte.gz": gzip.compress(images),
        "mnist/t10k-labels-idx1-ubyte.gz": gzip.compress(labels),
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)


def play(folder: Path, absent: set[str], chosen: dict[str, str]) -> dict[str, tuple[int, str, str]]:
    """Exit code, standard output and standard error of every command."""
    manifest = STUDY.manifest()
    provision(folder, manifest, 4, lambda _: None)
    (folder / "simulated.toml").write_text(RUN_FILE)
    assert typed("", "init", str(folder / "invited"), "--parties", "a=300,b=200", "--local").returncode == 0
    data_sets(folder)
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(ABSENT.format(modules=absent))
    commands = [
        [*name.split(), *rest.format(digest=manifest.digest.hex(), data=".").split()] for name, rest in chosen.items()
    ]
    done = subprocess.run(
        [sys.executable, "-c", PLAYER],
        input=json.dumps(commands), capture_output=True, text=True, cwd=folder, timeout=900, check=False,
        env={**os.environ, "PYTHONPATH": str(folder / "site")},
    )  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('[["')]
    assert len(found) == len(commands), done.stderr
    return {name: (code, out, err) for name, (_, code, out, err) in zip(chosen, found, strict=True)}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, str]]:
    return play(tmp_path_factory.mktemp("bare"), set(EXTRAS), {**WITHOUT, **WITH})


def test_every_command_is_played() -> None:
    assert sorted(leaves(typer.main.get_command(app))) == sorted([*WITHOUT, *WITH])


@pytest.mark.parametrize("name", WITHOUT)
@pytest.mark.slow
def test_a_command_that_needs_no_extra_does_not_miss_one(played: dict[str, tuple[int, str, str]], name: str) -> None:
    code, _, err = played[name]
    assert code in (0, 1, 2, 3), err
    assert "Traceback" not in err
    assert "not installed" not in err


@pytest.mark.parametrize("name", WITH)
def test_a_command_that_needs_an_extra_says_so(played: dict[str, tuple[int, str, str]], name: str) -> None:
    code, out, err = played[name]
    assert "Traceback" not in err
    advice = f"pip install 'parley-federation[{BY.get(name, 'accounting')}]'"
    if name == "doctor":  # goes on, and reports all that it could look at
        assert (code, advice in out) == (1, True), out
        return
    assert code == 2, err
    last = err.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert f"is not installed here: {advice}" in last


@pytest.mark.slow
@pytest.mark.parametrize("image", list(IMAGES))
def test_an_image_plays_its_nodes_commands_and_says_of_others_that_they_are_not_in_it(
    tmp_path: Path, image: str
) -> None:
    """Also that it is the rooms that are missing, and no module in one that is there."""
    absent = set(ROOMS) - set(IMAGES[image])
    told = play(tmp_path, {f"parley.{room}" for room in absent}, {**WITHOUT, **WITH})
    for name, (code, out, err) in told.items():
        assert "Traceback" not in err, (name, err)
        if name in NOT_IN[image]:
            assert code == 2, (name, out, err)
            last = err.strip().splitlines()[-1]
            room = re.fullmatch(r"error: parley\.(\w+) is not in this image: run this command where .*", last)
            assert room is not None, (name, err)
            assert room[1] in absent
        else:
            assert code in (0, 1, 2, 3), (name, err)
            assert "not in this image" not in out + err, (name, out, err)


def test_the_modules_are_those_of_the_projects_extras() -> None:
    """An extra that names others of ours is for a kind of user; no command misses what it adds by itself."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    basic = [extra for extra, lines in declared.items() if not any("parley-federation[" in line for line in lines)]
    basic.remove("wheels")  # for `make wheels`: no command's
    by_extra = {extra: {module for module, of in EXTRAS.items() if of == extra} for extra in basic}
    names = {extra: {re.split(r"[\[>=]", line)[0].replace("-", "_") for line in declared[extra]} for extra in by_extra}
    names["mlflow"] = {"mlflow"}  # its slim distribution has another name
    names["report"] = {"fpdf"}  # so has this; the letters are matplotlib's, for which `plots` is said
    assert names == by_extra


def test_what_no_extra_brings_is_a_defect_and_not_hidden() -> None:
    assert missing(ModuleNotFoundError("No module named 'nothing'", name="nothing")) is None
    assert missing(ImportError("cannot import name 'x'")) is None
