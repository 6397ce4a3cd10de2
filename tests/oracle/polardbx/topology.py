"""Which physical tables make which logical ones, moment by moment, as the messages of a cluster say."""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.ddl import Name
from tests.oracle.order import Key
from tests.oracle.polardbx.messages import Message

Place = tuple[str, str, str]  # node, schema, table
BROADCAST, GSI = 2, 3


@dataclass
class Topology:
    """The cluster's state, changed message by message, and what it was behind every key."""

    tables: dict[Name, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)  # schema -> group -> (node, schema)
    charsets: dict[str, str] = field(default_factory=dict)
    renamed: dict[Place, Place] = field(default_factory=dict)  # by nodes themselves, since the table's last record
    history: list[tuple[Key, dict[Place, Name]]] = field(default_factory=list)

    def at(self, place: Place, key: Key) -> Name | None:
        """Return the logical table of a row with this key; None if the row never comes out."""
        states = [state for since, state in self.history if since < key]
        return states[-1].get((place[0], place[1].lower(), place[2].lower())) if states else None

    def snapshot(self, key: Key, content: str) -> list[tuple[Name, dict[str, Any]]]:
        """Take everything there is from CdcStart or MetaSnapshot; returns the tables."""
        found = []
        self.tables.clear()
        for database in json.loads(content)["logicDbMetas"]:
            self._database(database)
            for table in database.get("logicTableMetas") or []:
                name = (database["schema"].lower(), table["tableName"].lower())
                self.tables[name] = table
                found.append((name, table))
        self._keep(key)
        return found

    def take(self, message: Message) -> None:
        """Take a DDL marker."""
        kind = message.text("SQL_KIND")
        name = (message.text("SCHEMA_NAME").lower(), message.text("TABLE_NAME").lower())
        meta = json.loads(message.text("META_INFO") or "{}") or {}
        if kind == "DROP_TABLE":
            self.tables.pop(name, None)
        elif kind == "DROP_DATABASE":
            self.tables = {n: t for n, t in self.tables.items() if n[0] != name[0]}
        if meta.get("logicDbMeta"):
            self._database(meta["logicDbMeta"])
            for (schema, _), table in self.tables.items():
                for part in table["phySchemas"] if schema == name[0] else ():
                    node, physical = self.groups[schema].get(part["group"].lower(), (None, None))
                    if node is not None:
                        part["storageInstId"], part["schema"] = node, physical
        if meta.get("logicTableMeta"):
            if kind == "RENAME_TABLE":
                self.tables.pop(name, None)
            table = meta["logicTableMeta"]
            self.tables[name[0], table["tableName"].lower()] = table
            said = set(_places(table))
            self.renamed = {old: new for old, new in self.renamed.items() if new not in said}
        self._keep(message.key)

    def rename(self, key: Key, old: Place, new: Place) -> None:
        """Follow a physical table that its node has given another name."""
        state = dict(self.history[-1][1]) if self.history else {}
        if old in state and new not in state:
            state[new] = state.pop(old)
            first = next((o for o, n in self.renamed.items() if n == old), old)
            self.renamed[first] = new
            self.history.append((key, state))

    def _database(self, meta: dict[str, Any]) -> None:
        schema = meta["schema"].lower()
        known = self.groups.setdefault(schema, {})
        for group in meta.get("phySchemas") or []:
            known[group["group"].lower()] = (group["storageInstId"], group["schema"].lower())
        if meta.get("charset"):
            self.charsets[schema] = meta["charset"]

    def _keep(self, key: Key) -> None:
        state = {}
        for name, table in self.tables.items():
            for place in _places(table):
                state[self.renamed.get(place, place)] = name
        self.history.append((key, state))


def _places(table: dict[str, Any]) -> list[Place]:
    """Return the physical tables whose rows come out: of a broadcast table one, of an index none."""
    if table.get("tableType") == GSI:
        return []
    parts = [p for p in table["phySchemas"] if p["phyTables"]]
    if table.get("tableType") == BROADCAST and parts:
        first = min(parts, key=lambda p: (p["group"].lower(), p["schema"].lower()))
        parts = [{**first, "phyTables": first["phyTables"][:1]}]
    return [(p["storageInstId"], p["schema"].lower(), t.lower()) for p in parts for t in p["phyTables"]]
