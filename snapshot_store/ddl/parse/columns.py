"""Column definitions: a name, a type, and attributes in any order.

Source: rule `column_attribute` of mysql-server `sql/sql_yacc.yy`.
"""

from dataclasses import replace

from snapshot_store.ddl.parse.keys import parse_check, parse_references
from snapshot_store.ddl.parse.options import skip_sequence
from snapshot_store.ddl.specs import CheckSpec, ColumnSpec, KeySpec, Value
from snapshot_store.model import Default, Generated, IndexPart, with_attributes
from snapshot_store.mysql.column_type import Family
from snapshot_store.mysql.expr.read import canonical
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.functions import function
from snapshot_store.mysql.sql.names import quote_string
from snapshot_store.mysql.sql.types import charset_name, parse_type
from snapshot_store.mysql.text.charsets import canonical_charset

_NOW = tuple(map(str.upper, function("now").names))


def parse_column(cursor: Cursor, changed: bool = False) -> ColumnSpec:
    """Parse a column definition as far as it extends; with `changed` (CHANGE, MODIFY) it has no REFERENCES."""
    name = cursor.name()
    if cursor.accept_symbol("."):
        # `tbl`.`column`, as old grammars allow; the last part is the column's name.
        name = cursor.name()
    serial = cursor.at("SERIAL")
    column = ColumnSpec(name, parse_type(cursor))
    if serial:
        column = _serial(column)
    if cursor.at("COLLATE"):
        column = _attribute(cursor, column) or column
    if cursor.accept("GENERATED", "ALWAYS", "AS") or cursor.accept("AS"):
        column = _generated(cursor, column)
    while (extended := _attribute(cursor, column)) is not None:
        column = extended
    return column if changed or not cursor.at("REFERENCES") else _references(cursor, column)


def _references(cursor: Cursor, column: ColumnSpec) -> ColumnSpec:
    """Parse REFERENCES, the last of a column's attributes; servers before 9.0 ignore it."""
    key = parse_references(cursor, None, None, (column.name,))
    if cursor.session.server_version < 90000:
        return column
    return replace(column, constraints=(*column.constraints, key))


def _serial(column: ColumnSpec) -> ColumnSpec:
    column = _with_key(column, KeySpec("unique", None, (IndexPart(column.name),)))
    return replace(column, nullable=False, auto_increment=True)


def _attribute(cursor: Cursor, column: ColumnSpec) -> ColumnSpec | None:
    """Parse one attribute into the column; None if the next words are not one."""
    if cursor.accept("NOT", "NULL"):
        return replace(column, nullable=False)
    if cursor.accept("NULL"):
        return replace(column, nullable=True)
    if cursor.accept("SERIAL", "DEFAULT", "VALUE"):
        return _serial(column)
    if cursor.accept("DEFAULT"):
        return replace(column, default=_default(cursor, column))
    if cursor.accept("ON", "UPDATE"):
        cursor.limit(_now(cursor) == column.type.type.fsp, f"ON UPDATE of {column.name} has another precision")
        return replace(column, on_update_now=True)
    if cursor.accept("AUTO_INCREMENT"):
        skip_sequence(cursor)
        return replace(column, auto_increment=True)
    if cursor.accept("COMMENT"):
        return replace(column, comment=cursor.string())
    if cursor.accept("COLLATE"):
        return replace(column, type=replace(column.type, collation=charset_name(cursor)))
    if word := cursor.accept_one("VISIBLE", "INVISIBLE"):
        return replace(column, invisible=word == "INVISIBLE")
    if cursor.accept("SRID"):
        cursor.limit(column.type.type.family is Family.GEOMETRY, f"SRID for {column.name}, which is not spatial")
        return replace(column, type=replace(column.type, type=replace(column.type.type, srid=cursor.integer())))
    return _constraint(cursor, column) or _storage(cursor, column)


