"""Tables and schemas as JSON text: equal values have equal text, and the text is read back exactly.

Fields with their default value are omitted, so adding a field to the model needs no migration. A foreign key is the
text that SHOW CREATE TABLE has of it, a partitioning its text form.
"""

import json
import re
from dataclasses import MISSING, fields
from functools import lru_cache
from typing import Any

from snapshot_store.errors import StoreDamaged
from snapshot_store.model import Column, Default, ForeignKey, Generated, Index, IndexPart, Schema, Table
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.partitioning import Partitioning

_NAME = r"`((?:[^`]|``)+)`"
_QUOTED = "`(?:[^`]|``)+`"
_LIST = rf"{_QUOTED}(?:, {_QUOTED})*"
_ACTION = r"ON (DELETE|UPDATE) (RESTRICT|CASCADE|SET NULL|NO ACTION|SET DEFAULT)"
_FOREIGN_KEY = re.compile(
    rf"(?:CONSTRAINT ({_QUOTED}) )?FOREIGN KEY \(({_LIST})\) REFERENCES ({_QUOTED}(?:\.{_QUOTED})?)(?: \(({_LIST})\))?"
    rf"((?: {_ACTION})*)"
)

_NESTED: dict[type[Any], dict[str, type[Any]]] = {
    Column: {"type": ColumnType, "default": Default, "generated": Generated},
    Index: {"parts": IndexPart},
    Table: {"columns": Column, "indexes": Index},
}


def table_to_json(table: Table) -> str:
    """Return a table as JSON text."""
    return _dump(table)


def table_from_json(text: str) -> Table:
    """Return the table that `table_to_json` wrote. Raises StoreError for any other text."""
    table: Table = _load(Table, text)
    return table


def schema_to_json(schema: Schema) -> str:
    """Return a schema as JSON text."""
    return _dump(schema)


def schema_from_json(text: str) -> Schema:
    """Return the schema that `schema_to_json` wrote. Raises StoreError for any other text."""
    schema: Schema = _load(Schema, text)
    return schema


def _dump(value: Any) -> str:
    # ASCII escapes keep whatever Python can hold in a string, lone surrogates included.
    return json.dumps(_plain(value), separators=(",", ":"))


def _load(kind: type[Any], text: str) -> Any:
    try:
        return _value(kind, json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreDamaged(
            f"not the JSON of a {kind.__name__}: {text[:100]!r} ({error}); the store is damaged"
        ) from None


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, ForeignKey):
        return value.sql
    if isinstance(value, Partitioning):
        return value.text()
    if not hasattr(value, "__dataclass_fields__"):
        return value
    found = {}
    for field in fields(value):
        item = getattr(value, field.name)
        if field.default is MISSING or item != field.default:
            found[field.name] = _plain(item)
    return found


def _value(kind: type[Any], data: Any) -> Any:
    nested = _NESTED.get(kind, {})
    values = {name: _field(nested.get(name), item) for name, item in data.items()}
    if values.get("foreign_keys"):
        values["foreign_keys"] = tuple(map(foreign_key_of, values["foreign_keys"]))
    if values.get("partitioning"):
        values["partitioning"] = Partitioning.of(values["partitioning"])
    return kind(**values)


@lru_cache(maxsize=4096)
def foreign_key_of(text: str) -> ForeignKey:
    """Return the foreign key with this SQL, as `ForeignKey.sql` writes it. Raises ValueError for any other text."""
    match = _FOREIGN_KEY.fullmatch(text)
    if match is None:
        raise ValueError(f"not a foreign key: {text!r}")
    ((name,), columns, table, referenced) = (_names(match[part] or "``") for part in range(1, 5))
    schema, on = table[0] if len(table) > 1 else None, dict(re.findall(_ACTION, match[5]))
    actions = (on.get("DELETE", ""), on.get("UPDATE", ""))
    return ForeignKey(name, columns, (schema, table[-1]), referenced if match[4] else (), *actions)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.replace("``", "`") for name in re.findall(_NAME, text)) or ("",)


def _field(kind: type[Any] | None, item: Any) -> Any:
    if isinstance(item, list):
        return tuple(_field(kind, part) for part in item)
    return item if kind is None or item is None else _value(kind, item)
