"""What SHOW and DESCRIBE tell about databases, tables, columns and indexes, in MySQL's columns."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from binlog_merge.binlog_server.definitions import Definitions, Row, columns
from binlog_merge.binlog_server.dictionary import (
    PRIVILEGES,
    SYSTEM_SCHEMAS,
    default_of,
    extra_of,
    index_rows,
    keys_of,
)
from binlog_merge.binlog_server.recorded import known_shows, listed_tables, system_table
from binlog_merge.binlog_server.refused import Refused, unknown_database, unknown_table
from binlog_merge.binlog_server.show_sql import CONSTANT
from binlog_merge.binlog_server.statements import Names, ShowDefinitions
from binlog_merge.binlog_server.table_facts import status_of
from binlog_merge.protocol.packets import Column, ErrorCode

if TYPE_CHECKING:
    from snapshot_store.history import TableVersion
    from snapshot_store.model import Table

Answered = tuple[Sequence[Column], Iterable[Row]]
_SYSTEM: Final = {name: (charset, collation) for name, charset, collation in SYSTEM_SCHEMAS}


def show(asked: ShowDefinitions, definitions: Definitions, default: str | None) -> Answered:
    """Answer a SHOW; `default` is the session's schema. Raises Refused."""
    described, rows = _ANSWERS[asked.what](asked, definitions, default)
    if asked.like is not None:
        match = Names((asked.like,)).matcher()
        rows = [row for row in rows if match(str(row[0]))]
    if asked.where:
        from binlog_merge.binlog_server.questions import where

        rows = where(asked.where, described, rows)
    return described, rows


def schema_known(name: str, definitions: Definitions) -> bool:
    """Return whether there is a database of this name."""
    return name.lower() in _SYSTEM or name in definitions.schemas


def _databases(asked: ShowDefinitions, definitions: Definitions, default: str | None) -> Answered:
    return [_headed("Database", asked)], [(name,) for name in sorted([*_SYSTEM, *definitions.schemas])]


def _tables(asked: ShowDefinitions, definitions: Definitions, default: str | None) -> Answered:
    schema = _schema(asked, definitions, default)
    head = _headed(f"Tables_in_{schema}", asked)
    if schema.lower() == "information_schema":
        rows = [(name, "SYSTEM VIEW") for of, name in listed_tables() if of == "information_schema"]
    elif schema.lower() == "performance_schema":
        rows = [(name, "BASE TABLE") for of, name in listed_tables() if of == "performance_schema"]
    else:
        rows = [(version.name, "BASE TABLE") for version in definitions.of(schema)]
    if asked.full:
        return [head, *columns("Table_type:char")], rows
    return [head], [row[:1] for row in rows]


def _create_table(asked: ShowDefinitions, definitions: Definitions, default: str | None) -> Answered:
    from snapshot_store.render_sql import create_sql

    table = _table(asked, definitions, default)
    return columns("Table Create~Table"), [(table.name, create_sql(table))]


def _create_database(asked: ShowDefinitions, definitions: Definitions, default: str | None) -> Answered:
    from snapshot_store.mysql.sql.names import quote_name
    from snapshot_store.mysql.text.charsets import default_collation

    name = _schema(asked, definitions, default)
    schema = definitions.schemas.get(name)
    charset, collation = _SYSTEM[name.lower()] if schema is None else (schema.charset, schema.collation)
    # As MySQL writes it: the collation where it is not the character set's own, and always that of utf8mb4.
    named = f" COLLATE {collation}" if charset == "utf8mb4" or collation != default_collation(charset) else ""
    optional = "/*!32312 IF NOT EXISTS*/ " if asked.optional else ""
    text = (
        f"CREATE DATABASE {optional}{quote_name(name)} /*!40100 DEFAULT CHARACTER SET {charset}{named} */ "
        "/*!80016 DEFAULT ENCRYPTION='N' */"
    )
    return columns("Database Create~Database"), [(name, text)]


def _columns(asked: ShowDefinitions, definitions: Definitions, default: str | None) -> Answered:
    from snapshot_store.render_sql import type_sql

    rows = _system_columns(asked, default)
    if rows is None:
        table = _table(asked, definitions, default)
        keys = keys_of(table)
        rows = [
            (
                *(c.name, type_sql(c.type), c.type.collation, "YES" if c.nullable else "NO", keys.get(c.name, "")),
                *(default_of(c), extra_of(c), PRIVILEGES, c.comment),
            )
            for c in table.columns
        ]
    if asked.full:
        head = "Field Type:text Collation Null Key:char Default:text Extra Privileges Comment:text"
        return columns(head), rows
    return columns("Field Type:text Null Key:char Default:text Extra"), [(*row[:2], *row[3:7]) for row in rows]


