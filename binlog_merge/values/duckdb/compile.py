"""A filter expression, read by MySQL's grammar, as SQL over the columns of a batch of rows.

The tree comes from `snapshot_store.mysql.expr.read`, which cuts the text with sqlglot's tokenizer and follows the
server's own rules of precedence. What is not understood for certain is refused when the filter is made.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from binlog_merge.values.duckdb.arithmetic import ALL_BITS, arithmetic, bits_of, bounded, cast, operand
from binlog_merge.values.duckdb.checks import (
    check_between,
    check_bits,
    check_in,
    check_left_out,
    check_signs,
    has_column,
)
from binlog_merge.values.duckdb.collations import like
from binlog_merge.values.duckdb.compare import as_model, chosen, common_collation, compare
from binlog_merge.values.duckdb.functions import call
from binlog_merge.values.duckdb.piece import (
    COLUMN,
    CONNECTION,
    EXPLICIT,
    LITERAL,
    NULL,
    NUMERIC,
    SESSION,
    ExpressionError,
    Sql,
    boolean,
    clock,
    condition,
    constant_moment,
    moment,
    no_text,
    numeric_literal,
    quoted,
    stop,
    string,
    unhex,
)
from binlog_merge.values.duckdb.text import trimmed
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import Family
from snapshot_store.mysql.expr.nodes import Node
from snapshot_store.mysql.expr.read import read_expression
from snapshot_store.mysql.text.charsets import (
    canonical_charset,
    canonical_collation,
    charset_named_by,
    default_collation,
)
from snapshot_store.mysql.text.codecs import encode_text, is_utf8

Columns = Mapping[str, Sql]
"""The columns of a table by lower-case name."""


class UnknownColumn(ExpressionError):  # noqa: N818 (what was found, as in binlog_merge.errors)
    """An expression names a column that its table does not have."""

    def __init__(self, column: str) -> None:
        super().__init__(f"unknown column {column}")
        self.column = column


def parse(text: str) -> Node:
    """Return the tree of an expression. Raises ExpressionError."""
    try:
        found = read_expression(text, SESSION)
    except (DdlNotUnderstood, IndexError, RecursionError, ValueError, TypeError) as error:
        raise ExpressionError(getattr(error, "reason", None) or str(error)) from None
    if found.forbidden:
        raise ExpressionError(f"{found.forbidden} cannot stand in a filter")
    return found.node


def compile_filter(node: Node, columns: Columns) -> str:
    """Return SQL of whether the expression's value is 1. Raises ExpressionError, UnknownColumn."""
    piece = _Compiler(columns).piece(node)
    if piece.kind != "bool":
        piece = compare("=", piece, numeric_literal("1"), SESSION)
    return f"coalesce({piece.text}, FALSE)"


def compile_value(node: Node, columns: Columns, connection: str = CONNECTION, client: str = "utf8mb4") -> Sql:
    """Return the expression's value. Raises ExpressionError, UnknownColumn.

    `connection` is the session's collation, and `client` the character set in which the client has written.
    """
    return _Compiler(columns, connection, client).piece(node)


