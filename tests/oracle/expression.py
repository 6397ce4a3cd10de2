"""Expression defaults and generated columns, put to SQLite: another engine's answer, for what both understand alike."""

import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal

from tests.oracle.binlog import OracleError
from tests.oracle.cells import decode
from tests.oracle.convert import Store, said
from tests.oracle.ddl import Column, Token

_WORDS = {"DIV": "/", "IF": "iif", "GREATEST": "max", "LEAST": "min"}
_SOURCES = {
    int: Column("expression", "bigint"),
    float: Column("expression", "double"),
    Decimal: Column("expression", "decimal", 65, 10),
    str: Column("expression", "varchar", 1000, collation="utf8mb4_bin"),
}


Row = Mapping[str, tuple[Column, bytes | None]]


def value(column: Column, tokens: tuple[Token, ...], row: Row, us: int) -> bytes | None:
    """Return the cell of a column whose value the expression gives for a row of cells by column name."""
    names = [c.name for c, _ in row.values()]
    given = [None if cell is None else _plain(c, cell) for c, cell in row.values()]
    source = ", ".join('? AS "' + name + '"' for name in names) or "1"
    connection = sqlite3.connect(":memory:")
    _register(connection, us)
    try:
        ((found,),) = connection.execute(f"SELECT {_sql(tokens)} FROM (SELECT {source})", given).fetchall()
    except sqlite3.Error as error:
        raise OracleError(f"{column.name}: {' '.join(text for _, text in tokens)}: {error}") from error
    finally:
        connection.close()
    if found is None:
        return None
    if isinstance(found, str) and "|" in found:
        found = _later(*found.split("|"))
    if isinstance(found, float) and column.type == "decimal":
        found = Decimal(repr(round(found, 10)))
    return Store(column, False).cell(_SOURCES[type(found)], found)


def _plain(c: Column, cell: bytes) -> int | float | str:
    found = decode(c, cell)
    if isinstance(found, Decimal):
        return float(found)
    if isinstance(found, int | float) and c.type != "time":
        return found
    text = said(c, found)
    assert isinstance(text, str)
    return text


def _sql(tokens: tuple[Token, ...]) -> str:
    out: list[str] = []
    at = 0
    while at < len(tokens):
        kind, text = tokens[at]
        word = text.upper() if kind == "word" else ""
        if word == "INTERVAL":
            sign = out.pop()
            out.append(f"|| '|{sign}{tokens[at + 1][1]}|{tokens[at + 2][1].lower()}'")
            at += 2
        elif word == "CAST":
            out.append("date_of")
        elif word == "AS":
            if tokens[at + 1][1].upper() != "DATE":
                raise OracleError("CAST to anything but DATE is not modelled")
            at += 1
        elif kind == "name":
            out.append('"' + text + '"')
        elif kind == "text":
            out.append("'" + text.replace("'", "''") + "'")
        elif not text.startswith("_utf8"):
            out.append(_WORDS.get(word, text))
        at += 1
    return " ".join(out)


def _register(connection: sqlite3.Connection, us: int) -> None:
    now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)

    def joined(*parts: object) -> str | None:
        return None if None in parts else "".join(map(str, parts))

    def rounded(mode: str) -> object:
        return lambda number, *_: None if number is None else int(Decimal(repr(number)).to_integral_value(mode))

    for name, count, run in (
        ("now", 0, lambda: f"{now:%Y-%m-%d %H:%M:%S}"),
        ("curdate", 0, lambda: f"{now:%Y-%m-%d}"),
        ("concat", -1, joined),
        ("concat_ws", -1, lambda by, *parts: by.join(str(_shown(part)) for part in parts if part is not None)),
        ("char_length", 1, lambda text: None if text is None else len(text)),
        ("lpad", 3, lambda text, size, fill: None if text is None else text[:size].rjust(size, fill)),
        ("year", 1, lambda text: None if text is None else int(text[:4])),
        ("date_of", 1, _day),
        ("floor", 1, rounded(ROUND_FLOOR)),
        ("ceiling", 1, rounded(ROUND_CEILING)),
        ("round", 2, rounded(ROUND_HALF_UP)),
    ):
        connection.create_function(name, count, run)  # type: ignore[arg-type]


def _day(text: str | None) -> str | None:
    return None if text is None else f"{datetime.fromisoformat(text):%Y-%m-%d}"


def _shown(part: object) -> object:
    return f"{part:.3f}" if isinstance(part, float) else part  # the one decimal of the cases


def _later(moment: str, amount: str, unit: str) -> str:
    clock = moment.partition(" ")[2]
    at = datetime.fromisoformat(moment)
    if unit in ("day", "hour", "minute", "second"):
        return (at + timedelta(**{unit + "s": int(amount)})).isoformat(" ")
    months = at.year * 12 + at.month - 1 + int(amount) * {"month": 1, "year": 12}[unit]
    for last in (at.day, 30, 29, 28):
        try:
            return f"{datetime(months // 12, months % 12 + 1, last):%Y-%m-%d} {clock}".strip()
        except ValueError:
            continue
    raise OracleError(f"{moment}: no such day {amount} {unit} later")