def _system_columns(asked: ShowDefinitions, default: str | None) -> list[Row] | None:
    """Return the rows of SHOW FULL COLUMNS of a system table, None for any other table."""
    relation = system_table(asked.schema or default or "", asked.table)
    if relation is None:
        return None
    return [
        (row[0], row[12], row[11], row[3], row[13], row[2], row[14], PRIVILEGES, row[16]) for row in relation.described
    ]


def _index(asked: ShowDefinitions, definitions: Definitions, default: str | None) -> Answered:
    return _INDEX_COLUMNS, list(index_rows(_table(asked, definitions, default)))


def _table_status(asked: ShowDefinitions, definitions: Definitions, default: str | None) -> Answered:
    tables = definitions.of(_schema(asked, definitions, default))
    return known_shows()["table status"].columns, [(v.name, *status_of(None if v.opaque else v.table)) for v in tables]


def _of_schema(asked: ShowDefinitions, definitions: Definitions, default: str | None) -> Answered:
    _schema(asked, definitions, default)
    return _constant(asked, definitions, default)


def _open_tables(asked: ShowDefinitions, definitions: Definitions, default: str | None) -> Answered:
    if asked.schema is not None:
        _schema(asked, definitions, default)
    return _constant(asked, definitions, default)


def _constant(asked: ShowDefinitions, definitions: Definitions, default: str | None) -> Answered:
    shown = known_shows()[asked.what]
    return shown.columns, shown.rows


def _create_view(asked: ShowDefinitions, definitions: Definitions, default: str | None) -> Answered:
    schema = _schema(asked, definitions, default)
    if (schema, asked.table) in definitions.tables:
        raise Refused(ErrorCode.ER_WRONG_OBJECT, f"'{schema}.{asked.table}' is not VIEW")
    raise unknown_table(schema, asked.table)


def _create_routine(asked: ShowDefinitions, definitions: Definitions, default: str | None) -> Answered:
    _schema(asked, definitions, default)
    code, text = _NO_ROUTINES[asked.what]
    raise Refused(code, text.format(asked.table[:64]))


_NO_ROUTINES: Final = {
    "create trigger": (ErrorCode.ER_TRG_DOES_NOT_EXIST, "Trigger does not exist"),
    "create procedure": (ErrorCode.ER_SP_DOES_NOT_EXIST, "PROCEDURE {} does not exist"),
    "create function": (ErrorCode.ER_SP_DOES_NOT_EXIST, "FUNCTION {} does not exist"),
    "create event": (ErrorCode.ER_EVENT_DOES_NOT_EXIST, "Unknown event '{}'"),
}


def _headed(name: str, asked: ShowDefinitions) -> Column:
    return Column(name if asked.like is None else f"{name} ({asked.like})")


def _schema(asked: ShowDefinitions, definitions: Definitions, default: str | None) -> str:
    schema = asked.schema or default
    if schema is None:
        raise Refused(ErrorCode.ER_NO_DB_ERROR, "No database selected")
    if not schema_known(schema, definitions):
        raise unknown_database(schema)
    return schema


def _table(asked: ShowDefinitions, definitions: Definitions, default: str | None) -> "Table":
    schema = _schema(asked, definitions, default)
    version = definitions.tables.get((schema, asked.table))
    if version is None:
        raise unknown_table(schema, asked.table)
    return _definition(version)


def _definition(version: "TableVersion") -> "Table":
    if version.table is not None and not version.opaque:
        return version.table
    raise Refused(
        ErrorCode.ER_UNKNOWN_ERROR,
        f"the definition of {version.schema}.{version.name} is not known: a statement was not understood "
        f"({' '.join(version.ddl.split())[:120]}); give the table with `binlog-merge schema set`",
    )


_INDEX_COLUMNS: Final = columns(
    "Table Non_unique:int Key_name Seq_in_index:int Column_name Collation Cardinality:big Sub_part:big Packed:null "
    "Null Index_type Comment Index_comment Visible Expression:text"
)
_ANSWERS: Final[dict[str, Callable[[ShowDefinitions, Definitions, str | None], Answered]]] = {
    "databases": _databases,
    "tables": _tables,
    "create table": _create_table,
    "create database": _create_database,
    "columns": _columns,
    "index": _index,
    "table status": _table_status,
    "triggers": _of_schema,
    "events": _of_schema,
    "create view": _create_view,
    **dict.fromkeys(_NO_ROUTINES, _create_routine),
    "open tables": _open_tables,
    **dict.fromkeys(CONSTANT, _constant),
}
