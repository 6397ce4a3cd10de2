"""MySQL's functions that count days and seconds, as SQL of the engine that evaluates expressions.

Source: refman, "Date and Time Functions".
"""

from typing import Final

from binlog_merge.values.duckdb.piece import ExpressionError, Sql, clock, moment
from binlog_merge.values.duckdb.unify import Args, Function
from snapshot_store.mysql.sql.session import DdlSession

_FIRST_DAY = "DATE '0001-01-01'"
"""Which is day 366 of MySQL's count."""


def _digits(piece: Sql, session: DdlSession) -> tuple[str, str]:
    """Return SQL of the digits YYYYMMDD and hhmmss.ffffff of a moment."""
    text = moment(piece, session).text
    whole = f"floor(({text}) / 1000000)::HUGEINT"
    return whole, f"(({text}) - {whole} * 1000000)"


def _date(piece: Sql, session: DdlSession) -> str:
    """Return SQL of a day; NULL for one that is in no calendar."""
    day, _ = _digits(piece, session)
    made = "TRY(make_date((d // 10000)::BIGINT, (d // 100 % 100)::BIGINT, (d % 100)::BIGINT))"
    return f"list_transform([{day}], lambda d: {made})[1]"  # the engine TRYs nothing that may stop itself


def _days(piece: Sql, session: DdlSession) -> str:
    return f"(date_diff('day', {_FIRST_DAY}, {_date(piece, session)}) + 366)::HUGEINT"


def _seconds(digits: str) -> str:
    whole = f"trunc({digits})::HUGEINT"
    return f"({whole} // 10000 * 3600 + {whole} // 100 % 100 * 60 + {whole} % 100)"


def _of_day(template: str) -> Function:
    return lambda args, session: Sql(f"({template.format(_date(args[0], session))})::HUGEINT", "int", unsigned=False)


def _to_seconds(args: Args, session: DdlSession) -> Sql:
    return Sql(f"({_days(args[0], session)} * 86400 + {_seconds(_digits(args[0], session)[1])})", "int", unsigned=False)


def _yearweek(args: Args, session: DdlSession) -> Sql:
    """Weeks begin on Sunday, the first of a year on its first one: a week is of its Sunday's year."""
    if len(args) > 1 and args[1].constant != "0":
        raise ExpressionError("YEARWEEK() in another mode than 0")
    day = _date(args[0], session)
    sunday = f"({day} - dayofweek({day})::INTEGER)"
    return Sql(f"(year({sunday}) * 100 + (dayofyear({sunday}) + 6) // 7)::HUGEINT", "int", unsigned=False)


def _quarter(args: Args, session: DdlSession) -> Sql:
    return Sql(f"(({_digits(args[0], session)[0]} // 100 % 100 + 2) // 3)::HUGEINT", "int", unsigned=False)


def _datediff(args: Args, session: DdlSession) -> Sql:
    return Sql(f"({_days(args[0], session)} - {_days(args[1], session)})", "int", unsigned=False)


def _time(piece: Sql, session: DdlSession) -> str:
    """Return SQL of the digits hhmmss.ffffff of a time, or of a moment's time of day."""
    if piece.kind not in ("date", "datetime", "time", "null") and piece.constant is None:
        raise ExpressionError(f"the time of a {piece.kind}")
    return _digits(piece, session)[1] if piece.kind in ("date", "datetime") else clock(piece).text


def _time_to_sec(args: Args, session: DdlSession) -> Sql:
    return Sql(_seconds(_time(args[0], session)), "int", unsigned=False)


def _microsecond(args: Args, session: DdlSession) -> Sql:
    text = f"abs({_time(args[0], session)})"
    return Sql(f"(({text} - floor({text})) * 1000000)::HUGEINT", "int", unsigned=False)


DATES: Final[dict[str, Function]] = {
    "to_days": lambda args, session: Sql(_days(args[0], session), "int", unsigned=False),
    "to_seconds": _to_seconds,
    "datediff": _datediff,
    "dayofweek": _of_day("dayofweek({}) + 1"),
    "weekday": _of_day("isodow({}) - 1"),
    "dayofyear": _of_day("dayofyear({})"),
    "quarter": _quarter,
    "yearweek": _yearweek,
    "time_to_sec": _time_to_sec,
    "microsecond": _microsecond,
}
