"""`binlog-merge stats`: what a merged log holds, by table and time."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from binlog_merge.cli.log_lines import Level, LineFormat, LogFormat, LogLevel, start_log
from binlog_merge.cli.options import Merged, MergedArgument, Output, local_path, merged_of, option
from binlog_merge.cli.output import OutputFormat, print_document, printable, size_text
from binlog_merge.errors import ConfigError, io_error
from binlog_merge.json_values import utc_text

if TYPE_CHECKING:
    from binlog_merge.ask.stats import Count, Stats
    from binlog_merge.log.log import Log


HELP = """Count rows, bytes and transactions by table and minute, and name the biggest transactions.

\b
  binlog-merge stats merged/
  binlog-merge stats merged/ --per hour --table 'shop.*' -o json
  binlog-merge stats merged/ --start 2026-11-24 --plot rows --to rows.svg

The bytes of a table are those of its rows events. A merged log has the time of a transaction's commit, not of its
beginning: how long one took is not in it."""

_STEPS = {"minute": 60, "hour": 3600, "day": 86400}
_MOST_LINES: Final = 1000
"""The lines by time that a person is shown; a program gets all."""


class Per(StrEnum):
    """The choices of --per."""

    minute = "minute"
    hour = "hour"
    day = "day"


class Plotted(StrEnum):
    """The choices of --plot."""

    rows = "rows"
    bytes = "bytes"
    transactions = "transactions"


def stats(
    directory: MergedArgument = None,
    merged: Merged = None,
    table: Annotated[list[str] | None, option("--table", "Only these tables; * and ? are patterns.", "PATTERN")] = None,
    start: Annotated[str | None, option("--start", "Where to begin; as in `changes`.")] = None,
    stop: Annotated[str | None, option("--stop", "Where to end; as in `changes`.")] = None,
    per: Annotated[Per, option("--per", "The step of time.")] = Per.minute,
    top: Annotated[int, option("--top", "How many of the biggest transactions.", min=0)] = 5,
    plot: Annotated[
        Plotted | None, option("--plot", "Write a plot of this by time, an SVG, to the file of --to.")
    ] = None,
    to: Annotated[Path | None, option("--to", "Where to write the plot.", parser=local_path)] = None,
    time_zone: Annotated[str, option("--time-zone", "Of times of --start and --stop without one.", "ZONE")] = "UTC",
    output: Output = OutputFormat.text,
    log_level: LogLevel = Level.warning,
    log_format: LogFormat = LineFormat.text,
) -> None:
    """Count rows, bytes and transactions by table and time."""
    start_log(log_level, log_format)
    if (plot is None) != (to is None):
        raise ConfigError("--plot and --to go together", remedy="give both: --plot rows --to rows.svg")
    if to is not None and to.suffix.lower() != ".svg":
        raise ConfigError(f"--to: a plot is an SVG, not what {to.name} is named after", remedy=f"name it {to.stem}.svg")
    from binlog_merge.ask.stats import count
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.log.log import Log
    from binlog_merge.log.place import parse_place, zone_named

    zone_named(time_zone)
    with opened_log(merged_of(directory, merged), schema=table is not None) as folder:
        binlog = Log(folder)
        begin = None if start is None else parse_place("--start", start, time_zone)
        end = None if stop is None else parse_place("--stop", stop, time_zone)
        first, last = binlog.between(begin, end)
        counts = count(binlog, first, last, every_us=_STEPS[per] * 1_000_000, top=top, named=_named(table))
        _check_names(binlog, table, counts)
        uuid = binlog.cluster_uuid if binlog.with_gtids else None
    if plot is not None and to is not None:
        _write_plot(counts, plot, per, to)
    if output is OutputFormat.text:
        print("\n".join(printable(line) for line in _lines(counts, per, uuid)))
        return
    biggest, most = _transactions(counts.biggest, uuid), _transactions(counts.most_rows, uuid)
    document = {**_totals(counts), "per": per.value, "by_time": list(_cells(counts)), "biggest": biggest}
    print_document({**document, "most_rows": most}, output, "by_time")


def _named(patterns: list[str] | None) -> Any:
    from snapshot_store.names import NamePattern

    try:
        parsed = [NamePattern.parse(text) for text in patterns or ()]
    except ValueError as error:
        raise ConfigError(f"--table: {error}") from None
    return lambda schema, table: not parsed or any(pattern.matches(schema, table) for pattern in parsed)


def _check_names(binlog: "Log", given: list[str] | None, found: "Stats") -> None:
    """Raise UnknownTable for a name, not a pattern, that is neither in the range's rows nor in the schema store."""
    from binlog_merge.log.versions import versions_between
    from snapshot_store.names import NamePattern

    for pattern in map(NamePattern.parse, given or ()):
        if not any(pattern.wild) and (pattern.schema, pattern.table) not in found.tables():
            versions_between(binlog, pattern.schema, pattern.table, binlog.state.first_rank, binlog.last_rank)


