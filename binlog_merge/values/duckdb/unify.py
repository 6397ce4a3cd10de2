"""What IF, CASE, COALESCE and functions of several pieces give: one type, and for strings one collation."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from binlog_merge.values.duckdb.compare import check_converted, common_collation
from binlog_merge.values.duckdb.piece import NULL, ExpressionError, Sql, number, string
from snapshot_store.mysql.sql.session import DdlSession

Args = Sequence[Sql]
Function = Callable[[Args, DdlSession], Sql]


def unified(pieces: Args, session: DdlSession) -> tuple[list[str], Sql]:
    """Return pieces as SQL of one type, and a model of it: of what IF, CASE and COALESCE give."""
    kinds = {piece.kind for piece in pieces if piece.kind != "null"}
    if not kinds:
        return [piece.text for piece in pieces], NULL
    if kinds == {"string"}:
        rule = ruling(pieces)
        return [piece.text for piece in pieces], rule
    if len(kinds) == 1 and kinds <= {"date", "datetime", "time", "json", "binary", "bool"}:
        model = next(piece for piece in pieces if piece.kind in kinds)
        return [piece.text for piece in pieces], replace(model, constant=None, raw=None)
    if kinds <= {"date", "datetime"}:
        return [piece.text for piece in pieces], Sql("", "datetime")
    if kinds <= {"int", "bool", "decimal", "double"}:
        singles = {p.untold == "a FLOAT" for p in pieces if p.kind != "null"}
        if len(singles) > 1:
            raise ExpressionError("a FLOAT or another number, out of CASE, IF or COALESCE, which has few digits then")
        numbers = [number(p) if p.kind != "null" else p for p in pieces]
        model = _wider([replace(n, year=p.year) for n, p in zip(numbers, pieces, strict=True)])
        if model.kind == "decimal":  # the engine itself would drop digits where it has no room for all
            return [f"({p.text})::DECIMAL(38,{model.scale})" for p in numbers], model
        return [p.text for p in numbers], model
    if kinds & {"date", "datetime", "time"} and kinds & {"int", "bool", "decimal", "double"}:
        raise ExpressionError("a date and time or a number, out of CASE, IF or COALESCE")
    if "json" in kinds:
        raise ExpressionError("a JSON value or something else, out of CASE, IF or COALESCE")
    texts = [string(piece) for piece in pieces]
    rule = ruling(texts)
    # As a number a date among texts is another one than its text.
    return [piece.text for piece in texts], replace(rule, numbers="") if kinds & {"date", "datetime", "time"} else rule


def chosen(pieces: Args, session: DdlSession) -> tuple[list[str], Sql]:
    """Return pieces as `unified` does, for what gives one of them as it is: as text a DECIMAL keeps its own digits."""
    texts, model = unified(pieces, session)
    if model.shorter:
        model = replace(model, untold="a DECIMAL, out of CASE or IF with another number of digits after the point,")
    return texts, model


def ruling(pieces: Args) -> Sql:
    """Return a model of the strings among some pieces: of what their collation is. Raises ExpressionError."""
    strings = [piece for piece in pieces if piece.kind == "string"]
    rule = strings[0]
    for piece in strings[1:]:
        rule = common_collation(rule, piece)
    for piece in strings:
        check_converted(piece, rule.charset)
    numbers = "" if any(piece.numbers is not None for piece in strings) else None
    return replace(rule, constant=None, raw=None, numbers=numbers)


def _wider(pieces: Args) -> Sql:
    kinds = {piece.kind for piece in pieces}
    kind = "double" if "double" in kinds else "decimal" if "decimal" in kinds else "int"
    # Of a BIT or YEAR the number is known, but not the text that it would be.
    known = {piece.unsigned for piece in pieces if piece.kind != "null"}
    return Sql(
        "",
        kind,
        scale=max(piece.scale for piece in pieces),
        bit=any(p.bit or p.year for p in pieces),
        unsigned=known.pop() if len(known) == 1 else None,
        untold=next((p.untold for p in pieces if p.untold), ""),
        shorter=kind == "decimal" and len({piece.scale for piece in pieces if piece.kind != "null"}) > 1,
    )


def as_model(model: Sql, text: str) -> Sql:
    """Return SQL as a piece like another."""
    if model.kind == "null":
        return NULL
    return replace(model, text=text, constant=None, raw=None, numbers="" if model.numbers == "" else None)
