"""The code on a page, run as a reader would: its blocks in their order, in one folder and one Python session.

What stands in an HTML comment above a block says how it is run; without one, `python` and `sh` blocks must succeed.

    <!-- not run: REASON -->          left out, and why
    <!-- run by: tests/… -->          another test runs it
    <!-- slow -->                     run by `make test-slow` only, with all others of its page
    <!-- fails: TEXT -->              must fail, and TEXT stand in what it says
    <!-- prints -->                   above a `text` block: its lines were printed before, in this order; … is anything
    <!-- saved as: FILE -->           any language: written to the folder, for the blocks after it
    <!-- first, in python: CODE -->   run, and not shown to the reader; also `in sh`
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.docs.pages import ROOT, Page

PARTS = re.compile(
    r"^<!--(?P<comment>.*?)-->[ ]*$|^(?P<fence>```+)(?P<language>[^\n]*)\n(?P<source>.*?)^(?P=fence)[ ]*$",
    re.MULTILINE | re.DOTALL,
)
HIDDEN = re.compile(r"first, in (python|sh):(.*)", re.DOTALL)
WORD = re.compile(r"(not run|run by|fails|saved as): (.+)|(slow|prints)", re.DOTALL)
RUN = ("python", "sh")
LANGUAGES = (*RUN, "toml", "json", "csv", "sql", "text")
RECORDS = ROOT / "deploy" / "parley" / "demo" / "data" / "heart_disease"


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    source: str
    word: str = ""
    """Of the comment above: not run, run by, fails, saved as, slow, prints; empty where there is none"""
    about: str = ""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Page) -> Iterator[Block]:
    """A comment belongs to the block that follows it with nothing but empty lines between."""
    word, about, end = "", "", 0
    for found in PARTS.finditer(page.text):
        if page.text[end : found.start()].strip():
            word, about = "", ""
        end = found.end()
        line = page.text.count("\n", 0, found.start()) + 1
        if found["fence"]:
            yield Block(page.name, line, found["language"].strip(), found["source"], word, about)
            word, about = "", ""
            continue
        comment = found["comment"].strip()
        if hidden := HIDDEN.fullmatch(comment):
            yield Block(page.name, line, hidden[1], hidden[2].strip() + "\n")
        elif said := WORD.fullmatch(comment):
            word, about = said[1] or said[3], " ".join((said[2] or "").split())


def run(page: Page, folder: Path, slow: bool) -> list[str]:
    """What went wrong: nothing, or one sentence. `folder` gets a clone, with a trial's documents and records in it."""
    clone = furnished(folder / "clone")
    home = folder / "home"
    home.mkdir()
    chosen = [each for each in blocks(page) if each.word not in ("not run", "run by") and (slow or each.word != "slow")]
    done = subprocess.run(
        [sys.executable, "-P", Path(__file__).with_name("session.py")],
        input=json.dumps([asdict(each) for each in chosen]),
        cwd=clone,
        env=os.environ
        | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(home)}
        | {"COLUMNS": "120", "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)},  # a hidden block may use tests.docs
        capture_output=True,
        text=True,
        check=False,
    )
    return [] if done.returncode == 0 else [done.stdout + done.stderr]


def furnished(clone: Path) -> Path:
    """A clone as README's walk has it, and in it the example's documents and the bundled records."""
    clone.mkdir()
    for name in ("examples", "deploy"):
        (clone / name).symlink_to(ROOT / name)
    for path in (*(ROOT / "examples" / "own-data").iterdir(), *RECORDS.glob("*.csv")):
        shutil.copy(path, clone)
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / "bin" / "activate").write_text(f'export PATH="{Path(sys.executable).parent}:$PATH"\n')
    return clone


def unsaid(page: Page) -> list[str]:
    """Blocks that nothing runs and that do not say why."""
    wrong = []
    for each in blocks(page):
        if each.language not in LANGUAGES:
            wrong.append(f"{each.place}: is {each.language or 'without a language'}: use {', '.join(LANGUAGES)}")
        if each.word == "run by":
            test = ROOT / each.about
            if not test.is_file() or Path(page.name).name not in test.read_text():
                wrong.append(f"{each.place}: {each.about} is no test that names {Path(page.name).name}")
        if each.word == "not run" and len(each.about.split()) < 3:
            wrong.append(f"{each.place}: say why it is not run")
        if each.word == "prints" and each.language != "text":
            wrong.append(f"{each.place}: prints stands above a text block")
    return wrong
