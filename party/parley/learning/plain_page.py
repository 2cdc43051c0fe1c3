"""A page of plain words, and its two forms: Markdown, and HTML that needs no other file and runs nothing.

What a page says may come from a stranger's file: every word is escaped, and none is ever a mark.
"""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

LONGEST = 600
"""Characters of one cell."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Should a mark ever get through, it still runs nothing and asks nobody."""
STYLE = """
:root { color-scheme: light dark; --ink: #16191c; --soft: #5a626b; --line: #d9dbd7; --faint: #f4f5f2;
  --warn: #fbe6e3; --accent: #0f766e; --ground: #fff }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e9ea; --soft: #9ba4ac; --line: #3a4248; --faint: #1d2226;
  --warn: #3a1b17; --accent: #4fc3b5; --ground: #15191c } }
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --line: #bbb; --faint: #fff; --warn: #fff;
  --accent: #0f766e; --ground: #fff } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--ground);
  max-width: 52rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: break-word }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .3rem }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; color: var(--accent); break-after: avoid }
p { margin: .5rem 0 } li { margin: .25rem 0 } .quiet { color: var(--soft) }
.warning { background: var(--warn); border: 1px solid var(--line); border-radius: 6px;
  padding: .7rem 1rem; font-weight: 600 }
blockquote { margin: .8rem 0; padding: .4rem 1rem; border-left: 4px solid var(--accent); background: var(--faint) }
.wide { overflow-x: auto } table { border-collapse: collapse; width: 100%; font-size: .93rem }
tr { break-inside: avoid }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid var(--line) }
"""


@dataclass(frozen=True)
class Table:
    """Rows under a head."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Quote:
    """A sentence that is somebody's word."""

    text: str


@dataclass(frozen=True)
class Points:
    """A list."""

    each: tuple[str, ...]


Block = str | Table | Quote | Points


@dataclass
class Page:
    """Text without marks: the two forms below add their own."""

    title: str
    subtitle: str
    warning: str = ""
    sections: list[tuple[str, list[Block]]] = field(default_factory=list)

    def html(self) -> str:
        """One file: no script, no address."""
        body = [f"<h1>{_html(self.title)}</h1>", f'<p class="quiet">{_html(self.subtitle)}</p>']
        if self.warning:
            body.append(f'<p class="warning">{_html(self.warning)}</p>')
        for heading, blocks in self.sections:
            body += [f"<h2>{_html(heading)}</h2>", *(_html_block(block) for block in blocks)]
        return "\n".join(
            [
                '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
                f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                f"<title>{_html(self.title)}</title>\n<style>{STYLE}</style></head>\n<body><main>",
                *body,
                "</main></body></html>\n",
            ]
        )

    def markdown(self) -> str:
        """CommonMark with tables."""
        parts = [f"# {_markdown(self.title)}", _markdown(self.subtitle)]
        if self.warning:
            parts.append(f"> **{_markdown(self.warning)}**")
        for heading, blocks in self.sections:
            parts += [f"## {_markdown(heading)}", *(_markdown_block(block) for block in blocks)]
        return "\n\n".join(parts) + "\n"


def text(value: Any) -> str:
    """Anything as one short line."""
    try:
        found = "–" if value is None else str(value)
    except RecursionError:
        found = "…"
    line = " ".join(
        "".join(each if each.isprintable() or each.isspace() else "�" for each in found[: 2 * LONGEST]).split()
    )
    return (line if len(line) <= LONGEST else line[: LONGEST - 1] + "…") or "–"


def _html(line: str) -> str:
    """What is long and has no blank, such as a digest, may be broken anywhere."""
    parts = re.split(r"(\S{32,})", line)
    return "".join(_broken(each) if index % 2 else html.escape(each) for index, each in enumerate(parts))


def _broken(word: str) -> str:
    return "<wbr>".join(html.escape(word[start : start + 16]) for start in range(0, len(word), 16))


def _html_block(block: Block) -> str:
    if isinstance(block, Quote):
        return f"<blockquote>{_html(block.text)}</blockquote>"
    if isinstance(block, Points):
        return "<ul>" + "".join(f"<li>{_html(each)}</li>" for each in block.each) + "</ul>"
    if isinstance(block, str):
        return f"<p>{_html(block)}</p>"
    head = "".join(f'<th scope="col">{_html(each)}</th>' for each in block.head)
    rows = "\n".join("<tr>" + "".join(f"<td>{_html(each)}</td>" for each in row) + "</tr>" for row in block.rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>'


def _markdown(line: str) -> str:
    """No character is a mark, and none begins a list, a heading or an address."""
    escaped = re.sub(r"([\\`*_{}\[\]<>#|~!&$@])", r"\\\1", line.strip())
    escaped = escaped.replace("://", r"\://").replace("www.", r"www\.")
    return re.sub(r"^(\d*)([-+=.)])(?=\s|$|[-+=])", r"\1\\\2", escaped)


def _markdown_block(block: Block) -> str:
    if isinstance(block, Quote):
        return f"> {_markdown(block.text)}"
    if isinstance(block, Points):
        return "\n".join(f"- {_markdown(each)}" for each in block.each)
    if isinstance(block, str):
        return _markdown(block)
    lines: list[Sequence[str]] = [block.head, ["---"] * len(block.head), *block.rows]
    return "\n".join(
        "| " + " | ".join(each if index == 1 else _markdown(each) for each in row) + " |"
        for index, row in enumerate(lines)
    )
