"""A session's prepared statements: parameters become literals of the text, rows go out in the binary protocol.

A cursor's rows are read as they are fetched; those of tables are of the view in which the statement was executed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain, islice
from typing import Final

from binlog_merge.binlog.constants import ColumnType
from binlog_merge.binlog_server.answers import Answer, Rows
from binlog_merge.binlog_server.refused import Refused
from binlog_merge.binlog_server.tables.session import Reads, Selected, Wanted
from binlog_merge.protocol.commands import CURSOR_READ_ONLY, Com, Execute, Fetch, Parameter, Prepared, Types
from binlog_merge.protocol.fields import (
    SERVER_STATUS_CURSOR_EXISTS,
    SERVER_STATUS_LAST_ROW_SENT,
    Field,
    FieldFlag,
    binary_of,
    binary_rows,
    described,
)
from binlog_merge.protocol.packets import (
    BINARY,
    SERVER_STATUS_AUTOCOMMIT,
    Column,
    Eof,
    Err,
    ErrorCode,
    Ok,
    Sent,
    Texts,
    utf8,
)
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.names import quote_plainly, quote_string
from snapshot_store.mysql.sql.session import DdlSession

COMMANDS: Final = frozenset(
    {
        Com.COM_STMT_PREPARE,
        Com.COM_STMT_EXECUTE,
        Com.COM_STMT_SEND_LONG_DATA,
        Com.COM_STMT_CLOSE,
        Com.COM_STMT_RESET,
        Com.COM_STMT_FETCH,
    }
)
_MOST: Final = 500
_MOST_LONG: Final = 1 << 24
"""Bytes that all statements of a session may keep of values that come before an execution."""
_OF_TABLES: Final = (
    FieldFlag.PRI_KEY
    | FieldFlag.UNIQUE_KEY
    | FieldFlag.MULTIPLE_KEY
    | FieldFlag.PART_KEY
    | FieldFlag.AUTO_INCREMENT
    | FieldFlag.TIMESTAMP
    | FieldFlag.ON_UPDATE_NOW
)
_MARK: Final = Field("?", ColumnType.VAR_STRING, BINARY, 0, 128)


@dataclass(slots=True)
class _Statement:
    """A statement in the parts between its parameters."""

    parts: tuple[str, ...]
    types: Types = ()
    long: dict[int, bytes] = field(default_factory=dict)
    lost: int = 0
    """Bytes of such values that were too many."""
    rows: Iterator[bytes] | None = None

    def text(self, literals: Sequence[str]) -> str:
        return "".join(chain.from_iterable(zip(self.parts, (*literals, ""), strict=True)))

    def close(self) -> None:
        """Give up the rows that were not fetched, and values that came before an execution."""
        rows, self.rows = self.rows, None
        if rows is not None and hasattr(rows, "close"):
            rows.close()
        self.long.clear()
        self.lost = 0

    def kept(self) -> int:
        """Return how many bytes of values it keeps."""
        return sum(map(len, self.long.values()))


class Statements:
    """The prepared statements of a session. `ask` answers a text; texts are of at most `longest` bytes."""

    def __init__(self, ask: Callable[[str, Wanted], Answer], longest: int, reads: Reads) -> None:
        self._ask = ask
        self._longest = longest
        self._reads = reads
        self._known: dict[int, _Statement] = {}
        self._last = 0

    def close(self) -> None:
        """Forget all statements."""
        for statement in self._known.values():
            statement.close()
        self._known.clear()

    def command(self, code: int, body: bytes) -> Iterable[bytes]:
        """Return the payloads that answer a command. Raises BinlogFormatError if its fields do not fit."""
        if code == Com.COM_STMT_PREPARE:
            return self._prepare(body)
        r = Sent(body, "statement")
        number = r.u32("statement")
        statement = self._known.get(number)
        if code == Com.COM_STMT_CLOSE:
            if statement is not None:
                statement.close()
                del self._known[number]
            return ()
        if code == Com.COM_STMT_SEND_LONG_DATA:
            if statement is not None:
                self._keep_long(statement, r)
            return ()
        if statement is None:
            return [
                Err.of(ErrorCode.ER_UNKNOWN_STMT_HANDLER, f"Unknown prepared statement handler ({number}) given").pack()
            ]
        if code == Com.COM_STMT_RESET:
            statement.close()
            return [Ok().pack()]
        if code == Com.COM_STMT_FETCH:
            return _fetch(statement, Fetch.parse(body))
        return self._execute(statement, r)

    def _too_long(self, size: int) -> bytes:
        return Err.of(
            ErrorCode.ER_NET_PACKET_TOO_LARGE,
            f"The statement has {size} characters with its parameters, and binlog-merge serve takes {self._longest}",
        ).pack()

    def _prepare(self, body: bytes) -> Iterable[bytes]:
        if len(body) > self._longest:
            return [self._too_long(len(body))]
        try:
            sql = self._reads.decoded(body)
        except Refused as refused:
            return [refused.answer.pack()]
        if len(self._known) >= _MOST:
            return [
                Err.of(
                    ErrorCode.ER_MAX_PREPARED_STMT_COUNT_REACHED,
                    f"Can't create more than {_MOST} prepared statements in a session",
                ).pack()
            ]
        parts, stand_ins, first = _taken_apart(sql, self._reads.grammar())
        statement = _Statement(parts)
        fields: tuple[Field, ...] = ()
        if first in ("SELECT", "SHOW"):
            answered = self._ask(statement.text(stand_ins), Wanted.COLUMNS)
            if isinstance(answered, Err):
                return [answered.pack()]
            fields, _ = self._result(answered)
        self._last += 1
        self._known[self._last] = statement
        count = len(parts) - 1
        return chain(
            [Prepared(self._last, len(fields), count).pack()],
            _list([_MARK] * count, utf8),
            _list(fields, self._reads.texts().encode),
        )

    def _literal(self, value: Parameter) -> str:
        """Return a parameter's value as SQL. Raises Refused."""
        if value is None:
            return "NULL"
        if isinstance(value, int | float):
            return repr(value)
        if isinstance(value, Decimal):
            return f"{value:f}"
        text = self._reads.decoded(value) if isinstance(value, bytes) else value
        if isinstance(value, bytes) and any("\udc80" <= char <= "\udcff" for char in text):
            return f"X'{value.hex()}'"  # no text, so bytes that are meant as such
        return quote_string(text) if self._reads.grammar().backslash_escapes else quote_plainly(text)

    def _keep_long(self, statement: _Statement, r: Sent) -> None:
        place, data = r.u16("parameter"), r.rest()
        known = sum(one.kept() for one in self._known.values())
        if statement.lost or statement.kept() + len(data) > self._longest or known + len(data) > _MOST_LONG:
            statement.lost += len(data)
        else:
            statement.long[place] = statement.long.get(place, b"") + data

    def _execute(self, statement: _Statement, r: Sent) -> Iterable[bytes]:
        if statement.lost:
            size = statement.kept() + statement.lost
            statement.close()
            return [self._too_long(size)]
        execute = Execute.parse(r, len(statement.parts) - 1, statement.types, statement.long)
        statement.close()
        statement.types = execute.types
        try:
            text = statement.text([self._literal(value) for value in execute.parameters])
        except Refused as refused:
            return [refused.answer.pack()]
        if len(text) > self._longest:
            return [self._too_long(len(text))]
        answered = self._ask(text, Wanted.BINARY)
        if not isinstance(answered, Rows | Selected):
            return [answered.pack()]
        fields, rows = self._result(answered)
        encode = self._reads.texts().encode
        if execute.flags & CURSOR_READ_ONLY:
            statement.rows = rows
            status = SERVER_STATUS_AUTOCOMMIT | SERVER_STATUS_CURSOR_EXISTS
            return described(tuple(map(_without_keys, fields)), status, encode)
        return chain(described(fields, encode=encode), rows, [Eof().pack()])

    def _result(self, answered: Answer) -> tuple[tuple[Field, ...], Iterator[bytes]]:
        """Return a result's columns and rows in the binary protocol."""
        if isinstance(answered, Selected):
            return answered.fields, answered.rows
        if not isinstance(answered, Rows):
            return (), iter(())
        texts = self._reads.texts()
        fields = tuple(_field(column, texts) for column in answered.columns)
        values = ([None if value is None else texts.encode(str(value)) for value in row] for row in answered.rows)
        rows = (next(binary_rows([binary_of(f, [v]) for f, v in zip(fields, row, strict=True)])) for row in values)
        return fields, rows


