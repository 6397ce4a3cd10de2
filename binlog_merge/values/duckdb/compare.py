"""How MySQL compares pieces of an expression: numbers, moments, strings under a collation, bytes, JSON values.

Source: refman, "Comparison Functions and Operators", "Collation Coercibility in Expressions", "Comparison and Ordering
of JSON Values".
"""

from decimal import Decimal

from binlog_merge.values.duckdb.collations import sort_key
from binlog_merge.values.duckdb.piece import (
    MOMENTS,
    NUMBERS,
    ExpressionError,
    Sql,
    boolean,
    clock,
    double,
    moment,
    number,
    numeric_literal,
    quoted,
)
from snapshot_store.mysql.sql.session import DdlSession


def common_collation(left: Sql, right: Sql) -> Sql:
    """Return the piece whose collation rules both. Raises ExpressionError for an illegal mix."""
    first, second = sorted((left, right), key=lambda piece: piece.strength)
    if first.strength < second.strength or first.collation == second.collation:
        return first
    for one, other in ((first, second), (second, first)):
        same_charset = one.collation.split("_")[0] == other.collation.split("_")[0]
        if one.collation == "binary" or (same_charset and one.collation.endswith("_bin")):
            return one
        if other.collation.split("_")[0] in ("ascii", "latin1") and one.collation.startswith("utf8mb4"):
            return one
    raise ExpressionError(
        f"illegal mix of collations {left.collation} and {right.collation}; add COLLATE to one of them"
    )


def compare(symbol: str, left: Sql, right: Sql, session: DdlSession) -> Sql:
    """Return a comparison as MySQL makes it; `<=>` takes NULL for a value."""
    operator = {"<=>": "IS NOT DISTINCT FROM"}.get(symbol, symbol)
    if "null" in (left.kind, right.kind):
        if symbol != "<=>":
            return boolean("NULL::BOOLEAN")
        other = right if left.kind == "null" else left
        return boolean(f"({other.text} IS NULL)")
    ordered = symbol not in ("=", "<>", "<=>")
    if "json" in (left.kind, right.kind) and left.kind != right.kind and ordered:
        return boolean(_json_order(symbol, left, right))
    one, two = comparable(left, right, ordered, session)
    if "json" not in (left.kind, right.kind) or ordered:
        return boolean(f"({one} {operator} {two})")
    # Values of different JSON types differ; only a missing one is unknown.
    known = f"{left.text} IS NOT NULL AND {right.text} IS NOT NULL"
    if symbol == "<>":
        return boolean(f"(CASE WHEN {known} THEN coalesce({one} <> {two}, TRUE) END)")
    missing = f" ELSE {left.text} IS NULL AND {right.text} IS NULL" if symbol == "<=>" else ""
    return boolean(f"(CASE WHEN {known} THEN coalesce({one} = {two}, FALSE){missing} END)")


def comparable(left: Sql, right: Sql, ordered: bool, session: DdlSession) -> tuple[str, str]:
    """Return SQL of both sides, so converted that the engine compares them as MySQL would."""
    left, right = _adapted(left, right), _adapted(right, left)
    kinds = {left.kind, right.kind}
    if "json" in kinds:
        if left.bit or right.bit:
            raise ExpressionError("a BIT compared with a JSON value")
        return _json_sides(left, right)
    if kinds & set(MOMENTS):
        return moment(left, session).text, moment(right, session).text
    if "time" in kinds and kinds - {"time"}:
        return clock(left).text, clock(right).text
    if "binary" in kinds:
        return _bytes_sides(left, right)
    if kinds == {"string"}:
        rules = common_collation(left, right).collation
        if rules == "binary":
            return f"encode({left.text})", f"encode({right.text})"
        return sort_key(left.text, rules, ordered), sort_key(right.text, rules, ordered)
    if "string" in kinds:
        left, right = _exact(left), _exact(right)
    left, right = number(left), number(right)
    if "double" in (left.kind, right.kind) or left.scale + right.scale > 18:
        return double(left), double(right)
    return left.text, right.text


def _adapted(piece: Sql, other: Sql) -> Sql:
    """Return a constant as the other side wants it: a bit literal as text for text, 21 as 2021 for a YEAR."""
    if piece.raw is not None and other.kind == "string":
        try:
            return Sql(quoted(piece.raw.decode()), "string", constant=piece.raw.decode())
        except UnicodeDecodeError:
            return piece
    if other.year and piece.constant is not None and piece.constant.isdecimal() and 0 < int(piece.constant) < 100:
        value = int(piece.constant)
        return numeric_literal(str(value + (2000 if value < 70 else 1900)))
    return piece


def _exact(piece: Sql) -> Sql:
    """Return a constant string that is a plain number as that number, so that no digit is lost."""
    if piece.kind != "string" or piece.constant is None:
        return piece
    text = piece.constant.strip()
    if not text.lstrip("+-").replace(".", "", 1).isdecimal() or len(text) > 30:
        return piece
    return numeric_literal(str(Decimal(text)))


def _bytes_sides(left: Sql, right: Sql) -> tuple[str, str]:
    if left.kind == right.kind == "binary":
        return left.text, right.text
    other, bits = (left, right) if right.kind == "binary" else (right, left)
    if other.kind in NUMBERS:
        if bits.numbers is None:
            raise ExpressionError("a binary string compared with a number")
        sides = number(other).text, bits.numbers
    elif other.kind == "string":
        sides = f"encode({other.text})", bits.text
    else:
        raise ExpressionError(f"a binary string compared with a {other.kind}")
    return sides if other is left else (sides[1], sides[0])


def _json_sides(left: Sql, right: Sql) -> tuple[str, str]:
    """Compare by the JSON type: numbers with numbers, strings with strings, anything else as documents."""
    if left.kind == right.kind == "json":
        return f"json({left.text})::VARCHAR", f"json({right.text})::VARCHAR"
    document, other = (left, right) if left.kind == "json" else (right, left)
    kind = f"json_type({document.text})"
    if other.kind == "bool" and other.constant is not None:
        value = f"(CASE WHEN {kind} = 'BOOLEAN' THEN {document.text} = 'true' END)"
        sides = value, other.text
    elif other.kind in NUMBERS:
        value = f"(CASE WHEN {kind} IN ('BIGINT', 'UBIGINT', 'DOUBLE', 'HUGEINT') THEN ({document.text})::DOUBLE END)"
        sides = value, double(other)
    elif other.kind == "string":
        sides = f"(CASE WHEN {kind} = 'VARCHAR' THEN json_extract_string({document.text}, '$') END)", other.text
    else:
        raise ExpressionError(f"a JSON value compared with a {other.kind}")
    return sides if document is left else (sides[1], sides[0])


def _json_order(symbol: str, left: Sql, right: Sql) -> str:
    """Compare less and greater: values of one JSON type by value, others by the precedence of their types."""
    one, two = _json_sides(left, right)
    document, other = (left, right) if left.kind == "json" else (right, left)
    less = "'NULL'" if other.kind in NUMBERS else "'NULL', 'BIGINT', 'UBIGINT', 'DOUBLE', 'HUGEINT'"
    document_first = document is left
    kind = f"json_type({document.text})"
    above = ("TRUE", "FALSE") if (symbol[0] == ">") is document_first else ("FALSE", "TRUE")
    by_type = f"CASE WHEN {kind} IN ({less}) THEN {above[1]} ELSE {above[0]} END"
    return f"(CASE WHEN {document.text} IS NOT NULL THEN coalesce({one} {symbol} {two}, {by_type}) END)"
