"""Sizes on the command line, as in cluster.yaml; numbers, sizes and durations for people."""

_UNITS = ("bytes", "KB", "MB", "GB", "TB")


def size_of(text: str) -> int:
    """Return the bytes of a size such as 16MiB. Raises ValueError for text that is none."""
    from binlog_merge.config.values import parse_size  # imports pydantic

    return parse_size(text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 file, 1,200 files."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def size_text(size: int) -> str:
    """Return a number of bytes for people: 12.3 MiB."""
    value, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"


def decimal_size(size: float) -> str:
    """Return a number of bytes for people: 12.3 MB."""
    unit = 0
    while size >= 1000 and unit + 1 < len(_UNITS):
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def ago(seconds: float) -> str:
    """Return how long ago something was: 1.5 s ago."""
    return f"{seconds_text(max(0.0, seconds))} ago"


def seconds_text(seconds: float) -> str:
    """Return a duration for people: 1.5 s, 3 min 20 s, 5 h 2 min, 67 days."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    hours, rest = divmod(int(seconds), 3600)
    if hours < 1:
        return f"{rest // 60} min {rest % 60} s"
    return f"{hours} h {rest // 60} min" if hours < 72 else f"{hours // 24} days"
