"""Operations on numbers and bits, and CAST, as SQL of the engine that evaluates expressions.

Source: refman, "Arithmetic Operators", "Bit Functions and Operators", "Cast Functions and Operators".
"""

import re
from dataclasses import replace
from typing import Final

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.json_binary import json_text
from binlog_merge.values.duckdb.piece import (
    COLUMN,
    MOMENT_AS_NUMBER,
    NULL,
    OUT_OF_RANGE,
    SESSION,
    ExpressionError,
    Sql,
    check_digits,
    clamped,
    clock,
    double,
    leading_digits,
    moment,
    number,
    quoted,
    stop,
    string,
)
from binlog_merge.values.duckdb.text import bytes_of
from binlog_merge.values.value import ConversionError, read_json

ALL_BITS = "18446744073709551615::HUGEINT"


def bits_of(piece: Sql) -> str:
    """Return SQL of a number as MySQL's bit operators take it: 64 bits without a sign."""
    value = number(piece)
    if value.kind != "int":
        raise ExpressionError(f"bits of a {piece.kind}; CAST(… AS SIGNED) gives a whole number")
    text = f"({value.text})::HUGEINT"
    if value.constant is None and not value.unsigned and value.strength != COLUMN:
        # What CEILING makes of a DECIMAL may have more than 64 bits; a column has what it holds.
        text = within_range(text, False, "HUGEINT")
    return f"({text} & {ALL_BITS})"


def _bit_operation(symbol: str, one: str, two: str) -> str:
    if symbol == "^":
        return f"xor({one}, {two})"
    if symbol in ("|", "&"):
        return f"({one} {symbol} {two})"
    places = f"{clamped(two, '0', '64')}::INTEGER"
    if symbol == ">>":
        return f"({one} >> {places})"
    kept = f"({one} & ((1::HUGEINT << (64 - {places})) - 1))"
    return f"(CASE WHEN {one} IS NULL THEN NULL WHEN {two} >= 64 THEN 0 ELSE {kept} << {places} END)::HUGEINT"


def operand(piece: Sql) -> Sql:
    """Return a number to calculate with: an ENUM or SET is a text, of which a server makes a DOUBLE."""
    return Sql(double(piece), "double") if piece.kind == "string" and piece.numbers is not None else number(piece)


def arithmetic(symbol: str, left: Sql, right: Sql) -> Sql:
    """Return an operation on two numbers, as exact as MySQL's. Raises ExpressionError for an unknown operator."""
    if symbol in ("|", "&", "^", "<<", ">>"):
        return Sql(_bit_operation(symbol, bits_of(left), bits_of(right)), "int", unsigned=True)
    if "time" in (left.kind, right.kind):
        raise ExpressionError(f"{symbol} of a TIME; TIME_TO_SEC() makes a number of it")
    left, right = operand(left), operand(right)
    kinds = {left.kind, right.kind}
    if symbol == "DIV":
        return _whole_quotient(left, right)
    if "double" in kinds:
        if symbol in ("+", "-", "*"):
            return Sql(finite(f"({double(left)} {symbol} {double(right)})"), "double")
        return Sql(finite(f"({double(left)} {symbol} nullif({double(right)}, 0))"), "double")
    if symbol == "/":
        return _quotient(left, right)
    scale = left.scale + right.scale if symbol == "*" else max(left.scale, right.scale)
    if scale > _MOST_DECIMALS:
        raise ExpressionError(f"a number with {scale} digits after the point")
    untold, shorter = left.untold or right.untold, left.shorter or right.shorter
    if symbol == "%":
        one, two = _in_units(left, scale), _in_units(right, scale)
        remainder = f"({one} % nullif({two}, 0))"
        if kinds == {"int"}:
            return Sql(remainder, "int", unsigned=left.unsigned, untold=untold)
        made = _of_units(remainder, scale)
        return Sql(made, "decimal", scale=scale, unsigned=left.unsigned, untold=untold, shorter=shorter)
    made = f"({left.text} {symbol} {right.text})" if symbol != "*" or kinds != {"int"} else _product(left, right)
    unsigned = either_unsigned(left, right)
    if kinds == {"int"}:
        return bounded(made, unsigned, untold)
    if MOMENT_AS_NUMBER in (left.untold, right.untold) and "int" in kinds:  # a whole number, if it has no fraction
        made = within_range(made, unsigned, f"DECIMAL(38,{scale})")
    return Sql(made, "decimal", scale=scale, unsigned=unsigned, untold=untold, shorter=shorter)


