"""Versions as rows of the store's tables, and back."""

from typing import Any

from snapshot_store.history import SchemaVersion, TableVersion
from snapshot_store.model_json import schema_from_json, schema_to_json, table_from_json, table_to_json
from snapshot_store.surrogates import shown
from snapshot_store.tso import OrderKey

Row = tuple[Any, ...]

TABLE_COLUMNS = "node, order_key, schema_name, table_name, definition, ddl, file, position, origin, version_id, folded"
SCHEMA_COLUMNS = "node, order_key, schema_name, definition, ddl, file, position, origin, folded"


def _text(text: str | None) -> str | None:
    """Return text without lone surrogates, which a column cannot hold."""
    return None if text is None else shown(text)


def table_row(version: TableVersion) -> Row:
    """Return a row with the columns of TABLE_COLUMNS."""
    definition = None if version.table is None else table_to_json(version.table)
    names = (version.node or "", version.key.text(), _text(version.schema), _text(version.name))
    who = (_text(version.ddl), version.file, version.position, version.origin)
    return (*names, definition, *who, version.version_id, version.folded)


def schema_row(version: SchemaVersion) -> Row:
    """Return a row with the columns of SCHEMA_COLUMNS."""
    definition = None if version.value is None else schema_to_json(version.value)
    names = (version.node or "", version.key.text(), _text(version.name))
    return (*names, definition, _text(version.ddl), version.file, version.position, version.origin, version.folded)


def table_version(row: Row) -> TableVersion:
    """Return the version of a row with the columns of TABLE_COLUMNS."""
    node, key, schema, name, definition, ddl, file, position, origin, number, folded = row
    table = None if definition is None else table_from_json(definition)
    return TableVersion(
        OrderKey.parse(key), number, schema, name, table, ddl, node or None, file, position, origin, folded
    )


def schema_version(row: Row) -> SchemaVersion:
    """Return the version of a row with the columns of SCHEMA_COLUMNS."""
    node, key, name, definition, ddl, file, position, origin, folded = row
    value = None if definition is None else schema_from_json(definition)
    return SchemaVersion(OrderKey.parse(key), name, value, ddl, node or None, file, position, origin, folded)
