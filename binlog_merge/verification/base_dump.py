"""Reads the rows of a dump from the INSERTs of a file (mysqldump) or a directory of files (mydumper).

A dump is read as bytes, as literals of binary columns are not text. `SET` and DDL in it are ignored, except for the
executed GTIDs, which are its position in the log.
"""

import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.errors import CHECK_PATH, ConfigError, IoError, ReplayStopped
from binlog_merge.log.rank_set import RankSet
from binlog_merge.tables.target import DuckdbTarget
from binlog_merge.verification.base import compute_others, insert
from binlog_merge.verification.compare_sides import Texts
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import OPAQUE, Family

Name = tuple[str, str]
_TOKEN: Final = re.compile(
    rb"""(?P<space>\s+|--(?=\s)[^\n]*|\#[^\n]*|/\*.*?\*/)
    |(?P<name>`(?:[^`]|``)*`)
    |(?P<string>'(?:[^'\\]|\\.|'')*')
    |(?P<hex>0[xX][0-9A-Fa-f]+|[xX]'[0-9A-Fa-f]*')
    |(?P<bits>0b[01]+|[bB]'[01]*')
    |(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
    |(?P<word>[A-Za-z_$\x80-\xff@][\w$\x80-\xff@.]*)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES: Final = {
    ord("0"): b"\0",
    ord("n"): b"\n",
    ord("r"): b"\r",
    ord("t"): b"\t",
    ord("b"): b"\b",
    ord("Z"): b"\x1a",
}

_REMEDY: Final = "give a dump of mysqldump or mydumper, in SQL, with INSERT statements"


@dataclass(frozen=True, slots=True)
class _Value:
    """A literal: its kind, and its bytes."""

    kind: str
    data: bytes


@dataclass(frozen=True)
class DumpBase:
    """The tables of a dump, at transaction `rank` of the log."""

    path: Path
    rank: int = 0

    @classmethod
    def of(cls, path: Path, cluster: str) -> "DumpBase":
        """Read the position of a dump in the log. Raises IoError."""
        for _, data in _files(path):
            for match in re.finditer(rb"(?i)GTID_PURGED\s*=\s*(?:/\*.*?\*/)?\s*'([^']*)'", data):
                gtids = GtidSet.parse_text(match[1].decode("ascii", "replace").lstrip("+"))
                executed = RankSet.of_gtids(gtids, cluster)
                if len(executed) != executed.low:
                    raise ConfigError("--base: the dump's server had not executed the log without gaps", file=str(path))
                if executed.intervals:
                    return cls(path, executed.low)
        return cls(path)

    def fill(self, target: DuckdbTarget, tables: Mapping[Name, Table]) -> set[Name]:
        """Insert the rows of the tables that the dump creates or fills; return these tables."""
        filled: dict[Name, list[Column]] = {}
        kept = {name: target.as_kept(table) for name, table in tables.items()}
        for file, data in _files(self.path):
            for dumped, columns, rows in _items(file, data):
                name = _in_catalog(dumped, kept)
                if name is None or not kept[name].columns:
                    continue
                given = _columns(kept[name], columns, file)
                filled[name] = given if rows is not None else filled.get(name, list(kept[name].columns))
                if rows is not None:
                    insert(target, kept[name], (_texts(given, row, file) for row in rows), given)
        for name, given in filled.items():
            compute_others(target, kept[name], given)
        return set(filled)


def _in_catalog(dumped: Name, tables: Mapping[Name, Table]) -> Name | None:
    """Return the table that a dump names; without a database, the only table with that name; None if there is none."""
    if dumped[0]:
        return dumped if dumped in tables else None
    same = [name for name in tables if name[1] == dumped[1]]
    return same[0] if len(same) == 1 else None


def _files(path: Path) -> Iterator[tuple[Path, bytes]]:
    try:
        files = sorted(p for p in path.iterdir() if ".sql" in p.suffixes) if path.is_dir() else [path]
        for file in files:
            yield file, gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except OSError as error:
        raise IoError(f"--base: {error.strerror or error}", file=str(path), remedy=CHECK_PATH) from None
    if not files:
        raise ConfigError("--base: the directory has no .sql files", file=str(path), remedy=_REMEDY)


def _database_of(file: Path) -> str:
    """Return the database in a file's name, as mydumper names files: database.table.00000.sql."""
    name = file.name.removesuffix(".gz").removesuffix(".sql")
    database, dot, _ = name.partition(".")
    return database if dot else ""


def _tokens(data: bytes, at: int) -> Iterator[tuple[str, bytes, int]]:
    for match in _TOKEN.finditer(data, at):
        if match.lastgroup != "space":
            yield str(match.lastgroup), match[0], match.end()


def _statements(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield each statement's first word in capitals, and its begin and end; routines are skipped."""
    first, begin, at = b"", -1, 0
    while (match := _TOKEN.match(data, at)) is not None:
        at = match.end()
        if match.lastgroup == "space":
            continue
        if begin < 0:
            first, begin = match[0].upper(), match.start()
        if match[0] == b";":
            yield first, begin, at
            begin = -1
        elif first == b"DELIMITER":
            back = data.find(b"DELIMITER ;", at)
            at, begin, first = (len(data) if back < 0 else back + len(b"DELIMITER ;")), -1, b""


def _name(data: bytes) -> str:
    if data.startswith(b"`"):
        data = data[1:-1].replace(b"``", b"`")
    return data.decode("utf-8", "surrogateescape")


_USE: Final = re.compile(rb"\s*USE\s+(`(?:[^`]|``)*`|[\w$]+)", re.IGNORECASE)
_MAKE: Final = re.compile(
    rb"\s*CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:(`(?:[^`]|``)*`|[\w$]+)\s*\.\s*)?(`(?:[^`]|``)*`|[\w$]+)",
    re.IGNORECASE,
)
_INSERT: Final = re.compile(
    rb"\s*(?:INSERT|REPLACE)\s+(?:IGNORE\s+)?INTO\s+(?:(`(?:[^`]|``)*`|[\w$]+)\s*\.\s*)?(`(?:[^`]|``)*`|[\w$]+)\s*"
    rb"(\((?:\s*(?:`(?:[^`]|``)*`|[\w$]+)\s*,?)+\))?\s*VALUES\s*",
    re.IGNORECASE,
)


def _items(file: Path, data: bytes) -> Iterator[tuple[Name, list[str] | None, Iterator[list[_Value]] | None]]:
    """Yield (table, columns if named, rows) of each INSERT, and (table, None, None) of each CREATE TABLE."""
    database = _database_of(file)
    for first, begin, end in _statements(data):
        if first == b"USE" and (match := _USE.match(data, begin, end)) is not None:
            database = _name(match[1])
        elif first == b"CREATE" and (match := _MAKE.match(data, begin, end)) is not None:
            yield (_name(match[1]) if match[1] else database, _name(match[2])), None, None
        elif first in (b"INSERT", b"REPLACE"):
            match = _INSERT.match(data, begin, end)
            if match is None:
                text = data[begin : begin + 80].decode("utf-8", "replace")
                raise ReplayStopped(f"--base: not understood: {text}", file=str(file), position=begin, remedy=_REMEDY)
            names = re.findall(rb"`(?:[^`]|``)*`|[\w$]+", match[3]) if match[3] else None
            name = (_name(match[1]) if match[1] else database, _name(match[2]))
            yield name, None if names is None else [_name(n) for n in names], _rows(data, match.end(), end)


def _rows(data: bytes, at: int, end: int) -> Iterator[list[_Value]]:
    """Yield the values of each row of an INSERT."""
    row: list[_Value] = []
    for kind, text, after in _tokens(data, at):
        if after > end:
            return
        if text == b"(":
            row = []
        elif text == b")":
            yield row
        elif kind == "word" and text.upper() == b"NULL":
            row.append(_Value("null", b""))
        elif kind in ("string", "hex", "bits", "number"):
            row.append(_Value(kind, text))


def _columns(table: Table, names: Sequence[str] | None, file: Path) -> list[Column]:
    if names is None:
        return list(table.columns)
    columns = []
    for name in names:
        place = table.index_of(name)
        if place is None:
            raise ConfigError(f"--base: {table.schema}.{table.name} has no column {name} in the log", file=str(file))
        columns.append(table.columns[place])
    return columns


def _texts(columns: Sequence[Column], row: Sequence[_Value], file: Path) -> Texts:
    if len(row) != len(columns):
        raise ConfigError(
            f"--base: a row of {len(row)} values, where the table has {len(columns)} columns",
            file=str(file),
            remedy="a base has the tables as they were where the log begins, or says where in the log it is",
        )
    return tuple(_text(column, value) for column, value in zip(columns, row, strict=True))


def _text(column: Column, value: _Value) -> str | None:
    """Return a literal as the text that a server prints for the column."""
    if value.kind == "null":
        return None
    data = value.data
    if value.kind == "string":
        data = re.sub(rb"\\(.)|''", _unescaped, data[1:-1], flags=re.DOTALL)
    elif value.kind == "hex":
        data = bytes.fromhex((data[2:-1] if data[1:2] == b"'" else data[2:]).decode())
    elif value.kind == "bits":
        digits = data[2:].rstrip(b"'")
        data = int(digits or b"0", 2).to_bytes((len(digits) + 7) // 8, "big")
    if column.type.family in OPAQUE:
        return data.hex().upper()
    if column.type.family is Family.BIT and value.kind != "number":
        return str(int.from_bytes(data, "big"))
    return data.decode("utf-8", "surrogateescape")


def _unescaped(match: re.Match[bytes]) -> bytes:
    escaped = match[1]
    return b"'" if escaped is None else _ESCAPES.get(escaped[0], escaped)
