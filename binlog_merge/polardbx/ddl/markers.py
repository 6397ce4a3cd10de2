"""Converts a DDL marker to the DDL event that is written in its place.

A marker's visibility says who gets the statement: nobody (private), PolarDB-X only (protected), or everybody (public).
Its row has the cluster's own form of the statement, and EXT often has the user's.
"""

from dataclasses import dataclass
from typing import Literal

from binlog_merge.polardbx.ddl.comments import PolarxComment
from binlog_merge.polardbx.ddl.convert import ConvertedDdl, convert, origin_of, shard_keys_of
from binlog_merge.polardbx.meta import Extension
from snapshot_store.ddl.parse.statement import ParsedDdl
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.surrogates import is_text
from snapshot_store.tso import OrderKey

PRIVATE, PUBLIC, PROTECTED = 0, 1, 2
_SHADOW = "/* //1/ */"

PrivateForm = Literal["query", "rows-query", "drop"]


@dataclass(frozen=True, slots=True)
class DdlMarker:
    """A DDL marker's row: SQL_KIND, SCHEMA_NAME, TABLE_NAME, DDL_SQL, VISIBILITY and EXT.

    `collation` is the table's and `charset` the database's, from META_INFO.
    """

    kind: str
    schema: str
    table: str | None
    sql: str
    visibility: int
    ext: Extension
    order_key: OrderKey
    collation: str | None = None
    charset: str | None = None


@dataclass(frozen=True, slots=True)
class DdlEvent:
    """The event that is written for a marker.

    `mysql` is what MySQL executes and the logical schemas apply, None if nothing. `text` is the text of the whole
    event, None if no event is written. With `rows_query` the text goes into a Rows_query event, which MySQL does not
    execute.
    """

    mysql: ParsedDdl | None
    text: str | None
    rows_query: bool = False

    @property
    def mysql_sql(self) -> str | None:
        """Return the text that MySQL executes, None if there is none."""
        return None if self.mysql is None else self.mysql.sql


def convert_ddl(
    marker: DdlMarker,
    private: PrivateForm = "query",
    *,
    session: DdlSession | None = None,
    indexes: frozenset[str] | None = None,
    lower_names: bool = True,
) -> DdlEvent:
    """Return the event for a marker. `private` is the form of statements that hold nothing for MySQL.

    `indexes` are the lower-case names of the table's indexes before the statement. `lower_names` writes databases and
    tables in lower case, as PolarDB-X names them in rows. Raises DdlNotUnderstood.
    """
    if marker.visibility == PRIVATE or not _is_shown(marker):
        return DdlEvent(None, None)
    converted = _converted(marker, session, indexes, lower_names)
    mysql = converted.mysql
    if mysql is None and private == "drop":
        return DdlEvent(None, None)
    comment = PolarxComment(
        converted.origin,
        marker.order_key,
        converted.ddl_id,
        "CCI" if marker.ext.is_cci else "",
        marker.ext.variables,
    )
    return DdlEvent(converted.parsed, comment.text() + (mysql or ""), mysql is None and private == "rows-query")


def convert_create(sql: str, collation: str | None = None, *, session: DdlSession | None = None) -> str:
    """Return the MySQL form of a CREATE TABLE from META_INFO or an instruction. Raises DdlNotUnderstood."""
    mysql = convert(sql, collation=collation, lower_names=True, session=session).mysql
    if mysql is None:
        raise DdlNotUnderstood(sql, "not a CREATE TABLE")
    return mysql


def _is_shown(marker: DdlMarker) -> bool:
    """Return whether PolarDB-X reads the statement: those on table groups only if it keeps its groups by name."""
    groups = marker.kind.upper() == "ALTER_TABLEGROUP" and marker.visibility == PROTECTED
    return not groups or marker.ext.manually_created_table_group or marker.ext.enable_implicit_table_group


def _converted(
    marker: DdlMarker, session: DdlSession | None, indexes: frozenset[str] | None, lower_names: bool
) -> ConvertedDdl:
    ext = marker.ext
    original = ext.original_ddl or marker.sql
    if marker.visibility != PUBLIC or ext.is_gsi or ext.is_cci:
        return origin_of(original, session)
    users_own = marker.kind.upper() == "CREATE_TABLE" or ext.foreign_keys_ddl
    # The shadow table of a stress test has another name than the one its user wrote.
    source = original if users_own and _SHADOW not in original else marker.sql
    shard_keys = shard_keys_of(marker.sql, session) if source != marker.sql else ()
    mysql = convert(
        source,
        schema=marker.schema,
        table=marker.table or None,
        collation=marker.collation,
        charset=marker.charset,
        indexes=indexes,
        shard_keys=shard_keys,
        lower_names=lower_names,
        session=session,
    )
    if mysql.mysql is not None and not is_text(mysql.mysql):
        raise DdlNotUnderstood(marker.sql, "the statement is not UTF-8")
    if source == original:
        return mysql
    try:
        other = convert(original, table=None, collation=marker.collation, charset=marker.charset, session=session)
    except DdlNotUnderstood:
        other = origin_of(original, session)
    return ConvertedDdl(mysql.parsed, other.origin, other.ddl_id or mysql.ddl_id)
