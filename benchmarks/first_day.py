"""A newcomer's first day: from a table that nobody here has seen to a first figure at ε = 1, counted.

    python benchmarks/first_day.py TABLE.csv            # as README says it now
    python benchmarks/first_day.py TABLE.csv --before PARLEY     # as at 9370743, whose command is at PARLEY

TABLE.csv is the supplement "SBA Case" of Li, Mickel and Taylor (2018): loans of 154 banks, with words and gaps. Its
column `Selected` says which half is public test data. The newcomer is a rule, so that anybody can count again: write
the document as the README's example shows it, with bounds and words of the publisher's description, run the command,
do the least that the error asks for, and look into a page only when an error leaves no other way.
What is counted: calls (commands and scripts), failures (calls that did not end with 0), pages opened, documents
written, and seconds of the machine.
"""

import argparse
import csv
import json
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

NUMBERS = {"NoEmp": 100, "CreateJob": 50, "RetainedJob": 50, "DisbursementGross": 1_000_000, "SBA_Appv": 1_000_000}
WORDS = {
    "NewExist": ["1", "2"],
    "UrbanRural": ["0", "1", "2"],
    "RevLineCr": ["Y", "N"],
    "LowDoc": ["Y", "N"],
    "BankState": ["CA"],
}
MOST_CALLS = 60


@dataclass
class Day:
    """What a newcomer did, and what came of it."""

    folder: Path
    calls: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    pages: set[str] = field(default_factory=set)
    documents: set[str] = field(default_factory=set)
    seconds: float = 0.0

    def call(self, *command: str | Path) -> str | None:
        """What a call says if it failed."""
        began = time.perf_counter()
        words = [str(each) for each in command]
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False)
        self.seconds += time.perf_counter() - began
        self.calls.append(" ".join([Path(words[0]).name, *words[1:]]))
        if done.returncode == 0:
            print(done.stdout)
            return None
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1]
        self.failures.append(said)
        return said

    def write(self, name: str, text: str) -> None:
        self.documents.add(name)
        (self.folder / name).write_text(text)

    def report(self) -> None:
        for line in self.failures:
            print(f"  {line}")
        print(
            f"calls {len(self.calls)}, failures {len(self.failures)}, documents {len(self.documents)}, "
            f"pages {len(self.pages)} ({', '.join(sorted(self.pages))}), seconds {self.seconds:.1f}"
        )


def halves(table: Path, folder: Path) -> None:
    """train.csv and test.csv, as the publisher split them."""
    with table.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for name, selected in (("train.csv", "1"), ("test.csv", "0")):
        with (folder / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(row for row in rows if row["Selected"] == selected)


def run_file(known: dict[str, list[str]], rules: dict[str, dict[str, str]]) -> str:
    """As the README's example had it, with the rules found so far."""
    features = [f'    {{ name = "{name}", low = 0, high = {high} }},' for name, high in NUMBERS.items()]
    for name, words in known.items():
        listed = ", ".join(f'"{word}"' for word in words)
        more = "".join(f', {key} = "{value}"' for key, value in rules.get(name, {}).items())
        features.append(f'    {{ kind = "category", name = "{name}", categories = [{listed}]{more} }},')
    return "\n".join(
        [
            '[data]\ntrain = ["train.csv"]\ntest = ["test.csv"]\n[schema]\nintercept = true',
            'target = { name = "Default", kind = "binary", positive = ["1"], negative = ["0"] }\nfeatures = [',
            *features,
            ']\n[model]\nkind = "logistic"\n[algorithm]\nname = "auto"\n[privacy]\nepsilon = 1.0\ndelta = 1e-5\n',
        ]
    )


def before(day: Day, parley: Path) -> None:
    """Errors came one at a time: "add a category or a rule". A second one of a column leads to docs/schema.md."""
    day.pages |= {"README.md"}
    rules: dict[str, dict[str, str]] = {}
    words = {name: list(known) for name, known in WORDS.items()}
    added: set[str] = set()
    while len(day.calls) < MOST_CALLS:
        day.write("run.toml", run_file(words, rules))
        said = day.call(parley, "simulate", "run.toml", "--seeds", "5")
        if said is None:
            return
        if empty := re.search(r"column (\w+) is empty", said):
            day.pages.add("docs/schema.md")
            rules.setdefault(empty[1], {})["missing"] = "zero"
        elif (word := re.search(r"column (\w+) has '(.*?)'", said)) and word[1] not in added:
            added.add(word[1])
            words[word[1]].append(word[2])
        elif word:
            day.pages.add("docs/schema.md")
            rules.setdefault(word[1], {})["other"] = "zero"
        else:
            return


CODEBOOK = "Li, Mickel and Taylor, Should This Loan be Approved or Denied?, 2018, table 1"
SCRIPT = """from parley import study

s = study.Study("schema.toml", model="logistic", epsilon=1.0)
result = s.simulate("train.csv", test="test.csv", seeds=5)
print(result)
result.plot("curve.png")
result.save("model.npz")
"""


def confirmed_by_hand(draft: str) -> str:
    """What a person does with a draft: leave columns out, give bounds, keep the codebook's words, name the codebook."""
    lines = [line for line in draft.splitlines(keepends=True) if not line.startswith("#~")]
    head, *features = "".join(lines).split("[[features]]\n")
    kept = []
    for each in features:
        column = tomllib.loads(each)
        name = column["name"]
        if name in NUMBERS and "low" not in column:
            kept.append(f'name = "{name}"\nkind = "number"\nlow = 0\nhigh = {NUMBERS[name]}\nmissing = "centre"\n')
        elif name in NUMBERS:
            kept.append(each)  # a count, with public bounds of its own
        elif name in WORDS:
            body = f'name = "{name}"\nkind = "category"\ncategories = {json.dumps(WORDS[name])}\n'
            kept.append(f'{body}missing = "zero"\nother = "zero"\nsource = "{CODEBOOK}"\n')
    head = head.replace('source = ""', f'source = "{CODEBOOK}"')  # of the target's labels
    return head + "\n".join(f"[[features]]\n{each}" for each in kept)


def after(day: Day) -> None:
    """A draft of what columns mean, a person's word on it, and a script of six lines."""
    day.pages |= {"README.md"}
    parley = Path(sys.executable).with_name("parley")
    if day.call(parley, "schema", "draft", "train.csv", "--target", "Default"):
        return
    day.write("schema.toml", confirmed_by_hand((day.folder / "schema.toml").read_text()))
    if day.call(parley, "schema", "confirm", "schema.toml", "--by", "a newcomer"):
        return
    (day.folder / "first.py").write_text(SCRIPT)
    if day.call(sys.executable, "first.py") is None:
        print("made:", ", ".join(name for name in ("model.npz", "curve.png") if (day.folder / name).is_file()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--before", type=Path, metavar="PARLEY")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        day = Day(Path(folder))
        halves(given.table, day.folder)
        if given.before:
            before(day, given.before.absolute())
        else:
            after(day)
        day.report()


if __name__ == "__main__":
    main()
