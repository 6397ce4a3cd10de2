"""Draw the pictures of docs/: `.venv/bin/python -m tools.docs_pictures` writes docs/pictures/*.svg; a test compares.

A picture is a function that returns SVG. It has a background of its own, light or dark as the reader's system is, so it
can be read on any page. The same code gives the same bytes.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

FOLDER: Final = Path(__file__).resolve().parent.parent / "docs" / "pictures"

_STYLE: Final = """
  .card { fill: #fbfbfd; stroke: #d5d8df; }
  text { font: 14px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; fill: #1f2430; }
  .title { font-weight: 600; font-size: 15px; }
  .note { font-size: 12.5px; fill: #525a6b; }
  .cell { font: 12.5px ui-monospace, "SFMono-Regular", Menlo, Consolas, monospace; }
  .lane { stroke: #aab1c0; stroke-width: 1.5; fill: none; }
  .arrow { stroke: #525a6b; stroke-width: 1.5; fill: none; }
  .head { fill: #525a6b; }
  .box { fill: #ffffff; stroke: #7d879b; }
  .stage { fill: #e4ecfb; stroke: #5b82c9; }
  .out { fill: #dcf2e4; stroke: #3b8f5e; }
  .blue { fill: #2f6bd0; } .green { fill: #2c8c56; } .orange { fill: #cf6a12; }
  .hollow { fill: #fbfbfd; stroke: #2f6bd0; stroke-width: 2; }
  .hollow-orange { fill: #fbfbfd; stroke: #cf6a12; stroke-width: 2; }
  .mark { stroke: #b3261e; stroke-width: 2; fill: none; }
  .mark-text { fill: #b3261e; font-weight: 600; }
  .join { stroke: #2f6bd0; stroke-width: 2; fill: none; }
  .held { fill: #f3e3d3; opacity: .75; }
  .dashed { stroke-dasharray: 5 4; }
  .new { fill: #fbe6cf; stroke: #cf6a12; }
  @media (prefers-color-scheme: dark) {
    .card { fill: #1d2129; stroke: #3a4150; }
    text { fill: #e6e9f0; } .note { fill: #a9b2c3; }
    .lane { stroke: #566074; } .arrow { stroke: #a9b2c3; } .head { fill: #a9b2c3; }
    .box { fill: #262b35; stroke: #8691a6; }
    .stage { fill: #22324f; stroke: #7fa5ea; } .out { fill: #1d3a2a; stroke: #6cc592; }
    .blue { fill: #7fa9f5; } .green { fill: #6cc592; } .orange { fill: #f0a05a; }
    .hollow { fill: #1d2129; stroke: #7fa9f5; } .hollow-orange { fill: #1d2129; stroke: #f0a05a; }
    .mark { stroke: #ff8a80; } .mark-text { fill: #ff8a80; } .join { stroke: #7fa9f5; }
    .held { fill: #4a3826; } .new { fill: #46331f; stroke: #f0a05a; }
  }
"""


@dataclass
class Canvas:
    """The elements of a picture, in the order in which they are drawn."""

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        """Write words, with their base line at y."""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>')

    def box(self, x: float, y: float, width: float, height: float, kind: str = "box", words: str = "") -> None:
        """Draw a box with words in its middle; a line break parts lines."""
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" class="{kind}"/>')
        lines = words.split("\n") if words else []
        first = y + height / 2 + 5 - 9 * (len(lines) - 1)
        for number, line in enumerate(lines):
            self.text(x + width / 2, first + 18 * number, line, "note" if number else "", "middle")

    def dot(self, x: float, y: float, kind: str = "blue") -> None:
        """Draw a transaction."""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="6" class="{kind}"/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str = "lane") -> None:
        """Draw a straight line."""
        self.parts.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="{kind}"/>')

    def arrow(self, x1: float, y1: float, x2: float, y2: float, bend: float = 0) -> None:
        """Draw an arrow; with `bend` it is an arc below its ends."""
        path = f"M{x1:g} {y1:g} L{x2:g} {y2:g}"
        if bend:
            path = f"M{x1:g} {y1:g} C{x1:g} {y1 + bend:g} {x2:g} {y2 + bend:g} {x2:g} {y2:g}"
        self.parts.append(f'<path d="{path}" class="arrow" marker-end="url(#head)"/>')

    def cells(self, x: float, y: float, names: Iterable[str], new: Iterable[str] = ()) -> float:
        """Draw a row's cells; return where they end."""
        marked = set(new)
        for name in names:
            width = 14 + 8 * len(name)
            self.parts.append(
                f'<rect x="{x:g}" y="{y:g}" width="{width}" height="24" class="{"new" if name in marked else "box"}"/>'
            )
            self.text(x + width / 2, y + 16.5, name, "cell", "middle")
            x += width
        return x

    def svg(self) -> str:
        """Return the picture."""
        size = f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}"'
        head = (
            '<defs><marker id="head" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" class="head"/></marker></defs>'
        )
        card = f'<rect x=".5" y=".5" width="{self.width - 1}" height="{self.height - 1}" rx="8" class="card"/>'
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(self.title)}">\n'
            f"<title>{escape(self.title)}</title>\n<style>{_STYLE}</style>\n{head}\n{card}\n{body}\n</svg>\n"
        )


def architecture() -> str:
    """The nodes' binlogs on the left, the stages, the merged log, and who reads it."""
    title = "The binlogs of many nodes go through the stages of a merge into one log, which many readers follow"
    c = Canvas(900, 280, title)
    for number, name in enumerate(("dn-1", "dn-2", "dn-3")):
        y = 62 + 56 * number
        c.box(16, y, 118, 42, "box", f"node {name}\nbinlog.000007")
        c.arrow(134, y + 21, 173, 139 + 6 * (number - 1))
    c.text(16, 248, "physical names,", "note")
    c.text(16, 265, "shards in mid-ALTER", "note")
    stages = ("scan\nindex blocks", "assemble\norder keys", "order\nglobal order", "gather\nrows in shape")
    for number, stage in enumerate(stages):
        c.box(176 + 110 * number, 112, 97, 54, "stage", stage)
        if number:
            c.arrow(163 + 110 * number, 139, 173 + 110 * number, 139)
    c.box(286, 28, 207, 46, "stage", "coordinate\nDDL and schemas over time")
    c.arrow(334, 112, 334, 77)
    c.arrow(444, 74, 444, 109)
    c.box(520, 28, 190, 46, "out", "schema.duckdb\nany table, at any moment")
    c.arrow(493, 51, 517, 51)
    c.arrow(603, 139, 625, 139)
    c.box(628, 94, 118, 92, "out", "merged log\nbinlog.000001 …\nmanifest.jsonl")
    c.text(683, 208, "logical names, whole", "note", "middle")
    c.text(683, 225, "transactions, in order", "note", "middle")
    for number, name in enumerate(("replicas", "CDC tools", "DuckDB, Parquet", "mysqlbinlog")):
        y = 54 + 46 * number
        c.box(762, y, 128, 34, "box", name)
        c.arrow(746, 124 + 10 * number, 760, y + 17)
    c.text(390, 208, "Spark runs the stages. No row is decoded,", "note", "middle")
    c.text(390, 225, "and rows never go through a shuffle.", "note", "middle")
    return c.svg()


def lanes() -> str:
    """Three nodes as lanes, commit TSOs as places, watermarks, and the log that comes out."""
    title = "Three nodes' transactions by commit TSO: what lies before the least watermark is in the merged log"
    c = Canvas(900, 416, title)
    held_from = 652
    c.box(held_from, 46, 228, 196, "held")
    c.text(872, 62, "held back", "note", "end")
    c.text(24, 32, "commit TSO", "note")
    c.arrow(108, 28, 880, 28)
    ys = {"dn-1": 90, "dn-2": 150, "dn-3": 210}
    for name, y in ys.items():
        c.text(24, y + 5, name, "title")
        c.line(96, y, 880, y)
    distributed = {170: ("dn-1", "dn-2"), 330: ("dn-1", "dn-2", "dn-3"), 520: ("dn-2", "dn-3"), 760: ("dn-1", "dn-2")}
    for x, nodes in distributed.items():
        c.line(x, ys[nodes[0]], x, ys[nodes[-1]], "join")
        for node in nodes:
            c.dot(x, ys[node], "hollow" if x > held_from else "blue")
    local = {120: "dn-3", 250: "dn-1", 280: "dn-3", 600: "dn-1", 700: "dn-2", 830: "dn-1"}
    for x, node in local.items():
        c.dot(x, ys[node], "hollow" if x > held_from else "green")
    for x, node in ((866, "dn-1"), (806, "dn-2"), (held_from, "dn-3")):
        c.line(x, ys[node] - 14, x, ys[node] + 14, "arrow")
    c.line(held_from, 46, held_from, 282, "arrow dashed")
    c.text(held_from + 8, 261, "global watermark: dn-3", "note")
    c.text(held_from + 8, 279, "may still write from here on", "note")
    marker = 430
    c.line(marker, 62, marker, 352, "mark")
    c.text(marker - 6, 58, "marker: ALTER TABLE orders", "mark-text", "end")
    c.text(24, 323, "merged", "title")
    c.line(96, 318, held_from, 318)
    kinds = {**dict.fromkeys(distributed, "blue"), **dict.fromkeys(local, "green")}
    for number, x in enumerate(sorted(x for x in kinds if x < held_from), start=1):
        c.dot(x, 318, kinds[x])
        c.text(x, 344, str(number if x < marker else number + 1), "note", "middle")
    c.text(
        24, 374, "Transaction 6 is the ALTER. Rows before it have the old columns, rows after it the new ones.", "note"
    )
    c.dot(30, 396, "blue")
    c.text(42, 400, "transaction of several nodes", "note")
    c.dot(236, 396, "green")
    c.text(248, 400, "of one node", "note")
    c.dot(344, 396, "hollow")
    c.text(356, 400, "read, not published yet", "note")
    c.line(524, 386, 524, 406, "arrow")
    c.text(534, 400, "a node's watermark: the least it may still write", "note")
    return c.svg()


def skew() -> str:
    """An ALTER reaches nodes at different times; rows between it and the marker are reshaped."""
    title = "Between a node's ALTER and the marker, rows with new columns are written in the old shape"
    c = Canvas(900, 400, title)
    marker, left, right = 620, 96, 876
    c.text(24, 32, "ALTER TABLE orders ADD COLUMN note", "title")
    for number, (name, x) in enumerate((("dn-1", 220), ("dn-2", 330), ("dn-3", 450))):
        y = 52 + 44 * number
        c.text(24, y + 19, name, "title")
        c.box(left, y, x - left, 28, "box", "old columns")
        c.box(x, y, right - x, 28, "new")
        c.text(x + 10, y + 19, "new columns")
    c.text(24, 219, "logical", "title")
    c.box(left, 200, marker - left, 28, "box", "old columns")
    c.box(marker, 200, right - marker, 28, "new")
    c.text(marker + 10, 219, "new columns")
    c.line(marker, 40, marker, 244, "mark")
    c.text(marker + 6, 36, "marker on every node", "mark-text")
    for number, x, y in ((1, 500, 66), (2, 760, 154)):
        c.dot(x, y, "blue")
        c.text(x + 12, y + 5, f"row {number}")
    c.text(left, 272, "Row 1: dn-1 writes it before the marker.", "note")
    end = c.cells(left, 288, ("7", "Smith", "'gift'"), ("'gift'",))
    c.text(left, 332, "in dn-1's binlog", "note")
    c.arrow(end + 10, 300, end + 92, 300)
    c.text(end + 51, 292, "trim", "note", "middle")
    c.cells(end + 100, 288, ("7", "Smith"))
    c.text(end + 100, 332, "in the merged log", "note")
    c.text(500, 272, "Row 2: after the marker both shapes are the same,", "note")
    c.text(500, 290, "and the row's bytes pass through unchanged.", "note")
    c.text(500, 318, "A column that a node lacks is padded with its default.", "note")
    c.text(500, 336, "Other types are converted, other orders put right.", "note")
    c.text(
        24, 380, "The table map of each row must agree with the schema history; if not, the merge stops there.", "note"
    )
    return c.svg()


def shard_modes() -> str:
    """The same ALTER on two shards, at two times, and what comes out in either mode."""
    title = "Pessimistic: the ALTER comes out with the last shard's, and rows wait. Optimistic: with the first shard's"
    c = Canvas(900, 446, title)
    first, last = 300, 600
    c.text(24, 30, "ALTER TABLE … ADD COLUMN note: first on shard 1, later on shard 2", "title")
    one, two = (150, 240, 360, 450, 680, 780), (190, 400, 540, 656, 730)
    for name, y, places, alter, kind in (("shard 1", 80, one, first, "blue"), ("shard 2", 130, two, last, "orange")):
        c.text(24, y + 5, name, "title")
        c.line(100, y, 880, y)
        c.line(alter, y - 18, alter, y + 18, "mark")
        c.text(alter + 5, y - 9, "ALTER", "mark-text")
        for x in places:
            c.dot(x, y, kind)
    c.line(24, 164, 880, 164, "lane dashed")

    y = 232
    c.text(24, y - 40, "pessimistic", "title")
    c.box(first, y - 14, last - first, 28, "held")
    c.line(100, y, 880, y)
    waiting = [x for x in one if first < x < last]
    for number, x in enumerate(waiting):
        after = last + 14 + 17 * number
        c.dot(x, y, "hollow")
        c.dot(after, y, "blue")
        c.arrow(x, y + 9, after, y + 10, 40)
    for x in (*one, *two):
        if x not in waiting:
            c.dot(x, y, "blue" if x in one else "orange")
    c.line(last, y - 24, last, y + 24, "mark")
    c.text(last - 6, y - 20, "ALTER, where the last shard runs it", "mark-text", "end")
    c.text(100, y + 58, "Rows of shard 1 wait, and come out after the ALTER.", "note")

    y = 370
    c.text(24, y - 40, "optimistic", "title")
    c.line(100, y, 880, y)
    c.line(first, y - 24, first, y + 24, "mark")
    c.text(first + 6, y - 20, "ALTER, where the first shard runs it", "mark-text")
    for x in (*one, *two):
        kind = "blue" if x in one else "hollow-orange" if first < x < last else "orange"
        c.dot(x, y, kind)
    c.text(
        100, y + 44, "Nothing waits. Until shard 2 has run the ALTER, its rows get the new column's default.", "note"
    )
    c.text(876, y + 62, "time →", "note", "end")
    return c.svg()


PICTURES: Final[dict[str, Callable[[], str]]] = {
    "architecture.svg": architecture,
    "lanes.svg": lanes,
    "skew.svg": skew,
    "shard-modes.svg": shard_modes,
}


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw())


if __name__ == "__main__":
    main()