def _product(left: Sql, right: Sql) -> str:
    """Return SQL of a product of whole numbers; one that the engine has no room for is out of any range."""
    beyond = "abs(p['a']::DOUBLE) * abs(p['b']::DOUBLE) > 1e38"
    body = f"CASE WHEN {beyond} THEN {1 << 64}::HUGEINT * sign(p['a'])::HUGEINT * sign(p['b'])::HUGEINT "
    body += "ELSE p['a'] * p['b'] END"
    given = f"{{'a': {left.text}::HUGEINT, 'b': {right.text}::HUGEINT}}"
    return f"list_transform([{given}], lambda p: {body})[1]"


_MOST_DECIMALS: Final = 30
_SIGNED, _UNSIGNED = (-(1 << 63), (1 << 63) - 1), (0, (1 << 64) - 1)


def either_unsigned(left: Sql, right: Sql) -> bool | None:
    """Return whether an operation of these whole numbers is UNSIGNED; None if that is not known."""
    if left.unsigned or right.unsigned:
        return True
    return None if None in (left.unsigned, right.unsigned) else False


def bounded(text: str, unsigned: bool | None, untold: str = "") -> Sql:
    """Return a whole number; the engine stops where a server says that it is out of range."""
    return Sql(within_range(text, unsigned, "HUGEINT"), "int", unsigned=unsigned, untold=untold)


def within_range(text: str, unsigned: bool | None, type: str) -> str:
    """Return SQL of a number of a type; the engine stops where it is no BIGINT, or no UNSIGNED one."""
    least, most = _UNSIGNED if unsigned else _SIGNED if unsigned is False else (0, _SIGNED[1])
    kind = "BIGINT UNSIGNED" if unsigned else "BIGINT"
    checked = f"CASE WHEN n NOT BETWEEN {least} AND {most} THEN {stop(f'{kind} {OUT_OF_RANGE}', type)} ELSE n END"
    return f"list_transform([{text}], lambda n: {checked})[1]"


def finite(text: str) -> str:
    """Return SQL of a DOUBLE; the engine stops where a server says that it is out of range."""
    checked = f"CASE WHEN isfinite(n) OR n IS NULL THEN n ELSE {stop(f'DOUBLE {OUT_OF_RANGE}', 'DOUBLE')} END"
    return f"list_transform([{text}], lambda n: {checked})[1]"


def _in_units(piece: Sql, scale: int) -> str:
    """Return SQL of how many units of 10^-scale an exact number is."""
    if piece.kind == "int" or not piece.scale:
        return f"(({piece.text})::HUGEINT * {10**scale}::HUGEINT)" if scale else f"({piece.text})::HUGEINT"
    # As text, since the engine has no DECIMAL with room for both.
    digits = f"replace(({piece.text})::DECIMAL(38,{piece.scale})::VARCHAR, '.', '')::HUGEINT"
    return f"({digits} * {10 ** (scale - piece.scale)}::HUGEINT)"


def _of_units(text: str, scale: int) -> str:
    """Return SQL of the DECIMAL that is so many units of 10^-scale."""
    return f"(({text})::DECIMAL(38,0) * '{'0.' + '1'.rjust(scale, '0')}'::DECIMAL({scale},{scale}))" if scale else text


