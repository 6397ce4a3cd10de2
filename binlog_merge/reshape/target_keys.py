"""Tables of which a target of the log may hold other keys than the schema history has.

The history has the keys after a statement that a filter leaves out, and after a definition that an operator gives; a
target still has those before. Rows that share a value of such a key may not be applied side by side, and which value
that is no history says any more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from snapshot_store.history import GIVEN, SchemaHistory, TableVersion
from snapshot_store.model import Table
from snapshot_store.tso import ORIGIN, OrderKey

Name = tuple[str, str]
STATE: Final = "target_keys"
"""The name under which the manifest passes them on to the next run."""
_LONGEST: Final = 160


class KeysApart(NamedTuple):
    """From `key` on, a target may hold other keys of a table, for the reason `why`; "": it holds those of the history
    again.
    """

    key: OrderKey
    schema: str
    table: str
    why: str


@dataclass(frozen=True, slots=True)
class TargetKeys:
    """What is known of a log's targets, in the order of the keys."""

    apart: tuple[KeysApart, ...] = ()

    def why(self, schema: str, table: str, key: OrderKey) -> str:
        """Return why a target may hold other keys of a table when it applies the transaction with a key; "": it holds
        those of the history.
        """
        name = schema.lower(), table.lower()
        return next((a.why for a in reversed(self.apart) if a.key < key and _folded(a) == name), "")

    def below(self, key: OrderKey) -> "TargetKeys":
        """Return what was known below a key."""
        return TargetKeys(tuple(a for a in self.apart if a.key < key))

    def then(self, apart: Iterable[KeysApart]) -> "TargetKeys":
        """Return the same with more."""
        return TargetKeys(tuple(sorted((*self.apart, *apart), key=lambda a: a.key)))

    def to_state(self) -> dict[str, Any]:
        """Return what the manifest passes on to the next run: nothing, where nothing is known."""
        return {STATE: [[a.key.text(), *a[1:]] for a in self.apart]} if self.apart else {}

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> "TargetKeys":
        """Return what a run passed on."""
        return cls(tuple(KeysApart(OrderKey.parse(key), *rest) for key, *rest in state.get(STATE, ())))


def _folded(apart: KeysApart) -> Name:
    return apart.schema.lower(), apart.table.lower()


def apart_by(key: OrderKey, name: Name, before: Table | None, after: Table | None, why: str) -> list[KeysApart]:
    """Return what follows from a table's change that no target carries out: for it, and for those that it refers to."""
    if before is None:
        return []
    old, new = _keys(before), set() if after is None else _keys(after)
    lost = old - new
    if not lost and (_identifies(before) or after is None or not _identifies(after)):
        return []
    why = why if len(why) <= _LONGEST else f"{why[:_LONGEST]} …"
    names = [name, *(key.target(before.schema) for key in before.foreign_keys if _refers(key) in lost)]
    return [KeysApart(key, *one, why) for one in dict.fromkeys(names)]


def given_apart(history: SchemaHistory, floor: OrderKey) -> list[KeysApart]:
    """Return what follows from definitions that people have given for keys from `floor` on."""
    found: list[KeysApart] = []
    for version in history.versions:
        if version.node is None and version.origin in GIVEN and version.key > max(floor.previous(), ORIGIN):
            before = table_of(history.at(version.schema, version.name, version.key))
            why = "a definition that was given for it has others, and no statement of the log says so"
            found += apart_by(version.key, (version.schema, version.name), before, version.table, why)
    return found


def table_of(version: TableVersion | None) -> Table | None:
    """Return the definition of a version, None if it is not known."""
    return None if version is None or version.opaque else version.table


def _keys(table: Table) -> set[tuple[Any, ...]]:
    unique = (tuple(index.parts) for index in table.indexes if index.unique or index.name == "PRIMARY")
    return {*unique, *map(_refers, table.foreign_keys)}


def _refers(key: Any) -> tuple[Any, ...]:
    return key.columns, key.table, key.referenced, key.on_delete, key.on_update


def _identifies(table: Table) -> bool:
    nullable = {column.name.lower(): column.nullable for column in table.columns}
    return any(
        index.name == "PRIMARY"
        or (index.unique and not any(part.column is None or nullable[part.column.lower()] for part in index.parts))
        for index in table.indexes
    )
