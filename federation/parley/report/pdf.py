"""The report as a PDF of A4 pages, with the signed envelope attached; by fpdf2, of the extra `report`.

The same content, the same fpdf2 and the same fonts give the same bytes: so whoever verifies one draws it again. The
letters are DejaVu's, which matplotlib brings: Latin, Greek, Cyrillic, Arabic. A letter that they lack is drawn as a
box, and stands in the attachment as it is.
"""

import datetime as dt
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

from parley.report.blocks import Block, Heading, Points, Rows, Table, Text
from parley.report.document import document
from parley.report.errors import ReportError
from parley.report.signed import Report

if TYPE_CHECKING:
    from fpdf import FPDF

ATTACHMENT = "parley-report.json"
FACE = "DejaVu"
SIDE, TOP, BOTTOM = 14.0, 12.0, 12.0
"""Margins in millimetres, of A4."""
WIDTH = 210 - 2 * SIDE
SIZE, LEAD = 8.4, 3.85
"""Points, and millimetres from line to line."""
GAP = 1.5
"""Between two columns."""
Ink = tuple[int, int, int]
INK, SOFT, ACCENT, RULE = (0, 0, 0), (70, 70, 70), (11, 107, 99), 190
BOX = "□"


def pdf(report: Report) -> bytes:
    """Drawn from the signed content alone."""
    found, made = document(report.content), _Pages(_moment(report))
    made.line(found.title, 14, "B", 6.2)
    made.line(found.subtitle, SIZE, "", LEAD, SOFT)
    for block in found.blocks:
        made.draw(block)
    made.pdf.ln(1.5)
    made.line(found.foot, SIZE - 0.8, "", LEAD - 0.3, SOFT)
    made.attach(report.text.encode())
    return bytes(made.pdf.output())


def drawn_by() -> str:
    """The versions on which the bytes depend."""
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in ("fpdf2", "fonttools", "matplotlib"))


def _moment(report: Report) -> dt.datetime:
    """Of the content: a PDF says when it was made, and a second drawing must say the same."""
    try:
        return dt.datetime.fromisoformat(str(report.content["made"])).astimezone(dt.UTC).replace(microsecond=0)
    except (KeyError, ValueError, OverflowError):
        raise ReportError("the content is not of a report: it does not say when it was made") from None


def _fonts() -> Path:
    found = find_spec("matplotlib")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
    return Path(found.submodule_search_locations[0], "mpl-data", "fonts", "ttf")


class _Pages:
    """A4, text from top to bottom."""

    def __init__(self, moment: dt.datetime) -> None:
        self.pdf: FPDF = import_module("fpdf").FPDF(format="A4")
        self.pdf.set_compression(False)  # what a compressor makes of pages differs from machine to machine
        self.pdf.set_creation_date(moment)
        self._moment = moment
        for style, name in (("", "DejaVuSans.ttf"), ("B", "DejaVuSans-Bold.ttf")):
            self.pdf.add_font(FACE, style, _fonts() / name)
        self._known = frozenset(self.pdf.fonts[FACE.lower()].cmap)
        self.pdf.set_margins(SIDE, TOP, SIDE)
        self.pdf.c_margin = 0
        self.pdf.set_auto_page_break(True, BOTTOM)
        self.pdf.add_page()
        self.pdf.set_draw_color(RULE)
        self.pdf.set_line_width(0.15)

    def attach(self, data: bytes) -> None:
        self.pdf.embed_file(
            bytes=data, basename=ATTACHMENT, desc="The signed content", compress=False, creation_date=self._moment
        )

    def draw(self, block: Block) -> None:
        match block:
            case Heading():
                self._room(18)  # with some of what stands under it
                self.pdf.ln(1.6)
                self.line(block.text, 9.6, "B", 4.6, ACCENT)
            case Text():
                size, style, lead = {"big": (10.5, "B", 5.0), "warning": (SIZE, "B", LEAD)}.get(
                    block.kind, (SIZE, "", LEAD)
                )
                self.line(block.text, size, style, lead, SOFT if block.kind == "quiet" else INK)
                self.pdf.ln(0.5)
            case Points():
                for each in block.each:
                    self.line("• " + each, SIZE, "", LEAD)
            case Rows():
                self._table([(name, said) for name, said in block.each], (26, 74), (), (SOFT, INK))
            case Table():
                self._table([block.head], block.shares, block.right, (INK,) * len(block.head), "B")
                self._table(block.rows, block.shares, block.right, (INK,) * len(block.head))

    def line(self, text: str, size: float, style: str, lead: float, ink: Ink = INK) -> None:
        """A paragraph over the whole width."""
        self._pen(size, style, ink)
        self.pdf.multi_cell(WIDTH, lead, self._shown(text), align="L", new_x="LMARGIN", new_y="NEXT")

    def _table(
        self, rows: Sequence[tuple[str, ...]], shares: tuple[int, ...], right: tuple[int, ...], inks: tuple[Ink, ...],
        style: str = "",
    ) -> None:  # fmt: skip
        """Rows that are not torn over two pages."""
        widths = [WIDTH * share / 100 for share in shares]
        for row in rows:
            texts = [self._shown(each) for each in row]
            self._pen(SIZE, style, INK)
            height = LEAD * max(self._lines(width, text) for width, text in zip(widths, texts, strict=True)) + 0.5
            self._room(height)
            left, top = SIDE, self.pdf.get_y()
            for place, (width, text) in enumerate(zip(widths, texts, strict=True)):
                self._pen(SIZE, style, inks[place])
                self.pdf.set_xy(left, top)
                self.pdf.multi_cell(width - GAP, LEAD, text, align="R" if place in right else "L", new_y="TOP")
                left += width
            self.pdf.line(SIDE, top + height, SIDE + WIDTH, top + height)
            self.pdf.set_xy(SIDE, top + height + 0.25)

    def _lines(self, width: float, text: str) -> int:
        found = self.pdf.multi_cell(width - GAP, LEAD, text, align="L", dry_run=True, output="LINES")
        return max(1, len(cast(list[str], found)))

    def _room(self, height: float) -> None:
        if self.pdf.get_y() + height > 297 - BOTTOM:
            self.pdf.add_page()

    def _pen(self, size: float, style: str, ink: Ink) -> None:
        self.pdf.set_font(FACE, style, size)
        self.pdf.set_text_color(*ink)

    def _shown(self, text: str) -> str:
        """What the font has."""
        return "".join(each if ord(each) in self._known else BOX for each in text)