class _Compiler:
    """Turns nodes into pieces; a method for each kind of node."""

    def __init__(self, columns: Columns, connection: str = CONNECTION, client: str = "utf8mb4") -> None:
        self.columns = columns
        self.connection = connection
        self.client = client
        self._made: dict[int, Sql] = {}

    def piece(self, node: Node) -> Sql:
        """Return a node as SQL."""
        if id(node) not in self._made:
            self._made[id(node)] = made = self._compiled(node)
            check_left_out(node, made, [self._made[id(arg)] for arg in node.args if id(arg) in self._made])
        return self._made[id(node)]

    def _compiled(self, node: Node) -> Sql:
        method: Callable[[Node], Sql] | None = getattr(self, f"_{node.kind}", None)
        if method is None:
            raise ExpressionError(f"{node.text or node.kind} cannot stand in a filter")
        found = method(node)
        if found.kind == "null":  # whatever it was made of, so that the engine gives it no type
            return NULL
        made = found.kind == "string" and (
            found.strength == NUMERIC or (node.kind == "cast" and found.charset == charset_named_by(self.connection))
        )
        return replace(found, collation=self.connection) if made else found  # a text of the session's

    def _pieces(self, node: Node) -> list[Sql]:
        return [self.piece(arg) for arg in node.args]

    def _literal(self, node: Node) -> Sql:
        text = node.text
        if text == "NULL":
            return NULL
        if text in ("true", "false"):
            value = f"({text.upper()})"
            return Sql(value, "bool", constant=text)
        if text.lower().startswith(("0x", "x'")):
            digits = text[2:].rstrip("'")
            # As a number a literal of more than eight bytes keeps its last ones.
            last = int(digits[-16:] or "0", 16)
            return Sql(f"unhex('{digits}')", "binary", numbers=f"{last}::HUGEINT", raw=bytes.fromhex(digits))
        return numeric_literal(text)

    def _string(self, node: Node) -> Sql:
        charset, text = canonical_charset(node.args[0].text) if node.args else "utf8mb4", node.text
        if charset == charset_named_by(self.connection) and (text.isascii() or charset != "binary"):
            return self._spoken(charset, text)
        data = _sent(self.client, text)
        if charset == "binary":
            return Sql(unhex(data), "binary", raw=data)
        if charset is None or (not is_utf8(charset) and not text.isascii()):
            raise ExpressionError(f"a text of the character set {node.args[0].text}")
        return _utf8(data, default_collation(charset))

    def _spoken(self, charset: str, text: str) -> Sql:
        """Return a literal in the session's own character set."""
        if charset == "binary" or is_utf8(charset):
            return _utf8(_sent("utf8mb4", text), self.connection)
        raw = None if text.isascii() else encode_text(charset, text)
        return Sql(quoted(text), "string", self.connection, constant=text, raw=raw)

    def _column(self, node: Node) -> Sql:
        found = self.columns.get(node.text.lower())
        if found is None:
            raise UnknownColumn(node.text)
        if not found.kind:
            raise ExpressionError(found.text)
        return found

    def _compare(self, node: Node) -> Sql:
        left, right = self._pieces(node)
        for piece, other, arg in ((left, right, node.args[1]), (right, left, node.args[0])):
            if piece.year and other.constant is None and other.kind != "null" and not has_column(arg):
                raise ExpressionError("a YEAR compared with what is computed from constants; write the number")
        return compare(node.text, left, right, SESSION)

    def _and(self, node: Node) -> Sql:
        return boolean("(" + " AND ".join(condition(p) for p in self._pieces(node)) + ")")

    def _or(self, node: Node) -> Sql:
        return boolean("(" + " OR ".join(condition(p) for p in self._pieces(node)) + ")")

    def _xor(self, node: Node) -> Sql:
        left, right = (condition(p) for p in self._pieces(node))
        return boolean(f"({left} <> {right})")

    def _not(self, node: Node) -> Sql:
        return boolean(f"(NOT {condition(self.piece(node.args[0]))})")

    def _null(self, node: Node) -> Sql:
        return boolean(f"({self.piece(node.args[0]).text} IS {'NOT ' if node.negated else ''}NULL)")

    def _truth(self, node: Node) -> Sql:
        holds = f"coalesce({condition(self.piece(node.args[0]))}, {'FALSE' if node.text == 'true' else 'TRUE'})"
        yes = (node.text == "true") is not node.negated
        return boolean(holds if yes else f"(NOT {holds})")

    def _between(self, node: Node) -> Sql:
        value, low, high = self._pieces(node)
        check_between(value, low, high)
        _check_many(value, (low, high))
        above, below = compare(">=", value, low, SESSION), compare("<=", value, high, SESSION)
        return boolean(f"({'NOT ' if node.negated else ''}({above.text} AND {below.text}))")

    def _in(self, node: Node) -> Sql:
        value, *items = self._pieces(node)
        check_in(value, items)
        if len(items) > 1:
            check_signs(value, items)
        if any(item.constant is None for item in items):
            check_bits(value, items)
        _check_many(value, items)
        any_of = " OR ".join(compare("=", value, item, SESSION).text for item in items)
        return boolean(f"({'NOT ' if node.negated else ''}({any_of}))")

    def _like(self, node: Node) -> Sql:
        text, pattern = (string(self.piece(arg)) for arg in node.args[:2])
        escape = self.piece(node.args[2]).constant if len(node.args) > 2 else "\\"
        if escape is None or len(escape) > 1:
            raise ExpressionError("ESCAPE must be one character")
        rules = common_collation(text, pattern).collation
        return boolean(like(text.text, pattern.text, escape, rules))

    def _collate(self, node: Node) -> Sql:
        piece, collation = string(self.piece(node.args[0])), canonical_collation(node.text)
        if piece.kind == "null":
            raise ExpressionError("COLLATE of NULL")
        if collation is None or collation == "binary" or charset_named_by(collation) != piece.charset:
            raise ExpressionError(f"COLLATE {node.text} of a text in {piece.charset}")
        return replace(piece, collation=collation, strength=EXPLICIT, numbers=None)

    def _using(self, node: Node) -> Sql:
        piece = string(self.piece(node.args[0]))
        if canonical_charset(node.text) != "utf8mb4":
            raise ExpressionError(f"CONVERT USING {node.text}")
        return replace(piece, collation="utf8mb4_0900_ai_ci", strength=COLUMN, raw=None, numbers=None)

    def _row(self, node: Node) -> Sql:
        raise ExpressionError("a row of several values")

    def _prefix(self, node: Node) -> Sql:
        piece = self.piece(node.args[0])
        if piece.kind in ("datetime", "time"):
            raise ExpressionError(f"{node.text} of a {piece.kind}")
        if node.text == "~":
            return Sql(f"({ALL_BITS} - {bits_of(piece)})", "int", unsigned=True)
        piece = operand(piece)
        if piece.kind == "int" and piece.constant is not None:
            return numeric_literal(str(-int(piece.constant)))
        constant = f"-{piece.constant}" if piece.constant is not None and piece.constant[0] != "-" else None
        if piece.kind == "int":
            return bounded(f"(-{piece.text})", False, piece.untold)
        return replace(piece, text=f"(-{piece.text})", constant=constant, unsigned=None, strength=LITERAL)

    def _binary(self, node: Node) -> Sql:
        left, right = self._pieces(node)
        if "null" in (left.kind, right.kind):
            return NULL
        return arithmetic(node.text, left, right)

    def _interval(self, node: Node) -> Sql:
        sign, unit = node.text.split()
        base, amount = self.piece(node.args[0]), self.piece(node.args[1])
        if unit not in _UNITS or amount.kind not in ("int", "string") or amount.constant is None:
            raise ExpressionError(f"INTERVAL of {unit}: only a constant number of a simple unit is understood")
        if not re.fullmatch(r"-?\d{1,9}", amount.constant):
            raise ExpressionError(f"INTERVAL {amount.constant!r} {unit}")
        whole = base.kind == "date" and unit in ("day", "week", "month", "quarter", "year")
        at = f"lpad(({moment(base, SESSION).text})::DECIMAL(20,6)::VARCHAR, 21, '0')"
        start = f"try_strptime({at}, '%Y%m%d%H%M%S.%f')"
        moved = f"strftime({start} {sign} INTERVAL ({amount.constant}) {_UNITS[unit]}, '%Y%m%d%H%M%S.%f')"
        message = "a date before the year 1, which a server may take for none"
        digits = f"try_cast({moved} AS DECIMAL(20,6))"
        made = f"CASE WHEN t < 10101000000 THEN {stop(message, 'DECIMAL(20,6)')} ELSE t END"
        return Sql(f"list_transform([{digits}], lambda t: {made})[1]", "date" if whole else "datetime")

    def _moment(self, node: Node) -> Sql:
        text = node.args[0].text
        if node.text == "TIME":
            return clock(Sql("", "string", constant=text))
        found = constant_moment(text, False, SESSION)
        return replace(found, kind="date" if node.text == "DATE" else "datetime")

    def _cast(self, node: Node) -> Sql:
        return cast(node.text, self.piece(node.args[0]))

    def _case(self, node: Node) -> Sql:
        pieces = self._pieces(node)
        operand = pieces.pop(0) if "operand" in node.text else None
        otherwise = pieces.pop() if "else" in node.text else NULL
        results, model = chosen([*pieces[1::2], otherwise], SESSION)
        if operand is not None:
            _check_case(operand, pieces[::2])
        whens = [
            condition(when) if operand is None else compare("=", operand, when, SESSION).text for when in pieces[::2]
        ]
        arms = " ".join(f"WHEN {when} THEN {then}" for when, then in zip(whens, results[:-1], strict=True))
        return as_model(model, f"(CASE {arms} ELSE {results[-1]} END)")

    def _call(self, node: Node) -> Sql:
        return call(node.text, self._pieces(node), SESSION)

    def _extract(self, node: Node) -> Sql:
        names = {"year": "year", "month": "month", "day": "dayofmonth", "hour": "hour"}
        names |= {"minute": "minute", "second": "second"}
        if node.text not in names:
            raise ExpressionError(f"EXTRACT({node.text.upper()})")
        pieces = self._pieces(node)
        if pieces[0].kind not in ("date", "datetime"):  # the parts of a time may be negative
            raise ExpressionError(f"EXTRACT() of a {pieces[0].kind}")
        return call(names[node.text], pieces, SESSION)

    def _trim(self, node: Node) -> Sql:
        return trimmed(node.text, *self._pieces(node))


