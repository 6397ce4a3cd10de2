"""Operations on numbers and bits, and CAST, as SQL of the engine that evaluates expressions.

Source: refman, "Arithmetic Operators", "Bit Functions and Operators", "Cast Functions and Operators".
"""

import re
from dataclasses import replace

from binlog_merge.values.duckdb.piece import (
    NULL,
    SESSION,
    ExpressionError,
    Sql,
    clamped,
    clock,
    double,
    moment,
    number,
    string,
)

ALL_BITS = "18446744073709551615::HUGEINT"


def bits_of(piece: Sql) -> str:
    """Return SQL of a number as MySQL's bit operators take it: 64 bits without a sign."""
    return f"(({number(piece).text})::HUGEINT & {ALL_BITS})"


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


def arithmetic(symbol: str, left: Sql, right: Sql) -> Sql:
    """Return an operation on two numbers, as exact as MySQL's. Raises ExpressionError for an unknown operator."""
    if symbol in ("|", "&", "^", "<<", ">>"):
        return Sql(_bit_operation(symbol, bits_of(left), bits_of(right)), "int")
    left, right = number(left), number(right)
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
        value = number(piece)
        if value.kind == "double" and piece.kind == "string":
            return Sql(f"trunc({value.text})::HUGEINT", "int")
        return Sql(f"round({value.text})::HUGEINT" if value.kind != "int" else value.text, "int")
    if target in ("double", "float"):
        return Sql(double(piece), "double")
    if target == "date":
        at = moment(piece, SESSION)
        return Sql(f"(floor({at.text} / 1000000) * 1000000)::DECIMAL(20,6)", "date")
    if target.startswith("datetime"):
        at = moment(piece, SESSION)
        return Sql(at.text, "datetime")
    if target.startswith("time"):
        return clock(piece)
    if target == "char charset binary":
        if piece.kind == "binary":
            return piece
        return Sql(f"encode({string(piece).text})", "binary")
    if target.startswith("char"):
        text = string(piece)
        limit = re.match(r"char\((\d+)\)", target)
        return replace(text, text=f"left({text.text}, {limit[1]})" if limit else text.text, constant=None)
    if target == "json":
        return Sql(f"({string(piece).text})", "json")
    raise ExpressionError(f"CAST to {target}")
