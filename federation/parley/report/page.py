"""The report as one HTML file: no script, no address, printable on A4; the signed envelope is in its head."""

import html
import re

from parley.report.blocks import Block, Document, Heading, Points, Rows, Table, Text
from parley.report.document import document
from parley.report.signed import Report

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Should a mark ever get through, it still runs nothing and asks nobody."""
STYLE = """
:root { color-scheme: light dark; --ink: #16191c; --soft: #565e67; --line: #d5d8d3; --accent: #0b6b63;
  --warn: #fbe6e3; --ground: #fff }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e9ea; --soft: #a3acb4; --line: #3a4248; --accent: #5acbbd;
  --warn: #46201b; --ground: #15191c } }
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: var(--ink); background: var(--ground);
  max-width: 54rem; margin: 1.6rem auto; padding: 0 1rem; overflow-wrap: anywhere }
h1 { font-size: 1.55rem; line-height: 1.25; margin: 0 0 .2rem }
h2 { font-size: 1.05rem; margin: 1.5rem 0 .35rem; color: var(--accent); break-after: avoid }
p { margin: .4rem 0 } ul { margin: .3rem 0; padding-left: 1.2rem } li { margin: .2rem 0 }
.quiet, footer { color: var(--soft); font-size: .88em } .big { font-size: 1.2rem; font-weight: 600 }
.warning { background: var(--warn); border: 1px solid var(--line); padding: .4rem .7rem; font-weight: 600 }
table { border-collapse: collapse; width: 100%; font-size: .9em; table-layout: fixed; margin: .3rem 0 }
tr { break-inside: avoid }
th, td { text-align: left; vertical-align: top; padding: .22rem .6rem .22rem 0; border-bottom: 1px solid var(--line) }
th { font-weight: 600 } .n { text-align: right; font-variant-numeric: tabular-nums }
.rows th { width: 26%; font-weight: 400; color: var(--soft) }
footer { margin: 1.2rem 0; border-top: 1px solid var(--line); padding-top: .5rem }
@media (max-width: 34rem) { table:not(.rows) { font-size: .78em } .rows th { width: 34% } }
@page { size: A4; margin: 12mm 14mm }
@media print {
  :root { color-scheme: light; --ink: #000; --soft: #444; --line: #bbb; --accent: #0b6b63; --warn: #fff;
    --ground: #fff }
  body { font-size: 9pt; line-height: 1.34; margin: 0; padding: 0; max-width: none }
  h1 { font-size: 15pt } h2 { font-size: 10.5pt; margin: 7pt 0 2pt } .big { font-size: 11pt }
  p, li { margin: 1.5pt 0 } th, td { padding: 1pt 6pt 1pt 0 } footer { margin: 6pt 0 0; padding-top: 3pt }
}
"""


def page(report: Report) -> str:
    """Drawn from the signed content alone."""
    found = document(report.content)
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta name="parley-report" content="{report.meta}">',
            f"<title>{_line(found.title)}</title>\n<style>{STYLE}</style></head>\n<body><main>",
            *_body(found),
            f"</main><footer>{_line(found.foot)}</footer></body></html>\n",
        ]
    )


def _body(found: Document) -> list[str]:
    head = [f"<h1>{_line(found.title)}</h1>", f'<p class="quiet">{_line(found.subtitle)}</p>']
    return head + [_block(each) for each in found.blocks]


def _block(block: Block) -> str:
    match block:
        case Heading():
            return f"<h2>{_line(block.text)}</h2>"
        case Text():
            return f'<p class="{block.kind}">{_line(block.text)}</p>' if block.kind else f"<p>{_line(block.text)}</p>"
        case Points():
            return "<ul>" + "".join(f"<li>{_line(each)}</li>" for each in block.each) + "</ul>"
        case Rows():
            rows = (f'<tr><th scope="row">{_line(name)}</th><td>{_line(said)}</td></tr>' for name, said in block.each)
            return '<table class="rows"><tbody>' + "\n".join(rows) + "</tbody></table>"
        case Table():
            return _table(block)


def _table(table: Table) -> str:
    kinds = ["n" if place in table.right else "" for place in range(len(table.head))]
    widths = "".join(f'<col style="width:{share}%">' for share in table.shares)
    head = "".join(
        f'<th scope="col"{_class(kind)}>{_line(each)}</th>' for kind, each in zip(kinds, table.head, strict=True)
    )
    rows = "\n".join(
        "<tr>"
        + "".join(f"<td{_class(kind)}>{_line(each)}</td>" for kind, each in zip(kinds, row, strict=True))
        + "</tr>"
        for row in table.rows
    )
    return f"<table><colgroup>{widths}</colgroup><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _line(text: str) -> str:
    """What is long and has no blank, such as a digest, may be broken anywhere."""
    parts = re.split(r"(\S{32,})", text)
    return "".join(
        "<wbr>".join(html.escape(each[start : start + 16]) for start in range(0, len(each), 16))
        if index % 2
        else html.escape(each)
        for index, each in enumerate(parts)
    )