def _sent(client: str, text: str) -> bytes:
    """Return the bytes of a part of a statement as a client has sent it; stray ones stay as they are."""
    if is_utf8(client) or client == "binary" or text.isascii():
        return text.encode("utf-8", "surrogateescape")
    return encode_text(client, text)


def _utf8(data: bytes, collation: str) -> Sql:
    """Return a string literal of bytes in UTF-8."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return no_text(data, collation)
    return Sql(quoted(text), "string", collation, constant=text)


def _check_case(operand: Sql, whens: Sequence[Sql]) -> None:
    """Refuse a CASE that does not compare as = does: with dates and times, which it takes for texts."""
    kinds = {piece.kind for piece in (operand, *whens)} - {"null"}
    if kinds & {"date", "datetime", "time", "json"} and len(kinds) > 1:
        raise ExpressionError(f"CASE of {' and '.join(sorted(kinds))}; write CASE WHEN … = … THEN")
    check_in(operand, whens)
    check_signs(operand, whens)
    check_bits(operand, whens)
    _check_years(operand, whens)


def _check_many(value: Sql, others: Sequence[Sql]) -> None:
    """Refuse what IN and BETWEEN compare by the types of all of their values together."""
    _check_years(value, others)
    if (
        any(piece.kind == "binary" and piece.raw is not None for piece in others)
        and len({piece.kind for piece in (value, *others)}) > 1
    ):
        raise ExpressionError("a bit literal beside other values of IN or BETWEEN; compare with each")


def _check_years(value: Sql, others: Sequence[Sql]) -> None:
    """Refuse a YEAR compared by IN, BETWEEN or CASE with what may not be one."""
    if not value.year and any(piece.year for piece in others):
        raise ExpressionError("a YEAR among the values of IN, BETWEEN or CASE; compare it with each")
    if value.year and any(not (piece.kind == "int" and len(piece.constant or "") == 4) for piece in others):
        raise ExpressionError(
            "a YEAR in IN, BETWEEN or CASE, beside something else than years of four digits; compare it with each"
        )


_UNITS = {
    "microsecond": "MICROSECOND",
    "second": "SECOND",
    "minute": "MINUTE",
    "hour": "HOUR",
    "day": "DAY",
    "week": "WEEK",
    "month": "MONTH",
    "quarter": "QUARTER",
    "year": "YEAR",
}


def generated_column(column: Column, columns: Columns) -> Sql:
    """Return a virtual column as what it is computed from."""
    if column.generated is None:
        raise ExpressionError(f"{column.name} is no generated column")
    piece = _Compiler(columns).piece(parse(column.generated.expression))
    if piece.kind == "string":
        return replace(piece, collation=column.type.collation or piece.collation, strength=COLUMN, constant=None)
    if column.type.family is Family.INTEGER and piece.kind != "int":
        return cast("signed", piece)
    return piece