def _write_plot(found: "Stats", plot: Plotted, per: Per, to: Path) -> None:

    text = svg(found, lambda count: int(getattr(count, plot.value)), f"{plot.value} per {per.value} (UTC)")
    try:
        to.write_text(text, "utf-8")
    except OSError as error:
        raise io_error(error, str(to)) from error


def _time(micros: int | None, spec: str = "microseconds") -> str | None:
    if micros is None:
        return None
    moment = datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)
    return utc_text(moment, spec)


def _totals(found: "Stats") -> dict[str, Any]:
    return {
        "transactions": found.transactions,
        "statements": found.statements,
        "bytes": found.bytes,
        "first": _time(found.first_us),
        "last": _time(found.last_us),
        "tables": {".".join(name): _count(count) for name, count in found.tables().items()},
    }


def _count(count: "Count") -> dict[str, int]:
    return {
        "inserts": count.inserts,
        "updates": count.updates,
        "deletes": count.deletes,
        "rows": count.rows,
        "bytes": count.bytes,
        "transactions": count.transactions,
    }


def _cells(found: "Stats") -> Iterator[dict[str, Any]]:
    for (time, (schema, table)), count in sorted(found.cells.items()):
        yield {"time": _time(time, "milliseconds"), "schema": schema, "table": table, **_count(count)}


def _transactions(found: list[Any], uuid: str | None) -> list[dict[str, Any]]:
    return [
        {"gtid": None if uuid is None else f"{uuid}:{one.rank}", "rank": one.rank, "bytes": one.bytes,
         "rows": one.rows, "commit_time": _time(one.commit_us), "file": one.file, "position": one.position}
        for one in found
    ]  # fmt: skip


def _lines(found: "Stats", per: Per, uuid: str | None) -> Iterator[str]:
    yield (
        f"{found.transactions:,} transactions ({found.statements:,} DDL), {size_text(found.bytes)}, "
        f"{_time(found.first_us) or 'none'} to {_time(found.last_us) or 'none'}"
    )
    yield ""
    head = f"{'inserts':>10} {'updates':>10} {'deletes':>10} {'bytes':>10} {'transactions':>12}"
    wide = max((len(".".join(name)) for name in found.tables()), default=5)
    yield f"{'table':<{wide}}  {head}"
    for name, count in found.tables().items():
        yield f"{'.'.join(name):<{wide}}  {_numbers(count)}"
    yield ""
    yield f"{per.value:<20}  {'table':<{wide}}  {head}"
    cells = sorted(found.cells.items())
    for (time, name), count in cells[:_MOST_LINES]:
        yield f"{_time(time, 'seconds'):<20}  {'.'.join(name):<{wide}}  {_numbers(count)}"
    if len(cells) > _MOST_LINES:
        yield f"… and {len(cells) - _MOST_LINES:,} lines more: -o jsonl has all; or choose --per, --table, --start"
    for title, ones in (("biggest transactions", found.biggest), ("transactions of most rows", found.most_rows)):
        if ones:
            yield ""
            yield title
        for one in ones:
            gtid = f"{uuid}:{one.rank}" if uuid is not None else f"transaction {one.rank}"
            yield (
                f"  {size_text(one.bytes):>10}  {one.rows:>10,} rows  {gtid}  {one.file}:{one.position}  "
                f"{_time(one.commit_us)}"
            )


