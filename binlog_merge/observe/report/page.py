"""Renders a report's document as one HTML page that needs nothing else: no network, no font, no library.

The page's tables are there without the script, which draws the timeline from the part of the document that it needs.
Whatever comes from the log is escaped; control characters and such as change the direction of text become \\xNN.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from importlib.resources import files
from typing import Any, Final

import jinja2

from binlog_merge.redaction import printable

_WORDS: Final = {
    "base": "as the base had it",
    "ddl": "by DDL",
    "marker": "by logical DDL",
    "shards": "by DDL that its shards have in common",
    "operator": "by an operator",
    "opaque": "by DDL that was not understood",
}
_KINDS: Final = {
    "made": "the table was made",
    "dropped": "the table was dropped or renamed away",
    "same": "the same shape as before",
    "opaque": "table maps say what it is",
}
_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_SPARK_WIDTH: Final = 140
_SPARK_HEIGHT: Final = 22


def page(document: Mapping[str, Any]) -> bytes:
    """Return the page as UTF-8. `document` is that of `document.document`, of a log with a header."""
    numbered = {**document, "watersheds": _numbered(document)}
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters.update(
        number=lambda n: f"{n:,}", size=_size, plain=_plain, rate=_rate, spark=_spark
    )  # fmt: skip
    template = environment.from_string(_text("page.html.j2"))
    kinds = {lane["kind"] for lane in document["timeline"]["lanes"]}
    skews = (document["skew"] or {}).get("spans", ())
    text = template.render(
        d=numbered,
        style=_text("page.css"),
        script=_text("page.js"),
        data=_embedded(numbered),
        words=_Or(_WORDS),
        kinds_of=_Or(_KINDS),
        kinds={
            "local": "local" in kinds, "shared": "shared" in kinds, "problem": any(s["problem"] for s in skews),
        },
        captured=any(node["captured"] is not None for node in document["nodes"]),
        table_count=len(document["tables"]) + document["left_out"].get("tables", 0),
        bin_width=_width(document["timeline"]["time"]["width"]),
    )  # fmt: skip
    return text.encode("utf-8", "backslashreplace")


class _Or(dict[str, str]):
    """A dictionary that has "" for what it lacks."""

    def __missing__(self, key: str) -> str:
        return ""


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _numbered(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the statements with the names that the page gives them: D1, D2 …"""
    first = document["left_out"].get("statements", 0) + 1
    return [{"number": f"D{first + i}", **found} for i, found in enumerate(document["watersheds"])]


def _embedded(document: Mapping[str, Any]) -> str:
    """Return what the script needs, as JSON that can stand in a script element."""
    log, timeline, watermark = document["log"], document["timeline"], document["watermark"]
    shown_by_time = timeline["time"]["bins"] > 1 or timeline["rank"]["bins"] <= 1
    values = {
        "axis": "time" if shown_by_time else "rank",
        "first_rank": log["first_rank"] or 1,
        "last_rank": log["last_rank"] or 1,
        "timeline": timeline,
        "watersheds": [{**w, "sql": _plain(w["sql"])[:300]} for w in document["watersheds"]],
        "node_ddl": [{**d, "sql": _plain(d["sql"])[:200]} for d in document["node_ddl"]],
        "skew": [] if document["skew"] is None else document["skew"]["spans"],
        "watermark": {
            "us": _us(watermark["time"]),
            "rank": None if watermark["order_key"] is None or not log["last_rank"] else log["last_rank"] + 1,
            "held_back_by": watermark["held_back_by"],
        },
    }
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _us(time: str | None) -> int | None:
    return None if time is None else round(datetime.fromisoformat(time).timestamp() * 1_000_000)


def _plain(text: object) -> str:
    return printable(text, keep="\n")


def _size(size: float) -> str:
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.1f} {_UNITS[unit]}" if unit else f"{size:,.0f} B"


def _width(us: int) -> str:
    for size, unit in ((3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s"), (1000, "ms")):
        if us >= size:
            return f"{us / size:.1f} {unit}"
    return f"{us} µs"


def _rate(table: Mapping[str, Any]) -> str:
    """Return a table's rows a second from its first row to its last; a dash if these have one time."""
    first, last = _us(table["first"]), _us(table["last"])
    seconds = 0.0 if first is None or last is None else (last - first) / 1_000_000
    if seconds <= 0:
        return "–"
    rate = table["rows"] / seconds
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _spark(table: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the path of a small histogram of a table's rows over the log's time, and what it says in words."""
    series = table["rows_by_time"]
    if series is None or not series["counts"]:
        return None
    step, counts, high = _SPARK_WIDTH / series["bins"], series["counts"], _SPARK_HEIGHT
    most = max(counts[1::2])
    path = "".join(
        f"M{at * step:.1f} {high}v-{max(1.0, count / most * high):.1f}h{max(step, 1.0):.1f}V{high}z"
        for at, count in zip(counts[::2], counts[1::2], strict=True)
    )
    return {"path": path, "says": f"at most {most:,} rows in {_width(series['width'])}"}
