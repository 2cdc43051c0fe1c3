"""The project's pages as text: what is checked of them, and how their parts are told apart."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {".venv", ".git", "node_modules", ".pytest_cache"}
FENCE = re.compile(r"^( *)(```+)[^\n]*\n(.*?)^\1\2[ ]*$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)


@dataclass(frozen=True)
class Page:
    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def code_blocks(self) -> list[str]:
        """Fenced ones, and runs of lines indented by four blanks after an empty line."""
        blocks = [found.group(3) for found in FENCE.finditer(self.text)]
        indented: list[str] = []
        before = ""
        for line in FENCE.sub("", self.text).splitlines():
            if line.startswith("    ") and (indented or not before.strip()):
                indented.append(line)
            elif indented and line.strip():
                blocks.append("\n".join(indented))
                indented = []
            before = line
        return [*blocks, "\n".join(indented)] if indented else blocks

    @cached_property
    def prose(self) -> str:
        """All but the code blocks; code inside of sentences stays."""
        text = FENCE.sub("", self.text)
        for block in self.code_blocks:
            text = text.replace(block, "")
        return text

    @cached_property
    def inline_code(self) -> list[str]:
        return [" ".join(found.group(2).split()) for found in INLINE.finditer(self.prose)]


def pages() -> list[Page]:
    """Every Markdown page of the repository but the changelog, which tells of names that are gone."""
    found = [path for path in ROOT.rglob("*.md") if not SKIPPED & set(path.relative_to(ROOT).parts)]
    return [Page(path) for path in sorted(found) if path.name != "CHANGELOG.md"]
