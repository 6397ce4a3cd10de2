"""The value of a cell in a key, as bytes that are the same for all values that a server takes for equal; and which keys
of a table stand, of as many as bounded memory holds: an insert of one of them is a collision.

Where the bytes of a cell do not decide that (an unknown collation, text beyond ASCII in a case-insensitive one),
nothing is guessed. Sources: MySQL manual 12.10 (collations, PAD SPACE), 15.1.20.5 (FOREIGN KEY).

The keys that are looked at are those with the least hashes, as many as there is room for: which they are depends on the
keys alone, so that parts of a log may be looked through apart and put together. Two shards that both count from 1 have
most of their keys in common, so a sample shows it; of a small log it is all keys.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, NamedTuple

from binlog_merge.binlog.arrow import cell_value
from binlog_merge.binlog.cell_length import real_type, string_max_length
from binlog_merge.binlog.columnar import ColumnFacts
from binlog_merge.binlog.constants import ColumnType
from binlog_merge.binlog.decode import decode_cell
from binlog_merge.binlog.encode import encode_cell
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.rows import Cell, PartialJson
from binlog_merge.binlog.table_map import TableMap
from snapshot_store.mysql.text.weights import weights_name


@dataclass(frozen=True, slots=True)
class KeyPart:
    """A column of a key, by its index in the table. `prefix`: only so many characters (bytes) of it."""

    column: int
    collation: str | None = None
    prefix: int | None = None


class Unclear(Exception):  # noqa: N818
    """The bytes of a cell do not decide which values it equals."""


_TEXT: Final = frozenset({ColumnType.VARCHAR, ColumnType.VAR_STRING, ColumnType.STRING})
_BLOBS: Final = frozenset({ColumnType.TINY_BLOB, ColumnType.MEDIUM_BLOB, ColumnType.LONG_BLOB, ColumnType.BLOB})
_NO_KEYS: Final = frozenset({ColumnType.JSON, ColumnType.GEOMETRY, ColumnType.VECTOR})
_BEFORE_5_6: Final[dict[int, str]] = {
    ColumnType.TIMESTAMP: "old timestamp",
    ColumnType.DATETIME: "old datetime",
    ColumnType.TIME: "old time",
}
"""Formats that columns keep when a server is upgraded in place: another shard's may have the new one."""
_SINCE_5_6: Final = {
    ColumnType.TIMESTAMP: ColumnType.TIMESTAMP2,
    ColumnType.DATETIME: ColumnType.DATETIME2,
    ColumnType.TIME: ColumnType.TIME2,
}
_BYTES: Final = re.compile(r"(utf8mb4|utf8mb3|utf8|latin1|ascii|gbk|big5|gb18030|latin2|cp1251)_(0900_)?bin")
_PRINTABLE: Final = re.compile(rb"[ -~]*")


def folded(table: TableMap, part: KeyPart, cell: Cell) -> bytes:
    """Return bytes that are the same for all values that a server takes for equal. Raises Unclear if not known."""
    kind, meta = real_type(table.types[part.column], table.metas[part.column]), table.metas[part.column]
    if isinstance(cell, PartialJson) or not isinstance(cell, bytes | memoryview) or kind in _NO_KEYS:
        raise Unclear
    if kind in _TEXT or kind in _BLOBS:
        return _text(bytes(cell[_prefix_length(kind, meta) :]), part)
    data = bytes(cell)
    if not data:
        raise Unclear  # a table map that contradicts itself: no such type is without bytes
    if kind in (ColumnType.FLOAT, ColumnType.DOUBLE):
        return data if any(data[:-1]) or data[-1] & 0x7F else bytes(len(data))  # -0 equals 0
    if kind == ColumnType.NEWDECIMAL and data[0] == 0x7F and not any(byte ^ 0xFF for byte in data[1:]):
        return bytes(byte ^ 0xFF for byte in data)
    try:
        return as_since_5_6(table, part.column, data)
    except (BinlogFormatError, ValueError):
        raise Unclear from None


def compared(table: TableMap, part: KeyPart) -> str | None:
    """Return how values of a key's part are compared: which bytes are the same for all values that are equal.

    "bytes", "float", "decimal"; "text": the weights of its characters, see `text.weights`; "binary text": by its bytes.
    Of both kinds of text `pad` is not compared at its end. "old timestamp", "old datetime", "old time": by the moment,
    as the format since 5.6 has it. None: it is not known of any value.
    """
    kind = real_type(table.types[part.column], table.metas[part.column])
    if kind in _NO_KEYS:
        return None
    if kind in _BEFORE_5_6:
        return _BEFORE_5_6[kind]
    if kind not in _TEXT | _BLOBS:
        floats = (ColumnType.FLOAT, ColumnType.DOUBLE)
        return "float" if kind in floats else "decimal" if kind == ColumnType.NEWDECIMAL else "bytes"
    if part.collation is None or part.collation == "binary":
        return "binary text"
    if _BYTES.fullmatch(part.collation):
        return "binary text"
    return "text" if weights_name(part.collation) else None


