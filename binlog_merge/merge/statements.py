"""What a DDL statement is about, as far as the merge must know it before applying it."""

from snapshot_store.ddl import DdlSession
from snapshot_store.ddl.parse import parse_statement
from snapshot_store.ddl.statements import AlterSchema, CreateSchema, DropSchema
from snapshot_store.errors import SnapshotStoreError


def is_schema_ddl(sql: str, session: DdlSession | None = None) -> bool:
    """Tell whether a statement creates, alters or drops a database: it must not run with that database as default."""
    try:
        return isinstance(parse_statement(sql, session or DdlSession()), CreateSchema | AlterSchema | DropSchema)
    except SnapshotStoreError:
        return False
