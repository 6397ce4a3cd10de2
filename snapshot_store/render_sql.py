"""Tables as SQL: the CREATE TABLE statement, written as SHOW CREATE TABLE writes it.

Newer attributes are put into executable comments, so that older servers accept the statement too. Strings are escaped
for a session without NO_BACKSLASH_ESCAPES. `parse_dump(create_sql(table))` returns the table.
"""

import re

from snapshot_store.model import Column, Default, Index, IndexPart, Schema, Table, attributes_sql
from snapshot_store.mysql.column_type import ColumnType, Family
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.lexer import Token
from snapshot_store.mysql.sql.names import quote_name, quote_plainly, quote_string
from snapshot_store.mysql.sql.session import STORED, DdlSession
from snapshot_store.surrogates import is_text

_LENGTH_SHOWN = frozenset({Family.INTEGER, Family.TEXT, Family.BYTES, Family.BIT, Family.VECTOR})
_BITS = re.compile(r"b'[01]*'|0x[0-9a-f]*")


def in_session(sql: str, session: DdlSession) -> str:
    """Return a statement that this module has rendered as a session writes it: with NO_BACKSLASH_ESCAPES, a backslash
    in a string stands for itself.
    """
    if session.backslash_escapes or "\\" not in sql:
        return sql
    for token in reversed(_strings(sql)):
        sql = sql[: token.start] + quote_plainly(token.text) + sql[token.end :]
    return sql


def create_sql(table: Table, qualified: bool = False) -> str:
    """Return a CREATE TABLE statement without a semicolon; `qualified` names the schema too."""
    items = [column_sql(column, table) for column in table.columns]
    items += [index_sql(index, table) for index in table.indexes]
    items += [key.sql for key in table.foreign_keys]
    items += [_check_sql(name, expression, name in table.unenforced) for name, expression in table.checks]
    name = quote_name(table.name)
    if qualified:
        name = f"{quote_name(table.schema)}.{name}"
    body = ",\n".join(f"  {item}" for item in items)
    comment = f" COMMENT={quote_string(table.comment)}" if table.comment else ""
    options = f"ENGINE={table.engine} DEFAULT CHARSET={table.charset} COLLATE={table.collation}{comment}"
    options = " ".join([options, *attributes_sql(table.attributes)])
    return _in_hexadecimal(f"CREATE TABLE {name} (\n{body}\n) {options}{partitions_sql(table)}")


def _in_hexadecimal(sql: str) -> str:
    """Return a statement whose strings are all text: those of expressions that are none are in hexadecimal.

    A server shows their bytes as they are, which no other character set than the introducer's has.
    """
    if is_text(sql):
        return sql
    for token in reversed(_strings(sql)):
        if not is_text(token.text):
            data = token.text.encode("utf-8", "surrogateescape").hex()
            sql = f"{sql[: token.start]} x'{data}'{sql[token.end :]}"
    return sql


def _strings(sql: str) -> list[Token]:
    cursor, strings = Cursor.of(sql, STORED), list[Token]()
    while cursor.peek().kind != "end":
        token = cursor.next()
        strings += [token] if token.kind == "string" else []
    return strings


def without_defaults_sql(table: Table) -> tuple[str, ...]:
    """Return the statement that takes from columns the DEFAULT NULL that CREATE TABLE gives them; usually none.

    ALTER COLUMN … DROP DEFAULT leaves a column that may be NULL and must be given a value. No definition says that.
    """
    bare = [c for c in table.columns if c.default is None and c.nullable and c.generated is None]
    drops = ", ".join(f"ALTER COLUMN {quote_name(column.name)} DROP DEFAULT" for column in bare)
    return (f"ALTER TABLE {quote_name(table.schema)}.{quote_name(table.name)} {drops}",) if bare else ()


def make_sql(table: Table) -> tuple[str, ...]:
    """Return the statements that make a table, which name its schema: CREATE TABLE, and what that cannot say."""
    return (create_sql(table, qualified=True), *without_defaults_sql(table))


def partitions_sql(table: Table) -> str:
    """Return the PARTITION BY clause that follows the table options; "" if it is not completely known."""
    if not table.partitioning:
        return ""
    found = table.partitioning.sql()
    return "" if found is None else f"\n{found}"


