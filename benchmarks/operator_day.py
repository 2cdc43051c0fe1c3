"""From nothing to a finished, exported, audited run, by typing what the documents say, and counted.

    python benchmarks/operator_day.py              # prints the table of docs/experiments/operator-day.md

The first command stands in docs/federation.md; all others in the README that it writes. Each organisation has a folder
of its own. Whatever goes by mail (*.invitation, *.request, *.members) is copied from folder to folder; whatever is read
out by telephone is what another organisation's screen showed, typed at the prompt that asks for it. Nothing else is
done: no file is edited, and a command that does not end with 0 is an error. Hosts are loopback addresses here.
"""

import contextlib
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "federation.md"
LEAD = "lead"
STEP = re.compile(r"^### (\S+)\n+```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PHASE = re.compile(r"^## (\d+)\. (.*)$", re.MULTILINE)
PROMPT = re.compile(r"operator of \S+ (\S+) reads out: $")
NUMBER = re.compile(r"^number +([0-9a-f:]{39})$", re.MULTILINE)
SERVES = re.compile(r"parley (party|aggregator|coordinator) run ")
OFFICER = "7"
BEFORE = {"commands": 34, "files": 11, "errors": 8, "minutes": 45}
"""Of the operator's walk as it was first tried, for all organisations together; minutes of a person, estimated."""
TYPING_SECONDS = 20.0
"""Of a person, for a command that is copied from a page; a number read out and typed takes as long."""
GIVE_UP_SECONDS = 1800.0


@dataclass
class Telephone:
    """What was shown on whose screen, for those who ask. A number of the list is not one of a request."""

    said: dict[tuple[str, str], str] = field(default_factory=dict)
    heard: threading.Condition = field(default_factory=threading.Condition)
    typed: int = 0

    def say(self, name: str, about: str, number: str) -> None:
        with self.heard:
            self.said[name, about] = number
            self.heard.notify_all()

    def ask(self, name: str, about: str) -> str:
        with self.heard:
            if not self.heard.wait_for(lambda: (name, about) in self.said, GIVE_UP_SECONDS):
                raise TimeoutError(f"{name} read no number of {about} out")
            self.typed += 1
            return self.said[name, about]


@dataclass
class Organisation:
    """A folder, and what was typed in it."""

    name: str
    folder: Path
    commands: list[str] = field(default_factory=list)
    officer: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    serving: "list[subprocess.Popen[str]]" = field(default_factory=list)
    output: dict[str, str] = field(default_factory=dict)
    """What each command printed."""

    def type(self, line: str, telephone: Telephone, officer: bool) -> None:
        (self.officer if officer else self.commands).append(line)
        words = shlex.split(line)
        command = [sys.executable, "-m", "parley.cli.main", *words[1:]]
        process = subprocess.Popen(
            command, cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        if SERVES.match(line):
            self.serving.append(process)
            self._until_ready(process, line)
            return
        about = "members" if any(word.endswith(".members") for word in words) else "request"
        screens = [_Screen(self.name, process, stream, telephone, about) for stream in (process.stdout, process.stderr)]
        try:
            process.wait(GIVE_UP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        for screen in screens:
            screen.join()
        self.output[line] = "".join(screen.text for screen in screens)
        if process.returncode:
            self.errors.append(f"{self.name}: {line}: {self.output[line][-600:]}")

    def _until_ready(self, process: "subprocess.Popen[str]", line: str) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        threading.Thread(target=process.stderr.read, daemon=True).start()
        if '"ready"' not in process.stdout.readline():
            self.errors.append(f"{self.name}: {line}: ended with {process.wait()}")


class _Screen(threading.Thread):
    """Reads one stream of a command, says what it shows, and answers what it asks."""

    def __init__(
        self, name: str, process: "subprocess.Popen[str]", stream: "object", telephone: Telephone, about: str
    ) -> None:
        super().__init__(daemon=True)
        self._name, self._process, self._stream = name, process, stream
        self._telephone, self._about, self.text = telephone, about, ""
        self.start()

    def run(self) -> None:
        line = ""
        while each := self._stream.read(1):  # type: ignore[attr-defined]
            self.text += each
            line = "" if each == "\n" else line + each
            if each == "\n" and (shown := NUMBER.search(self.text.splitlines()[-1])):
                self._telephone.say(self._name, self._about, shown[1])
            if asked := PROMPT.search(line):
                line = ""
                assert self._process.stdin is not None
                self._process.stdin.write(self._telephone.ask(asked[1], self._about) + "\n")
                self._process.stdin.flush()


@dataclass
class Day:
    """Everybody's."""

    folder: Path
    organisations: dict[str, Organisation] = field(default_factory=dict)
    telephone: Telephone = field(default_factory=Telephone)
    seconds: float = 0.0

    def organisation(self, name: str) -> Organisation:
        if name not in self.organisations:
            (self.folder / name).mkdir()
            self.organisations[name] = Organisation(name, self.folder / name)
        return self.organisations[name]

    @property
    def errors(self) -> list[str]:
        return [error for each in self.organisations.values() for error in each.errors]

    def mail(self, study: Path) -> None:
        """To each what is for it: an invitation to its institution, requests to the lead, the list to everybody."""
        for name, each in self.organisations.items():
            for path in (study / "invitations").glob(f"{name}.invitation"):
                _copied(path, each.folder)
            for path in each.folder.glob("*/*.request"):
                _copied(path, study)
            for path in study.glob("*.members"):
                _copied(path, each.folder)

    def stop(self) -> None:
        for each in self.organisations.values():
            for process in each.serving:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
        for each in self.organisations.values():
            for process in each.serving:
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)


def _copied(path: Path, folder: Path) -> None:
    if not (folder / path.name).exists():
        shutil.copy(path, folder / path.name)


def first_command(page: Path = PAGE) -> str:
    """As the page has it, in one line."""
    found = re.search(r"^(parley init \S+ --parties .*?)(?<!\\)$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert found, page
    return re.sub(r"\\\n\s*", "", found[1])


def on_this_machine(line: str, ports: Sequence[int]) -> str:
    """The same command with loopback addresses for its hosts."""
    hosts = iter(ports)
    return re.sub(r"=[a-z]+\.example\.org", lambda _: f"=127.0.0.1:{next(hosts)}", line)


def steps(readme: str) -> Iterator[tuple[str, list[tuple[str, list[str]]]]]:
    """Phases in order; of each, who types what."""
    parts = PHASE.split(readme)[1:]
    for number, body in zip(parts[::3], parts[2::3], strict=True):
        yield number, [(name, block.splitlines()) for name, block in STEP.findall(body)]


def runs_of_ports(count: int, length: int) -> list[int]:
    """`count` first ports of so many free ones in a row, by the kernel's word; all held until all are found."""
    with contextlib.ExitStack() as held:
        found: list[int] = []
        while len(found) < count:
            with contextlib.ExitStack() as tried:
                try:
                    first = tried.enter_context(_bound(0)).getsockname()[1]
                    for port in range(first + 1, first + length):
                        tried.enter_context(_bound(port))
                except (OSError, OverflowError):
                    continue
                held.enter_context(tried.pop_all())
                found.append(first)
        return found


def _bound(port: int) -> socket.socket:
    made = socket.socket()
    try:
        made.bind(("127.0.0.1", port))
    except BaseException:
        made.close()
        raise
    return made


def records(path: Path, rows: int, seed: int) -> None:
    """Made up, with the columns of the example: whoever is older and has more pressure is ill more often."""
    draw = random.Random(seed)
    lines = ["age,pressure,pain,sick"]
    for _ in range(rows):
        age, pressure = draw.randint(25, 85), draw.randint(90, 200)
        sick = int(draw.random() < (age - 20) / 100 + (pressure - 90) / 400)
        lines.append(f"{age},{pressure},{draw.choice(['typical', 'atypical', 'none'])},{sick}")
    path.write_text("\n".join(lines) + "\n")


def walk(folder: Path, line: str | None = None, together: bool = False) -> Day:
    """Everything, from the first command on. `together`: one folder for everybody, as the README of --local says it."""
    day, began = Day(folder), time.monotonic()
    lead = day.organisation(LEAD)
    first = line or on_this_machine(first_command(), runs_of_ports(3, 3))
    lead.type(first, day.telephone, officer=False)
    study = lead.folder / shlex.split(first)[2]
    lead.folder = study
    parties = re.findall(r"([a-z0-9-]+)=(\d+)", shlex.split(first)[shlex.split(first).index("--parties") + 1])
    try:
        for number, typed in steps((study / "README.md").read_text()):
            for name, _ in typed:
                if together and name not in day.organisations:
                    day.organisations[name] = Organisation(name, study)
                day.organisation(name)
            for seed, (name, units) in enumerate(parties):
                home = day.organisations.get(name)
                if home is not None:
                    records(home.folder / (f"{name}.csv" if together else "records.csv"), int(units), seed)
            if not together:
                day.mail(study)
            threads = [threading.Thread(target=_typed, args=(day, number, *each)) for each in typed]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if day.errors:
                break
    finally:
        day.stop()
    day.seconds = time.monotonic() - began
    return day


def _typed(day: Day, number: str, name: str, lines: Sequence[str]) -> None:
    for line in lines:
        if not day.organisations[name].errors:
            day.organisations[name].type(line, day.telephone, officer=number == OFFICER)


def table(day: Day) -> str:
    """Markdown: before and after, then by organisation."""
    typed = sum(len(each.commands) + len(each.officer) for each in day.organisations.values())
    person = (typed + day.telephone.typed) * TYPING_SECONDS / 60
    lines = [
        "| | commands | files edited | errors | minutes |",
        "| --- | --- | --- | --- | --- |",
        f"| before: two hospitals, without officers | {BEFORE['commands']} | {BEFORE['files']} | {BEFORE['errors']} | "
        f"about {BEFORE['minutes']} of a person |",
        f"| now: two hospitals and their officers | {typed} | 0 | {len(day.errors)} | {day.seconds / 60:.1f} of the "
        f"machine, about {person:.0f} of persons who copy and telephone |",
        "",
        "| who | commands | of them the officer's | numbers typed |",
        "| --- | --- | --- | --- |",
    ]
    for name, each in day.organisations.items():
        numbers = sum(len(PROMPT_ANYWHERE.findall(text)) for text in each.output.values())
        lines.append(f"| {name} | {len(each.commands) + len(each.officer)} | {len(each.officer)} | {numbers} |")
    return "\n".join(lines)


PROMPT_ANYWHERE = re.compile(r"operator of \S+ \S+ reads out: ")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        day = walk(Path(folder))
    for error in day.errors:
        print(error, file=sys.stderr)
    print(table(day))
    if day.errors:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
