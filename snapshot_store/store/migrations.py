"""The store's tables, as a list of migration scripts. A released script is never changed; new ones are appended.

Users query the views of `VIEWS`, whose columns stay the same when the tables change.
"""

from typing import Any, Protocol

import duckdb

from snapshot_store.errors import StoreDamaged, StoreError, StoreTooNew
from snapshot_store.tso import FIRST_MILLIS, LAST_MILLIS, LOGICAL_BITS

_TSO = "substr(order_key, 1, 19)::BIGINT"
_MILLIS = f"({_TSO} >> {LOGICAL_BITS})"
_TIME = f"CASE WHEN {_MILLIS} >= {FIRST_MILLIS} AND {_MILLIS} < {LAST_MILLIS} THEN make_timestamp_ms({_MILLIS}) END"
_WHEN = f"order_key, {_TSO} AS commit_tso, {_TIME} AS committed_at"
_WHO = "ddl, file, position, origin"

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # `node` '' is the logical history. `order_key` is the 54-digit text, which sorts as the key does.
        # `definition` is JSON (model_json.py), NULL if the table was dropped.
        """CREATE TABLE table_versions (
            node VARCHAR NOT NULL, order_key VARCHAR NOT NULL CHECK (length(order_key) = 54),
            schema_name VARCHAR NOT NULL, table_name VARCHAR NOT NULL, definition VARCHAR,
            ddl VARCHAR NOT NULL, file VARCHAR NOT NULL, position UBIGINT NOT NULL, origin VARCHAR NOT NULL,
            PRIMARY KEY (node, order_key, schema_name, table_name))""",
        """CREATE TABLE schema_versions (
            node VARCHAR NOT NULL, order_key VARCHAR NOT NULL CHECK (length(order_key) = 54),
            schema_name VARCHAR NOT NULL, definition VARCHAR,
            ddl VARCHAR NOT NULL, file VARCHAR NOT NULL, position UBIGINT NOT NULL, origin VARCHAR NOT NULL,
            PRIMARY KEY (node, order_key, schema_name))""",
        """CREATE VIEW numbered_versions AS
            SELECT *, row_number() OVER (PARTITION BY node ORDER BY order_key, schema_name, table_name) AS version_id
            FROM table_versions""",
    ),
    (
        # Numbers are stored: computing them would sort the whole history, and folding would change them.
        "ALTER TABLE table_versions ADD COLUMN version_id UBIGINT DEFAULT 0",
        "ALTER TABLE table_versions ADD COLUMN folded BOOLEAN DEFAULT false",
        "ALTER TABLE schema_versions ADD COLUMN folded BOOLEAN DEFAULT false",
        """UPDATE table_versions AS t SET version_id = n.number
            FROM (SELECT node, order_key, schema_name, table_name,
                         row_number() OVER (PARTITION BY node ORDER BY order_key, schema_name, table_name) AS number
                  FROM table_versions) AS n
            WHERE t.node = n.node AND t.order_key = n.order_key AND t.schema_name = n.schema_name
              AND t.table_name = n.table_name""",
        "DROP VIEW numbered_versions",
        "CREATE TABLE settings (name VARCHAR PRIMARY KEY, value VARCHAR NOT NULL)",
    ),
    (
        # Without primary keys: no lookup uses their indexes, which take a quarter of the file and slow down deletes.
        # `store.append` ensures that a table has one version at a key.
        """CREATE TABLE new_table_versions (
            node VARCHAR NOT NULL, order_key VARCHAR NOT NULL CHECK (length(order_key) = 54),
            schema_name VARCHAR NOT NULL, table_name VARCHAR NOT NULL, definition VARCHAR,
            ddl VARCHAR NOT NULL, file VARCHAR NOT NULL, position UBIGINT NOT NULL, origin VARCHAR NOT NULL,
            version_id UBIGINT NOT NULL DEFAULT 0, folded BOOLEAN NOT NULL DEFAULT false)""",
        "INSERT INTO new_table_versions BY NAME SELECT * FROM table_versions ORDER BY node, order_key",
        "DROP TABLE table_versions",
        "ALTER TABLE new_table_versions RENAME TO table_versions",
        """CREATE TABLE new_schema_versions (
            node VARCHAR NOT NULL, order_key VARCHAR NOT NULL CHECK (length(order_key) = 54),
            schema_name VARCHAR NOT NULL, definition VARCHAR,
            ddl VARCHAR NOT NULL, file VARCHAR NOT NULL, position UBIGINT NOT NULL, origin VARCHAR NOT NULL,
            folded BOOLEAN NOT NULL DEFAULT false)""",
        "INSERT INTO new_schema_versions BY NAME SELECT * FROM schema_versions ORDER BY node, order_key",
        "DROP TABLE schema_versions",
        "ALTER TABLE new_schema_versions RENAME TO schema_versions",
    ),
)