def _default(cursor: Cursor, column: ColumnSpec) -> Default | Value:
    if cursor.word() in _NOW:
        precision = _now(cursor)
        cursor.limit(precision == column.type.type.fsp, f"the default of {column.name} has another precision")
        return Default("now")
    return parse_default(cursor)


def _generated(cursor: Cursor, column: ColumnSpec) -> ColumnSpec:
    expression = canonical(cursor.parenthesized(), cursor.session)
    kind = cursor.accept_one("VIRTUAL", "STORED")
    return replace(column, generated=Generated(expression, kind == "STORED"))


def _constraint(cursor: Cursor, column: ColumnSpec) -> ColumnSpec | None:
    part = (IndexPart(column.name),)
    if cursor.at("CONSTRAINT") or cursor.at("CHECK"):
        name = None
        if cursor.accept("CONSTRAINT") and not cursor.at("CHECK"):
            name = cursor.name()
        check: CheckSpec = replace(parse_check(cursor, name), own_column=column.name)
        return replace(column, constraints=(*column.constraints, check))
    if cursor.accept("UNIQUE"):
        cursor.accept("KEY")
        return _with_key(column, KeySpec("unique", None, part))
    if cursor.accept("PRIMARY", "KEY") or cursor.accept("KEY"):
        return _with_key(column, KeySpec("primary", None, part))
    return None


def _with_key(column: ColumnSpec, key: KeySpec) -> ColumnSpec:
    """Return the column with a key on it; the same key written twice is added once."""
    return column if key in column.constraints else replace(column, constraints=(*column.constraints, key))


def _storage(cursor: Cursor, column: ColumnSpec) -> ColumnSpec | None:
    """Parse an attribute that does not affect the column's values; None if the next words are not one."""
    if word := cursor.accept_one("COLUMN_FORMAT", "STORAGE"):
        return _said(column, word, cursor.word_or_name().upper())
    if word := cursor.accept_one("ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"):
        cursor.accept_symbol("=")
        return _said(column, word, quote_string(cursor.string()))
    return _said(column, "NOT SECONDARY", "") if cursor.accept("NOT", "SECONDARY") else None


def _said(column: ColumnSpec, name: str, value: str) -> ColumnSpec:
    return replace(column, attributes=with_attributes(column.attributes, ((name, value),)))


def parse_default(cursor: Cursor) -> Default | Value:
    """Parse the value after DEFAULT, other than CURRENT_TIMESTAMP."""
    if cursor.at_symbol("("):
        return Default("expression", canonical(cursor.parenthesized(), cursor.session))
    if cursor.accept("NULL"):
        return Default("null")
    if word := cursor.accept_one("TRUE", "FALSE"):
        return Value("number", "1" if word == "TRUE" else "0")
    charset = None
    if cursor.word().startswith("_") and cursor.peek(1).kind in ("string", "bits"):
        charset = canonical_charset(cursor.next().text[1:])
    if cursor.peek().kind == "bits":
        return Value("bits", cursor.next().text, charset)
    if cursor.peek().kind == "string":
        return Value("string", cursor.literal_string(), charset)
    return Value("number", _number(cursor))


def _number(cursor: Cursor) -> str:
    sign = "-" if cursor.accept_symbol("-") else ""
    if not sign:
        cursor.accept_symbol("+")
    whole = cursor.accept_symbol(".")
    if cursor.peek().kind != "number":
        raise cursor.error("expected a literal, NULL, CURRENT_TIMESTAMP or an expression in parentheses")
    return f"{sign}{'0.' if whole else ''}{cursor.next().text}"


def _now(cursor: Cursor) -> int:
    """Parse CURRENT_TIMESTAMP and return its precision."""
    if not cursor.accept_one(*_NOW):
        raise cursor.error("expected CURRENT_TIMESTAMP")
    if not cursor.accept_symbol("("):
        return 0
    precision = 0 if cursor.at_symbol(")") else cursor.integer()
    cursor.expect_symbol(")")
    return precision