def pad(table: TableMap, part: KeyPart) -> int | None:
    """Return the byte of which it is no difference how often it stands at the end of a text, None if there is none."""
    if part.collation is None or part.collation == "binary":
        kind = real_type(table.types[part.column], table.metas[part.column])
        return 0 if kind == ColumnType.STRING else None
    return None if "_0900_" in part.collation else 0x20


def length_bytes(table: TableMap, column: int) -> int:
    """Return how many bytes of length are before a text's or a blob's own, in its cells."""
    return _prefix_length(real_type(table.types[column], table.metas[column]), table.metas[column])


def is_before_5_6(table: TableMap, column: int) -> bool:
    """Return whether a column has moments in a format of before 5.6."""
    return table.types[column] in _BEFORE_5_6


def as_since_5_6(table: TableMap, column: int, cell: bytes) -> bytes:
    """Return a moment in the format since 5.6, which another shard may have; other cells are returned as they are.

    Raises BinlogFormatError or ValueError for one that is none.
    """
    kind = table.types[column]
    if kind not in _BEFORE_5_6:
        return cell
    return encode_cell(_SINCE_5_6[ColumnType(kind)], 0, decode_cell(kind, 0, cell))


def folds_case(table: TableMap, part: KeyPart) -> bool:
    """Return whether ASCII letters of a key's text are equal in either case, whatever else is in the text."""
    kind = real_type(table.types[part.column], table.metas[part.column])
    collation = part.collation or ""
    return kind in _TEXT | _BLOBS and collation.endswith("_ci") and weights_name(collation) is not None


def as_compared(table: TableMap, part: KeyPart, cell: bytes) -> bytes:
    """Return bytes that are the same only for values that a server takes for equal: the opposite of `folded`.

    They are the same for texts that differ in the case of ASCII letters, or in spaces at the end, where the collation
    says so; texts that other letters make equal have other bytes. Moments are the same in the formats of before 5.6.
    """
    kind, meta = real_type(table.types[part.column], table.metas[part.column]), table.metas[part.column]
    if kind not in _TEXT | _BLOBS:
        try:
            return as_since_5_6(table, part.column, cell)
        except (BinlogFormatError, ValueError):
            return cell
    collation = part.collation or "binary"
    text = cell[_prefix_length(kind, meta) :]
    if folds_case(table, part):
        text = text.upper()
    known = weights_name(collation) or _BYTES.fullmatch(collation)
    return text.rstrip(b" ") if known and "_0900_" not in collation else text


def as_hashed(table: TableMap, column: int, cell: Cell | None, unsigned: bool, charset: str) -> bytes:
    """Return bytes that values have in common which a server takes for equal, also before a column became wider.

    Texts that differ in case, accents or spaces at the end have the same, whatever their collation; what else one takes
    for equal has not.
    """
    if not isinstance(cell, bytes | memoryview):
        return b"\0"
    value = decode_cell(table.types[column], table.metas[column], bytes(cell), unsigned, charset)
    if isinstance(value, str):
        plain = unicodedata.normalize("NFKD", value.casefold())
        value = "".join(c for c in plain if not unicodedata.combining(c)).rstrip(" ")
    elif isinstance(value, Decimal) and value == int(value):
        value = Decimal(int(value))
    elif isinstance(value, Decimal):
        value = Decimal(f"{value:f}".rstrip("0"))  # of whatever scale the column is
    elif value == 0:
        value = abs(value)  # -0.0 is 0.0
    return repr(value).encode("utf-8", "surrogateescape") + b"\0"


def _prefix_length(kind: int, meta: int) -> int:
    if kind in _BLOBS:
        return meta
    longest = string_max_length(meta) if kind == ColumnType.STRING else meta
    return 2 if longest > 255 else 1


