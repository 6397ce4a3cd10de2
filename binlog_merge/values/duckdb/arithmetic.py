"""Operations on numbers and bits, and CAST, as SQL of the engine that evaluates expressions.

Source: refman, "Arithmetic Operators", "Bit Functions and Operators", "Cast Functions and Operators".
"""

import re
from dataclasses import replace

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.json_binary import json_text
from binlog_merge.values.convert.json import read_json
from binlog_merge.values.duckdb.piece import (
    COLUMN,
    NULL,
    SESSION,
    ExpressionError,
    Sql,
    clamped,
    clock,
    double,
    moment,
    number,
    quoted,
    string,
)
from binlog_merge.values.value import ConversionError

ALL_BITS = "18446744073709551615::HUGEINT"


def bits_of(piece: Sql) -> str:
    """Return SQL of a number as MySQL's bit operators take it: 64 bits without a sign."""
    value = number(piece)
    if value.kind == "double":
        raise ExpressionError("bits of a FLOAT, a DOUBLE or a text; CAST(… AS SIGNED) gives a whole number")
    return f"(({value.text})::HUGEINT & {ALL_BITS})"


def _bit_operation(symbol: str, one: str, two: str) -> str:
    if symbol == "^":
        return f"xor({one}, {two})"
    if symbol in ("|", "&"):
        return f"({one} {symbol} {two})"
    places = f"{clamped(two, '0', '64')}::INTEGER"
    if symbol == ">>":
        return f"({one} >> {places})"
    kept = f"({one} & ((1::HUGEINT << (64 - {places})) - 1))"
    return f"(CASE WHEN {two} >= 64 THEN 0 ELSE {kept} << {places} END)::HUGEINT"


def _operand(piece: Sql) -> Sql:
    """Return a number to calculate with: an ENUM or SET is a text, of which a server makes a DOUBLE."""
    return Sql(double(piece), "double") if piece.kind == "string" and piece.numbers is not None else number(piece)


def arithmetic(symbol: str, left: Sql, right: Sql) -> Sql:
    """Return an operation on two numbers, as exact as MySQL's. Raises ExpressionError for an unknown operator."""
    if symbol in ("|", "&", "^", "<<", ">>"):
        return Sql(_bit_operation(symbol, bits_of(left), bits_of(right)), "int")
    left, right = _operand(left), _operand(right)
    kinds = {left.kind, right.kind}
    inexact = "double" in kinds
    one, two = (double(left), double(right)) if inexact else (left.text, right.text)
    scale = left.scale + right.scale if symbol == "*" else max(left.scale, right.scale)
    kind = "double" if inexact else "decimal" if "decimal" in kinds else "int"
    if symbol in ("+", "-", "*"):
        return Sql(f"({one} {symbol} {two})", kind, scale=scale)
    divided = f"nullif({double(right)}, 0)"
    if symbol == "/":
        quotient = f"({double(left)} / {divided})"
        if inexact:
            return Sql(quotient, "double")
        # MySQL keeps four more digits than the dividend has (div_precision_increment).
        return Sql(f"({quotient})::DECIMAL(38,{left.scale + 4})", "decimal", scale=left.scale + 4)
    if symbol == "DIV":
        if kinds == {"int"}:
            return Sql(f"({one} // nullif({two}, 0))", "int")
        return Sql(f"trunc({double(left)} / {divided})::HUGEINT", "int")
    if symbol == "%":
        return Sql(f"({one} % nullif({two}, 0))", kind, scale=scale)
    raise ExpressionError(f"the operator {symbol}")


def _json(piece: Sql) -> Sql:
    """Return CAST AS JSON; a constant is written as a server prints it."""
    if piece.constant is None:
        return replace(piece, constant=None) if piece.kind == "json" else Sql(f"({string(piece).text})", "json")
    try:
        text = json_text(read_json(piece.constant).document)
    except (ConversionError, BinlogFormatError) as error:
        raise ExpressionError(f"{piece.constant[:60]!r} is no JSON: {error}") from None
    return Sql(quoted(text), "json", constant=text)


def _whole(piece: Sql, unsigned: bool) -> str:
    """Return SQL of CAST AS SIGNED or UNSIGNED, which go over into each other in 64 bits."""
    if piece.kind == "string":
        digits = f"regexp_extract({piece.text}, '^\\s*([-+]?\\d{{1,37}})', 1)"
        whole = f"(CASE WHEN {piece.text} IS NOT NULL THEN coalesce(try_cast({digits} AS HUGEINT), 0) END)"
        value = clamped(whole, f"-{1 << 63}", str((1 << 64) - 1 if unsigned else (1 << 63) - 1))
    else:
        given = number(piece)
        if given.kind == "double":
            raise ExpressionError("CAST of a FLOAT or DOUBLE to a whole number; ROUND() it")
        value = given.text if given.kind == "int" else f"round({given.text})::HUGEINT"
        if given.kind == "decimal":
            return clamped(value, "0" if unsigned else f"-{1 << 63}", str((1 << 64) - 1 if unsigned else (1 << 63) - 1))
    if unsigned:
        return f"(CASE WHEN ({value}) < 0 THEN ({value}) + {1 << 64} ELSE ({value}) END)::HUGEINT"
    return f"(CASE WHEN ({value}) > {(1 << 63) - 1} THEN ({value}) - {1 << 64} ELSE ({value}) END)::HUGEINT"


_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


def cast(target: str, piece: Sql) -> Sql:
    """Return CAST to a type, named as the server prints it. Raises ExpressionError for one that is not understood."""
    if piece.kind == "null":
        return NULL
    if found := _DECIMAL.fullmatch(target):
        size, scale = int(found[1]), int(found[2])
        if size > 38:
            raise ExpressionError("DECIMAL of more than 38 digits")
        most = "9" * (size - scale) + (f".{'9' * scale}" if scale else "")
        clipped = clamped(f"round({number(piece).text}, {scale})", f"-{most}", most)
        return Sql(f"({clipped})::DECIMAL({size},{scale})", "decimal", scale=scale)
    if target in ("signed", "unsigned"):
        return Sql(_whole(piece, target == "unsigned"), "int")
    if target in ("double", "float"):
        return Sql(double(piece), "double")
    if target == "date":
        at = moment(piece, SESSION)
        return Sql(f"(floor({at.text} / 1000000) * 1000000)::DECIMAL(20,6)", "date")
    if target in ("datetime", "time") and piece.kind in ("datetime", "time") and piece.constant is None:
        raise ExpressionError(f"CAST to {target.upper()}, which rounds; write {target.upper()}(6)")
    if target.startswith("datetime"):
        at = moment(piece, SESSION)
        return Sql(at.text, "datetime")
    if target.startswith("time"):
        if piece.kind not in ("time", "null") and piece.constant is None:
            raise ExpressionError(f"CAST of a {piece.kind} that is no constant to TIME")
        return clock(piece)
    if target == "char charset binary":
        if piece.kind == "binary":
            return piece
        return Sql(f"encode({string(piece).text})", "binary")
    if target.startswith("char"):
        text = string(piece)
        limit = re.match(r"char\((\d+)\)", target)
        made = f"left({text.text}, {limit[1]})" if limit else text.text
        return replace(text, text=made, collation="utf8mb4_0900_ai_ci", strength=COLUMN, constant=None)
    if target == "json":
        if piece.constant is None and piece.kind == "string":
            raise ExpressionError("CAST of a text that is no constant to JSON")
        return _json(piece)
    raise ExpressionError(f"CAST to {target}")
