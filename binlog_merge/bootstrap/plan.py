"""What a round copies: the logical tables, and where their rows are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from binlog_merge.bootstrap.asking import UNORDERED
from binlog_merge.bootstrap.values import Name, Reading, Shard
from binlog_merge.config.merge_config import MergeConfig, route_of, topology_of
from binlog_merge.config.modes import Extract, key_columns
from binlog_merge.errors import UnsupportedInput
from binlog_merge.tables.rows import keys_of
from snapshot_store.model import Catalog, Table
from snapshot_store.topology import Route, Topology

_MOST_NAMED: Final = 10


@dataclass(frozen=True)
class Places:
    """Which logical table a physical one belongs to, and what its route fills in."""

    topology: Topology
    extracts: Mapping[Route, Extract]

    @classmethod
    def of(cls, config: MergeConfig) -> "Places":
        """Return the places that a configuration's routes say."""
        extracts = {route_of(rule, config): found for rule in config.routes if (found := rule.extract()) is not None}
        return cls(topology_of(config), extracts)

    def name(self, shard: Shard) -> Name | None:
        """Return the logical table of a physical one, None if it is left out of the log."""
        return self.topology.logical_name(*shard)

    def key_columns(self, name: Name) -> tuple[str, ...]:
        """Return the columns that routes fill in which are part of the keys of a logical table."""
        return key_columns(self.extracts, name)

    def reading(self, shard: Shard, table: Table) -> Reading:
        """Return how a physical table is read as rows of a logical one."""
        route = self.topology.route(*shard)
        extract = None if route is None else self.extracts.get(route)
        constants = {} if extract is None else {name.lower(): value for name, value in extract.values(*shard)}
        return Reading(table, table.columns, tuple(next(keys_of(table))), constants)


def check_tables(tables: Iterable[Table], logs_cascades: bool) -> None:
    """Raise UnsupportedInput for tables whose rows cannot be read while the log goes on."""
    tables = list(tables)
    keyless = [t for t in tables if (key := next(keys_of(t), None)) is None or _unordered(t, key)]
    if keyless:
        raise UnsupportedInput(
            f"no primary key, and no unique one without NULL, tells the rows of {_listed(keyless)} apart: what of them "
            "was read before and after a change cannot be told, either",
            remedy="give them a primary key, of columns that they have or of a new one whose values differ between "
            "shards; or leave their schema out of the log, `ignore-schemas`",
        )
    cascading = [table for table in tables if table.cascades]
    if cascading and not logs_cascades:
        raise UnsupportedInput(
            f"foreign keys of {_listed(cascading)} change rows that no binlog names (ON DELETE CASCADE and the like)",
            remedy="MySQL 9.6 and later logs them, with innodb_native_foreign_keys=OFF; or use RESTRICT",
        )


def _unordered(table: Table, key: Sequence[int]) -> bool:
    return any(table.columns[i].type.family in UNORDERED for i in key)


def _listed(tables: Sequence[Table]) -> str:
    names = [f"{table.schema}.{table.name}" for table in tables]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def of_catalog(names: Iterable[Name], catalog: Catalog) -> tuple[Name, ...]:
    """Return those of some tables that a catalog has, sorted."""
    return tuple(sorted(name for name in names if name in catalog.tables))