def _taken_apart(sql: str, session: DdlSession) -> tuple[tuple[str, ...], list[str], str]:
    """Return a statement's parts between its parameters, values that may stand for these, and its first word.

    With these its columns can be told: NULL, and a number where LIMIT wants one.
    """
    try:
        tokens = Cursor.of(sql, session).tokens
    except DdlNotUnderstood:
        return (sql,), [], ""
    parts, stand_ins, begin, limited = list[str](), list[str](), 0, False
    for token in tokens:
        limited = limited or (token.kind == "word" and token.text.upper() == "LIMIT")
        if token.kind == "symbol" and token.text == "?":
            parts.append(sql[begin : token.start])
            stand_ins.append("1" if limited else "NULL")
            begin = token.end
    first = next((token for token in tokens if token.text != "("), None)
    return (*parts, sql[begin:]), stand_ins, first.text.upper() if first is not None and first.kind == "word" else ""


def _field(column: Column, texts: Texts) -> Field:
    kind = (ColumnType.LONGLONG if column.number else ColumnType.VAR_STRING) if column.kind is None else column.kind
    flags = FieldFlag.UNSIGNED if column.unsigned else 0
    return Field(column.name, kind, BINARY if column.number else texts.collation, 1 << 16, flags, 31)


def _without_keys(field: Field) -> Field:
    """Return a column as of a cursor's result, which is a table of its own for a server."""
    return replace(field, flags=field.flags & ~_OF_TABLES, original_name=field.name)


def _list(fields: Sequence[Field], encode: Callable[[str], bytes]) -> Iterator[bytes]:
    if fields:
        yield from (field.pack(encode) for field in fields)
        yield Eof().pack()


def _fetch(statement: _Statement, fetch: Fetch) -> Iterator[bytes]:
    if statement.rows is None:
        yield Err.of(
            ErrorCode.ER_STMT_HAS_NO_OPEN_CURSOR, f"The statement ({fetch.statement}) has no open cursor."
        ).pack()
        return
    number = 0
    for row in islice(statement.rows, fetch.rows):
        number += 1
        yield row
    ended = number < fetch.rows
    if ended:
        statement.close()
    yield Eof(
        0, SERVER_STATUS_AUTOCOMMIT | (SERVER_STATUS_LAST_ROW_SENT if ended else SERVER_STATUS_CURSOR_EXISTS)
    ).pack()