def _numbers(count: "Count") -> str:
    return (
        f"{count.inserts:>10,} {count.updates:>10,} {count.deletes:>10,} {size_text(count.bytes):>10} "
        f"{count.transactions:>12,}"
    )


_COLORS: Final = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#9c9c9c")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 960, 420, 80, 60, 40, 220
_MOST_BARS: Final = 480


def svg(stats: "Stats", value: "Callable[[Count], int]", title: str) -> str:
    """Return a plot of a value by time; all tables but the six with most of it are one."""
    totals: dict[str, int] = {}
    for (_, name), count in stats.cells.items():
        totals[".".join(name)] = totals.get(".".join(name), 0) + value(count)
    shown = sorted(totals, key=lambda name: (-totals[name], name))[: len(_COLORS) - 1]
    names = [*shown, *(("others",) if len(totals) > len(shown) else ())]
    times, step = _steps(stats)
    places = {time: number for number, time in enumerate(times)}
    heights = [[0] * len(names) for _ in times]
    for (time, name), count in stats.cells.items():
        text = ".".join(name)
        heights[places[time - (time - times[0]) % step]][shown.index(text) if text in shown else -1] += value(count)
    return "\n".join([*_frame(title, max((sum(bar) for bar in heights), default=0), times), *_bars(heights),
                      *_legend(names), "</svg>", ""])  # fmt: skip


def _steps(stats: "Stats") -> tuple[list[int], int]:
    """Return the beginnings of the bars and the time between them: several steps where there are too many."""
    times = sorted({time for time, _ in stats.cells}) or [0]
    step = stats.every_us * max(1, -(-((times[-1] - times[0]) // stats.every_us + 1) // _MOST_BARS))
    return list(range(times[0], times[-1] + 1, step)), step


def _frame(title: str, most: int, times: Sequence[int]) -> list[str]:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="24" font-size="16">{escape(title, quote=False)}</text>',
    ]
    for part in range(5):
        y = _TOP + (_HEIGHT - _TOP - _BOTTOM) * (4 - part) / 4
        lines.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
        lines.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_number(most * part / 4)}</text>')
    for time, x, anchor in ((times[0], _LEFT, "start"), (times[-1], _WIDTH - _RIGHT, "end")):
        text = datetime.fromtimestamp(time / 1e6, UTC).strftime("%Y-%m-%d %H:%M")
        lines.append(f'<text x="{x}" y="{_HEIGHT - _BOTTOM + 20}" text-anchor="{anchor}">{text}</text>')
    return lines


def _bars(heights: Sequence[Sequence[int]]) -> list[str]:
    most = max((sum(bar) for bar in heights), default=0) or 1
    width = (_WIDTH - _LEFT - _RIGHT) / len(heights)
    scale, lines = (_HEIGHT - _TOP - _BOTTOM) / most, []
    for number, bar in enumerate(heights):
        y = float(_HEIGHT - _BOTTOM)
        for value, color in zip(bar, _COLORS, strict=False):
            if value:
                y -= value * scale
                lines.append(
                    f'<rect x="{_LEFT + number * width:.2f}" y="{y:.2f}" width="{max(width - 0.5, 0.5):.2f}" '
                    f'height="{value * scale:.2f}" fill="{color}"/>'
                )
    return lines


def _legend(names: Sequence[str]) -> list[str]:
    lines = []
    for number, (name, color) in enumerate(zip(names, _COLORS, strict=False)):
        y = _TOP + 20 * number
        lines.append(f'<rect x="{_WIDTH - _RIGHT + 16}" y="{y}" width="12" height="12" fill="{color}"/>')
        lines.append(f'<text x="{_WIDTH - _RIGHT + 34}" y="{y + 11}">{escape(name[:28], quote=False)}</text>')
    return lines


def _number(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