def _quotient(left: Sql, right: Sql) -> Sql:
    """Return a division of exact numbers: a server keeps four more digits than the dividend has, rounded."""
    scale = left.scale + 4
    if scale > _MOST_DECIMALS:
        raise ExpressionError(f"a number with {scale} digits after the point")
    if left.shorter and scale > _ALWAYS_COMPUTED:
        raise ExpressionError("division of a DECIMAL or DATETIME that may have fewer digits than its type; CAST it")
    one, two = _in_units(left, scale + right.scale), f"nullif({_in_units(right, right.scale)}, 0)"
    body = "((2 * p['a'] + (CASE WHEN p['a'] < 0 THEN -abs(p['b']) ELSE abs(p['b']) END)) // (2 * p['b']))"
    digits = f"list_transform([{{'a': {one}, 'b': {two}}}], lambda p: {body})[1]"
    return Sql(_of_units(digits, scale), "decimal", scale=scale, untold=left.untold or right.untold)


def _whole_quotient(left: Sql, right: Sql) -> Sql:
    """Return DIV of exact numbers."""
    if "double" in (left.kind, right.kind):
        raise ExpressionError("DIV of a FLOAT or DOUBLE; FLOOR() of a division gives a whole number")
    scale = max(left.scale, right.scale)
    one, two = _in_units(left, scale), _in_units(right, scale)
    return bounded(f"({one} // nullif({two}, 0))", either_unsigned(left, right))


def _json(piece: Sql) -> Sql:
    """Return CAST AS JSON; a constant is written as a server prints it."""
    if piece.kind not in ("int", "bool", "decimal", "json", "string"):
        raise ExpressionError(f"CAST of a {piece.kind} to JSON")
    if piece.truth:
        raise ExpressionError("CAST of STRCMP() to JSON, to which it is a truth value")
    if piece.constant is None:
        return replace(piece, constant=None) if piece.kind == "json" else Sql(f"({string(piece).text})", "json")
    try:
        text = json_text(read_json(piece.constant).document)
    except (ConversionError, BinlogFormatError) as error:
        raise ExpressionError(f"{piece.constant[:60]!r} is no JSON: {error}") from None
    return Sql(quoted(text), "json", constant=text)


def _whole(piece: Sql, unsigned: bool) -> str:
    """Return SQL of CAST AS SIGNED or UNSIGNED, which go over into each other in 64 bits."""
    if piece.kind == "string" and piece.numbers is None:
        check_digits(piece)
        digits = f"regexp_extract({piece.text}, '^\\s*([-+]?\\d{{1,37}})', 1)"
        whole = f"(CASE WHEN {piece.text} IS NOT NULL THEN coalesce(try_cast({digits} AS HUGEINT), 0) END)"
        # A text is cut to what 64 bits hold with a sign or without, and they are then taken as the type has them.
        value = clamped(whole, f"-{1 << 63}", str((1 << 64) - 1))
    else:
        given = number(piece)
        if given.kind == "double" or given.untold.startswith("a date"):
            raise ExpressionError(f"CAST of a {piece.kind} to a whole number; ROUND() it")
        value = given.text if given.kind == "int" else f"round({given.text})::HUGEINT"
        if given.kind == "decimal":
            value = clamped(value, f"-{1 << 63}", str((1 << 64) - 1 if unsigned else (1 << 63) - 1))
    if unsigned:
        return f"(CASE WHEN ({value}) < 0 THEN ({value}) + {1 << 64} ELSE ({value}) END)::HUGEINT"
    return f"(CASE WHEN ({value}) > {(1 << 63) - 1} THEN ({value}) - {1 << 64} ELSE ({value}) END)::HUGEINT"


def _rounded(piece: Sql, scale: int) -> str:
    """Return SQL of a number with so many digits after the point, from the digits that are shown of it."""
    given = number(piece)
    if given.untold.startswith("a date"):
        raise ExpressionError(f"CAST of a {piece.kind} to DECIMAL")
    if given.kind == "int":
        kind, room = f"DECIMAL(38,{scale})", "9" * (38 - scale)
        if scale <= _ALWAYS_ROOM:
            return f"({given.text})::{kind}"
        most = f"{room}.{'9' * scale}"
        above, below = f"WHEN n > {room} THEN '{most}'::{kind}", f"WHEN n < -{room} THEN '-{most}'::{kind}"
        return f"list_transform([{given.text}], lambda n: CASE {above} {below} ELSE n::{kind} END)[1]"
    if given.kind == "decimal":
        return f"round({given.text}, {min(scale, given.scale)})"
    digits = leading_digits(piece.text) if piece.kind == "string" else f"({given.text})::VARCHAR"
    message = "a number with too many digits to be made a DECIMAL here: "
    refused = stop(message, f"DECIMAL(38,{scale})", "t")
    known = f"CASE WHEN t IS NULL THEN NULL WHEN t = '' THEN 0 WHEN try_cast(t AS DECIMAL(38,{scale})) IS NULL "
    known += f"THEN {refused} ELSE t::DECIMAL(38,{scale}) END"
    return f"list_transform([{digits}], lambda t: {known})[1]"