def _check_sql(name: str, expression: str, unenforced: bool) -> str:
    return f"CONSTRAINT {quote_name(name)} CHECK ({expression}){' /*!80016 NOT ENFORCED */' if unenforced else ''}"


def create_schema_sql(schema: Schema) -> str:
    """Return a CREATE DATABASE statement without a semicolon."""
    return (
        f"CREATE DATABASE {quote_name(schema.name)} DEFAULT CHARACTER SET {schema.charset} COLLATE {schema.collation}"
    )


def type_sql(type: ColumnType) -> str:
    """Return a type as information_schema.COLUMNS.COLUMN_TYPE shows it: without character set and SRID."""
    text = type.name
    if type.members:
        text += f"({','.join(quote_string(member) for member in type.members)})"
    elif type.decimals is not None:
        text += f"({type.length},{type.decimals})"
    elif type.length is not None and type.family in _LENGTH_SHOWN:
        text += f"({type.length})"
    elif type.fsp:
        text += f"({type.fsp})"
    return f"{text}{' unsigned' if type.unsigned else ''}{' zerofill' if type.zerofill else ''}"


def column_sql(column: Column, table: Table) -> str:
    """Return a column's definition, as in the CREATE TABLE."""
    parts = [quote_name(column.name), type_sql(column.type), *_charset_sql(column.type, table)]
    if column.generated is not None:
        kind = "STORED" if column.generated.stored else "VIRTUAL"
        parts.append(f"GENERATED ALWAYS AS ({column.generated.expression}) {kind}")
    if not column.nullable:
        parts.append("NOT NULL")
    elif column.type.name == "timestamp":
        parts.append("NULL")
    if column.type.srid is not None:
        parts.append(f"/*!80003 SRID {column.type.srid} */")
    parts += _default_sql(column)
    if column.on_update_now:
        parts.append(f"ON UPDATE {_now(column.type)}")
    if column.invisible:
        parts.append("/*!80023 INVISIBLE */")
    if column.auto_increment:
        parts.append("AUTO_INCREMENT")
    if column.comment:
        parts.append(f"COMMENT {quote_string(column.comment)}")
    return " ".join([*parts, *attributes_sql(column.attributes)])


def _charset_sql(type: ColumnType, table: Table) -> list[str]:
    if type.charset is None or (type.charset, type.collation) == (table.charset, table.collation):
        return []
    return [f"CHARACTER SET {type.charset} COLLATE {type.collation}"]


def _default_sql(column: Column) -> list[str]:
    default = column.default
    if default is None or (default.kind == "null" and not column.type.defaults_to_literal):
        return []
    return [f"DEFAULT {_default_value(default, column.type)}"]


def _default_value(default: Default, type: ColumnType) -> str:
    if default.kind == "null":
        return "NULL"
    if default.kind == "now":
        return _now(type)
    if default.kind == "expression":
        return f"({default.text})"
    if type.family in (Family.BIT, Family.BYTES) and _BITS.fullmatch(default.text):
        return default.text
    return quote_string(default.text)


def _now(type: ColumnType) -> str:
    return f"CURRENT_TIMESTAMP({type.fsp})" if type.fsp else "CURRENT_TIMESTAMP"


def index_sql(index: Index, table: Table) -> str:
    """Return an index's definition, as in the CREATE TABLE."""
    kind = {"fulltext": "FULLTEXT KEY", "spatial": "SPATIAL KEY"}.get(index.kind)
    if kind is None:
        kind = "UNIQUE KEY" if index.unique else "KEY"
    head = "PRIMARY KEY" if index.name == "PRIMARY" else f"{kind} {quote_name(index.name)}"
    parts = ",".join(_part_sql(part) for part in index.parts)
    attributes = index.attributes
    if index.kind == "hash" or (index.kind == "btree" and table.engine == "MEMORY"):
        attributes = (("USING", index.kind.upper()), *(a for a in attributes if a[0] != "USING"))
    hidden = [] if index.visible else ["/*!80000 INVISIBLE */"]
    return " ".join([f"{head} ({parts})", *attributes_sql(attributes), *hidden])


def _part_sql(part: IndexPart) -> str:
    text = f"({part.expression})" if part.column is None else quote_name(part.column)
    if part.length is not None:
        text += f"({part.length})"
    return f"{text} DESC" if part.descending else text
