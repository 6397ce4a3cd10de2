"""Sizes on the command line, as in cluster.yaml."""


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