def _check_rounding(piece: Sql, type: str, digits: int) -> None:
    """Raise ExpressionError for a moment that may have more digits after its second than a type has."""
    fraction = (piece.constant or "").partition(".")[2].rstrip("0")
    unknown = piece.constant is None and piece.kind in ("datetime", "time") and digits < _MICROSECONDS
    if unknown or len(fraction) > digits:
        raise ExpressionError(f"CAST to {type.upper()}({digits}), which rounds; write {type.upper()}(6)")


_MICROSECONDS: Final = 6
_MOMENT: Final = re.compile(r"(datetime|time)(?:\((\d)\))?")
_ALWAYS_COMPUTED: Final = 9
"""As many digits after the point a server's division has at least, however few the dividend has."""
_ALWAYS_ROOM: Final = 18
"""As many digits after the point leave room for every whole number."""
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_CHAR = re.compile(r"char(?:\((\d+)\))?(?: charset utf8mb4)?")


def cast(target: str, piece: Sql) -> Sql:
    """Return CAST to a type, named as the server prints it. Raises ExpressionError for one that is not understood."""
    if piece.kind == "null" and target.startswith(("date", "time")):
        raise ExpressionError("CAST of NULL to a date or time")
    if piece.kind == "null" and not target.startswith("char"):
        return NULL
    if match := _DECIMAL.fullmatch(target):
        size, scale = int(match[1]), int(match[2])
        if size > 38:
            raise ExpressionError("DECIMAL of more than 38 digits")
        most = "9" * (size - scale) + (f".{'9' * scale}" if scale else "")
        clipped = clamped(_rounded(piece, scale), f"-{most}", most)
        return Sql(f"({clipped})::DECIMAL({size},{scale})", "decimal", scale=scale)
    if target in ("signed", "unsigned"):
        return Sql(_whole(piece, target == "unsigned"), "int", unsigned=target == "unsigned")
    if target == "double":
        return Sql(double(piece), "double")
    if target == "date":
        if piece.kind == "int" and piece.constant is not None and not int(piece.constant):
            raise ExpressionError("0 as a DATE, of which a server makes 2000-00-00; write '0000-00-00'")
        at = moment(piece, SESSION)
        return Sql(f"(floor({at.text})::HUGEINT // 1000000 * 1000000)::DECIMAL(20,6)", "date")
    if match := _MOMENT.fullmatch(target):
        _check_rounding(piece, match[1], int(match[2] or 0))
    if target.startswith("datetime"):
        at = moment(piece, SESSION)
        return Sql(at.text, "datetime")
    if target.startswith("time"):
        constant = piece.kind in ("string", "int") and "." not in (piece.constant or ".")
        if piece.kind not in ("time", "null") and not constant:
            raise ExpressionError(f"CAST of a {piece.kind} to TIME that is no constant, or has a fraction")
        return clock(piece)
    if target == "char charset binary":
        if piece.kind == "binary":
            return piece
        return Sql(bytes_of(piece), "binary")
    if match := _CHAR.fullmatch(target):
        text = string(piece) if piece.kind != "null" else Sql("NULL::VARCHAR", "string")
        made = f"left({text.text}, {match[1]})" if match[1] else text.text
        return replace(
            text, text=made, collation="utf8mb4_0900_ai_ci", strength=COLUMN, constant=None, raw=None, numbers=None
        )
    if target == "json":
        if piece.constant is None and piece.kind == "string":
            raise ExpressionError("CAST of a text that is no constant to JSON")
        return _json(piece)
    raise ExpressionError(f"CAST to {target}")
