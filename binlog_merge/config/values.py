"""The small value types of the configuration: sizes, paths and table names.

A `Section` of the file is a frozen value. Its keys have hyphens; an unknown key is an error.
"""

import glob
import os
import re
import uuid
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from binlog_merge.config.uri import check_input, check_output, is_uri, only_local

_UNITS = {
    "": 1, "b": 1,
    "k": 1024, "kib": 1024, "kb": 1000,
    "m": 1024**2, "mib": 1024**2, "mb": 1000**2,
    "g": 1024**3, "gib": 1024**3, "gb": 1000**3,
    "t": 1024**4, "tib": 1024**4, "tb": 1000**4,
}  # fmt: skip


def parse_size(value: Any) -> int:
    """Return bytes for 4096, "512MiB", "500 MB" or "1G" (K, M, G alone are binary, as in MySQL options)."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("a size is a number of bytes or text such as 512MiB")
    if isinstance(value, int):
        return value
    match = re.fullmatch(r"\s*(\d+)\s*([A-Za-z]*)\s*", value)
    if match is None or match[2].lower() not in _UNITS:
        raise ValueError(f"{value!r} is not a size; write it as 512MiB, 500MB, 1GiB or a number of bytes")
    return int(match[1]) * _UNITS[match[2].lower()]


_DURATIONS = {
    "us": 1,
    "ms": 1000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}


def parse_duration(value: Any) -> int:
    """Return microseconds for "500ms", "1s", "1.5 s", "2m", "12h", "7d", or 0."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", value) if isinstance(value, str) else None
    if match is not None and match[2] in _DURATIONS:
        return round(float(match[1]) * _DURATIONS[match[2]])
    if isinstance(value, int) and not isinstance(value, bool) and value == 0:
        return 0
    raise ValueError(f"{value!r} is not a duration; write it as 500ms, 1s, 2m, 12h or 7d")


def resolve_path(path: str, folder: Path) -> str:
    """Resolve `path` against `folder`; a URI is returned unchanged."""
    return path if is_uri(path) else os.path.normpath(folder / path)


def resolve_glob(pattern: str, folder: Path) -> str:
    """Resolve a glob pattern against `folder`, whose own name is escaped."""
    if is_uri(pattern) or Path(pattern).is_absolute():
        return pattern
    return os.path.normpath(Path(glob.escape(str(folder))) / pattern)


def plain_name(value: str) -> str:
    """Return `value` if it is 1 to 255 printable characters, for messages and file contents. Raises ValueError."""
    if not value.strip() or len(value) > 255 or not value.isprintable():
        raise ValueError("must be 1 to 255 printable characters")
    return value


def qualified_name(value: str) -> str:
    """Return `value` if it is schema.table."""
    parts = value.split(".")
    if len(parts) != 2 or not all(parts):
        raise ValueError(f"{value!r} is not a table name of the form schema.table")
    return value


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _inputs(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(check_input, patterns))


Size = Annotated[int, BeforeValidator(parse_size)]
Duration = Annotated[int, BeforeValidator(parse_duration)]
PlainName = Annotated[str, AfterValidator(plain_name)]
QualifiedName = Annotated[str, AfterValidator(qualified_name)]
Patterns = Annotated[tuple[str, ...], BeforeValidator(_as_tuple), AfterValidator(_inputs), PlainSerializer(list)]
LocalPath = Annotated[str, AfterValidator(only_local)]
OutputPlace = Annotated[str, AfterValidator(check_output)]


MAX_SERVER_ID = 2**32 - 1

ServerId = Annotated[int, Field(ge=1, le=MAX_SERVER_ID)]


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_kebab, populate_by_name=True)


def _uuid_text(value: Any) -> str:
    try:
        return str(uuid.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise ValueError(f"{value!r} is not a UUID") from None


Uuid = Annotated[str, BeforeValidator(_uuid_text)]