VIEWS: dict[str, str] = {
    "versions": f"""
        SELECT nullif(node, '') AS node, schema_name, table_name, version_id, {_WHEN}, definition IS NULL AS dropped,
               {_WHO}, folded, definition::JSON AS definition
        FROM table_versions""",
    "tables": """
        SELECT * EXCLUDE (dropped) FROM (
            SELECT * FROM versions
            QUALIFY row_number() OVER (PARTITION BY node, schema_name, table_name ORDER BY order_key DESC) = 1)
        WHERE NOT dropped""",
    "columns": """
        SELECT node, schema_name, table_name, version_id, order_key, place AS ordinal, item->>'name' AS column_name,
               item->>'$.type.name' AS data_type, (item->>'$.type.length')::BIGINT AS length,
               (item->>'$.type.decimals')::BIGINT AS decimals, coalesce((item->>'$.type.fsp')::BIGINT, 0) AS fsp,
               coalesce((item->>'$.type.unsigned')::BOOLEAN, false) AS is_unsigned,
               item->>'$.type.charset' AS charset, item->>'$.type.collation' AS collation,
               coalesce((item->>'nullable')::BOOLEAN, true) AS nullable, item->>'$.default.kind' AS default_kind,
               item->>'$.default.text' AS default_text, item->>'$.generated.expression' AS generated,
               coalesce(item->>'comment', '') AS comment
        FROM (SELECT node, schema_name, table_name, version_id, order_key,
                     unnest(definition->'$.columns[*]') AS item,
                     generate_subscripts(definition->'$.columns[*]', 1) AS place
              FROM versions WHERE NOT dropped)""",
    "indexes": """
        SELECT node, schema_name, table_name, version_id, order_key, item->>'name' AS index_name,
               coalesce((item->>'unique')::BOOLEAN, false) AS is_unique, coalesce(item->>'kind', 'btree') AS kind,
               item->>'$.parts[*].column' AS column_names
        FROM (SELECT node, schema_name, table_name, version_id, order_key,
                     unnest(definition->'$.indexes[*]') AS item
              FROM versions WHERE NOT dropped)""",
    "databases": f"""
        SELECT nullif(node, '') AS node, schema_name, {_WHEN}, definition IS NULL AS dropped, {_WHO}, folded,
               coalesce(definition->>'charset', 'utf8mb4') AS charset,
               coalesce(definition->>'collation', 'utf8mb4_0900_ai_ci') AS collation
        FROM schema_versions""",
}
"""The views of `schema sql`, by name; the README documents their columns. They exist only in open connections."""

TABLES_AT = """
    CREATE TEMP MACRO tables_at(tso) AS TABLE
        SELECT * EXCLUDE (dropped) FROM (
            SELECT * FROM versions WHERE commit_tso <= tso
            QUALIFY row_number() OVER (PARTITION BY node, schema_name, table_name ORDER BY order_key DESC) = 1)
        WHERE NOT dropped"""
"""A table function: every table as it was after all commits up to and including a TSO."""


class Connection(Protocol):
    """The part of a database connection that migrations use."""

    def execute(self, query: str, parameters: Any = None) -> Any:
        """Run a statement."""


def outdated(connection: Connection) -> bool:
    """Return whether an older program wrote the store."""
    return version_of(connection) < len(MIGRATIONS)


def migrate(connection: Connection, read_only: bool) -> None:
    """Migrate the store's tables to the newest version, in one transaction.

    Raises StoreTooNew if the store was written by a newer program, StoreError if it is read-only and not up to date.
    """
    newest = len(MIGRATIONS)
    version = version_of(connection)
    if version > newest:
        raise StoreTooNew(f"the store has version {version}, this program knows {newest}: use a newer program")
    if version == newest:
        return
    if version == 0 and (found := _first_table(connection)) is not None:
        raise StoreDamaged(f"the file is a DuckDB database with a table {found}, and no schema store")
    if read_only:
        raise StoreError(f"the store has version {version}, not {newest}: open it once for writing")
    connection.execute("BEGIN TRANSACTION")
    connection.execute("CREATE TABLE IF NOT EXISTS store_info (version INTEGER NOT NULL)")
    for script in MIGRATIONS[version:]:
        for statement in script:
            connection.execute(statement)
    connection.execute("DELETE FROM store_info")
    connection.execute("INSERT INTO store_info VALUES (?)", [newest])
    connection.execute("COMMIT")


def _first_table(connection: Connection) -> str | None:
    row = connection.execute("SELECT min(table_name) FROM duckdb_tables()").fetchone()
    return None if row is None or row[0] is None else str(row[0])


def version_of(connection: Connection) -> int:
    """Return the version of a store's tables; 0 for an empty file."""
    try:  # to ask first whether the table is there would take ten times as long
        row = connection.execute("SELECT max(version) FROM store_info").fetchone()
    except duckdb.CatalogException:
        return 0
    return int(row[0] or 0)
