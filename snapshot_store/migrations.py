"""The store's own tables, version by version. A script is never changed once released; the next one is appended."""

from typing import Any, Protocol

from snapshot_store.errors import StoreError

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # `node` '' is the logical history. `order_key` is the 54-digit text, which sorts as the key does.
        # `definition` is JSON (model_json.py), NULL where the table is gone.
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
)


class Connection(Protocol):
    """What is needed of a database connection."""

    def execute(self, query: str, parameters: Any = None) -> Any:
        """Run a statement."""


def migrate(connection: Connection, read_only: bool) -> None:
    """Bring the store's tables to the newest version, in one transaction.

    Raises StoreError if the store was written by a newer program, or is read-only and not up to date.
    """
    newest = len(MIGRATIONS)
    version = _version(connection)
    if version > newest:
        raise StoreError(f"the store has version {version}, this program knows {newest}: use a newer program")
    if version == newest:
        return
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


def _version(connection: Connection) -> int:
    known = connection.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'store_info'").fetchone()
    if not known[0]:
        return 0
    row = connection.execute("SELECT max(version) FROM store_info").fetchone()
    return int(row[0] or 0)
