"""A plot of counts by time as an SVG: a bar for each step of time, stacked by table."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final
from xml.sax.saxutils import escape

from binlog_merge.ask.stats import Count, Stats

_COLORS: Final = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#9c9c9c")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 960, 420, 80, 60, 40, 220
_MOST_BARS: Final = 480


def svg(stats: Stats, value: Callable[[Count], int], title: str) -> str:
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


def _steps(stats: Stats) -> tuple[list[int], int]:
    """Return the beginnings of the bars and the time between them: several steps where there are too many."""
    found = sorted({time for time, _ in stats.cells}) or [0]
    step = stats.every_us * max(1, -(-((found[-1] - found[0]) // stats.every_us + 1) // _MOST_BARS))
    return list(range(found[0], found[-1] + 1, step)), step


def _frame(title: str, most: int, times: Sequence[int]) -> list[str]:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="24" font-size="16">{escape(title)}</text>',
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
        lines.append(f'<text x="{_WIDTH - _RIGHT + 34}" y="{y + 11}">{escape(name[:28])}</text>')
    return lines


def _number(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