def _text(data: bytes, part: KeyPart) -> bytes:
    """Fold a text for comparison; trailing spaces and zeros never count, as with PAD SPACE and BINARY."""
    collation = part.collation
    if collation is None or collation == "binary":
        return data[: part.prefix].rstrip(b" \0")
    if _PRINTABLE.fullmatch(data) is None:
        if _BYTES.fullmatch(collation) and part.prefix is None:
            return data.rstrip(b" ")
        raise Unclear
    if _BYTES.fullmatch(collation):
        return data[: part.prefix].rstrip(b" ")
    if weights_name(collation):
        return data[: part.prefix].upper().rstrip(b" ")
    raise Unclear


EVERY_HASH: Final = 1 << 64
MOST_KEYS: Final = 1 << 12
"""The keys that are held, of about half a kilobyte each."""


class Taken(NamedTuple):
    """Who gave a row a key: `origin` wrote it, in the transaction at `place`.

    `cells` are bytes of the key that are the same for equal keys, `written` those that stand in the row.
    """

    origin: str
    place: str
    cells: tuple[bytes, ...]
    written: tuple[bytes, ...]


class Collision(NamedTuple):
    """Two origins that gave rows the same key, `second` while the row of `first` stood."""

    first: Taken
    second: Taken


@dataclass
class StandingKeys:
    """The keys of one index in a part of a log.

    `firsts` has for each key that changed before an interruption what came first: who took it, None if it was freed.
    `standing` are the keys that stand at the end. After an interruption (a statement, which may remove rows) nothing is
    known to stand. Only hashes below `limit` are looked at.
    """

    limit: int = EVERY_HASH
    firsts: dict[int, Taken | None] = field(default_factory=dict)
    standing: dict[int, Taken] = field(default_factory=dict)
    interrupted: bool = False

    def take(self, hashed: int, taken: Taken) -> Collision | None:
        """Note that a row got a key; return the collision if a row of another origin has it."""
        if hashed >= self.limit:
            return None
        if not self.interrupted:
            self.firsts.setdefault(hashed, taken)
        found = _collision(self.standing.get(hashed), taken)
        self.standing[hashed] = taken
        return found

    def free(self, hashed: int) -> None:
        """Note that the row of a key is gone, or has another key."""
        if hashed < self.limit:
            if not self.interrupted:
                self.firsts.setdefault(hashed, None)
            self.standing.pop(hashed, None)

    def interrupt(self) -> None:
        """Forget what stands."""
        self.interrupted = True
        self.standing.clear()

    def follow(self, later: "StandingKeys") -> Iterator[Collision]:
        """Put together with the part of the log that follows; yield the collisions between the two."""
        self.lower(later.limit)
        for hashed, first in later.firsts.items():
            if hashed >= self.limit:
                continue
            if first is not None and (found := _collision(self.standing.get(hashed), first)):
                yield found
            if not self.interrupted:
                self.firsts.setdefault(hashed, first)
            self.standing.pop(hashed, None)
        if later.interrupted:
            self.interrupt()
        self.standing.update((h, taken) for h, taken in later.standing.items() if h < self.limit)

    def __len__(self) -> int:
        return len(self.firsts) + len(self.standing)

    def copy(self) -> "StandingKeys":
        """Return the same, to go on with apart."""
        return StandingKeys(self.limit, dict(self.firsts), dict(self.standing), self.interrupted)

    def halve(self) -> None:
        """Look only at half as many keys from here on."""
        self.lower(self.limit // 2)

    def lower(self, limit: int) -> None:
        """Look only at keys whose hash is less than a limit from here on."""
        if limit < self.limit:
            self.limit = limit
            self.firsts = {h: first for h, first in self.firsts.items() if h < limit}
            self.standing = {h: taken for h, taken in self.standing.items() if h < limit}


def _collision(first: Taken | None, second: Taken) -> Collision | None:
    if first is None or first.origin == second.origin or first.cells != second.cells:
        return None
    return Collision(first, second)


def fit(keys: Collection[StandingKeys], most: int) -> None:
    """Look at fewer keys of the indexes that have most of them, until all together have at most so many."""
    while keys and sum(map(len, keys)) > most:
        max(keys, key=len).halve()


def key_text(facts: Sequence[ColumnFacts], cells: Sequence[bytes]) -> str:
    """Return a key as text for a message: `id=512`, `code='DE'`."""
    parts = []
    for fact, cell in zip(facts, cells, strict=True):
        try:
            value: Any = cell_value(
                cell, fact.code, fact.meta, fact.unsigned, fact.charset, fact.members, fact.kind, True
            )
        except (BinlogFormatError, ValueError):
            value = cell
        shown = f"0x{value.hex()}" if isinstance(value, bytes) else repr(value) if isinstance(value, str) else value
        parts.append(f"{fact.name}={shown}")
    return ", ".join(parts)
