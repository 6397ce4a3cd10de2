"""The definitions that a table of a merged log had at its rows: a frozen value that travels to executors.

Source: the schema store beside the log. Where that does not say (there is no store, or a DDL was not understood) it is
the log's own table maps, if they have names (binlog_row_metadata=FULL).
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import UnknownTable, UnknownTableSchema
from binlog_merge.files.manifest import OutputFile
from binlog_merge.log.index import chunks_of, key_of, transactions_between
from binlog_merge.log.log import Log
from binlog_merge.log.segments import Segment, segments
from binlog_merge.reshape.witness import check_witness
from binlog_merge.store_errors import as_merge_errors
from binlog_merge.values.from_table_map import table_from_table_map
from snapshot_store.errors import UnknownTable as NothingFound
from snapshot_store.history import HistoryKey, TableVersion
from snapshot_store.model import Table
from snapshot_store.names import NamePattern
from snapshot_store.store.db import Store
from snapshot_store.tso import ORIGIN, OrderKey


@dataclass(frozen=True, slots=True)
class TableVersions:
    """The versions of a table in the order of their keys, and definitions that only table maps say.

    A version holds for transactions with greater keys.
    """

    schema: str
    name: str
    versions: tuple[TableVersion, ...] = ()
    seen: tuple[Table, ...] = ()

    def tables(self) -> tuple[Table, ...]:
        """Return the definitions that rows may have, the latest last."""
        known = (version.table for version in self.versions if version.table is not None and not version.opaque)
        return tuple(dict.fromkeys([*known, *self.seen]))

    def at(self, key: OrderKey) -> Table | None:
        """Return the definition that a transaction with this key sees, None if it is not known."""
        place = bisect_left([version.key for version in self.versions], key)
        return self.versions[place - 1].table if place else None

    def of_rows(self, witness: TableMap, key: OrderKey | None) -> Table:
        """Return the definition of rows with this table map. Raises UnknownTableSchema if it is not known."""
        known = None if key is None else self.at(key)
        reason = None if known is None else check_witness(known, witness)
        if known is not None and reason is None:
            return known
        if (described := table_from_table_map(witness)) is not None:
            return described
        fitting = {t for t in self.tables() if key is None and check_witness(t, witness) is None}
        if len(fitting) == 1:
            return fitting.pop()
        raise UnknownTableSchema(
            f"what {witness.schema}.{witness.table} is here is not known: {reason or 'no schema history says it'}",
            order_key=key,
            remedy="keep schema.duckdb with the merged binlog, or let the nodes write binlog_row_metadata=FULL",
        )


def versions_between(binlog: Log, schema: str, name: str, first: int, last: int) -> TableVersions:
    """Return the versions of a table that rows of transactions `first` to `last` may have.

    Raises UnknownTable if the log knows no such table.
    """
    history = _history(binlog, schema, name)
    kept = _in_force(history, _keys_between(binlog, first, last))
    if history and (first > last or (kept and not any(version.opaque for version in kept))):
        return TableVersions(schema, name, kept or history)
    seen = tuple(dict.fromkeys(_seen(binlog, schema, name, first, last)))
    if not seen and not history:
        raise UnknownTable(f"the log has no table {schema}.{name}{_like(binlog, schema, name)}")
    return TableVersions(schema, name, kept or history, seen)


def all_versions_between(
    binlog: Log, patterns: Sequence[NamePattern], first: int, last: int
) -> dict[tuple[str, str], TableVersions]:
    """Return the versions of the tables that patterns match, as `versions_between` does of one.

    Only those that the log's schema store has. Raises UnknownTable for a pattern that matches none of them.
    """
    history: dict[tuple[str, str], list[TableVersion]] = {}
    known: tuple[HistoryKey, ...] = ()
    with binlog.folder.schema_store() as (path, _):
        if path.exists():
            with as_merge_errors(path), Store.open(path, True) as store:
                with suppress(NothingFound):
                    known = store.find([NamePattern("*", "*", (True, True))])
                wanted = [name for name in known if any(pattern.matches(*name[1:]) for pattern in patterns)]
                for version in store.history_of(wanted).versions:
                    history.setdefault((version.schema, version.name), []).append(version)
    for pattern in patterns:
        if known and not any(pattern.matches(*name) for name in history):
            raise UnknownTable(f"the log has no table {pattern}{_like(binlog, pattern.schema, pattern.table)}")
    return in_force_between(history, _keys_between(binlog, first, last))


def in_force_between(
    history: Mapping[tuple[str, str], Sequence[TableVersion]], between: tuple[OrderKey, OrderKey] | None
) -> dict[tuple[str, str], TableVersions]:
    """Return of each table the versions that transactions between two keys see; all if they see none."""
    return {
        name: TableVersions(*name, _in_force(tuple(versions), between) or tuple(versions))
        for name, versions in history.items()
    }


def _in_force(history: tuple[TableVersion, ...], between: tuple[OrderKey, OrderKey] | None) -> tuple[TableVersion, ...]:
    """Return the versions that transactions between two keys see; none if they see no table."""
    if between is None:
        return ()
    low, high = between
    begin = max(0, bisect_left([version.key for version in history], low) - 1)
    kept = tuple(version for version in history[begin:] if version.key < high)
    return kept if any(version.table is not None or version.opaque for version in kept) else ()


def history_of(binlog: Log, schema: str, name: str) -> TableVersions:
    """Return all versions of a table that the log's schema store has, none without one."""
    return TableVersions(schema, name, _history(binlog, schema, name))


def _history(binlog: Log, schema: str, name: str) -> tuple[TableVersion, ...]:
    with binlog.folder.schema_store() as (path, _):
        if not path.exists():
            return ()
        with as_merge_errors(path), Store.open(path, True) as store:
            return history_in(store, schema, name)


def history_in(store: Store, schema: str, name: str) -> tuple[TableVersion, ...]:
    """Return all versions of a table that a schema store has."""
    return store.history_of([(None, schema, name)]).versions


def _like(binlog: Log, schema: str, name: str) -> str:
    """Return the names that the log knows and the user may have meant, as the end of a message."""
    with binlog.folder.schema_store() as (path, _):
        if not path.exists():
            return ""
        tables: tuple[HistoryKey, ...] = ()
        with as_merge_errors(path), Store.open(path, True) as store, suppress(NothingFound):
            tables = store.find([NamePattern("*", "*", (True, True))])
    return like([(schema, table) for _, schema, table in tables], schema, name)


def like(known: Sequence[tuple[str, str]], schema: str, name: str) -> str:
    """Return the names that a user may have meant, as the end of a message."""
    from difflib import get_close_matches

    names = [f"{schema}.{table}" for schema, table in known]
    alike = [known for known in names if known.lower() == f"{schema}.{name}".lower()]  # in another case
    close = alike or get_close_matches(f"{schema}.{name}", names, 3) or names[:5]
    return f"; it has {', '.join(close)}" if close else ""


def _keys_between(binlog: Log, first: int, last: int) -> tuple[OrderKey, OrderKey] | None:
    """Return the keys of the first and the last transaction between two ranks whose keys the log says."""
    low = next((key for file in binlog.state.files for key in _keys(binlog, file, first, last)), None)
    if low is None:
        return None
    high = low
    for file in reversed([f for f in binlog.state.files if f.first_rank <= last and f.last_rank >= first]):
        if file.last_rank <= last:
            return low, max(low, OrderKey.parse(file.last_key))
        high = max(high, _last_key(binlog, file, first, last) or high)
        if high > low:
            break
    return low, high


def key_at(binlog: Log, rank: int) -> OrderKey | None:
    """Return the order key of a transaction; None if it was removed, or is a DDL within a file."""
    for file in binlog.state.files:
        if file.last_rank == rank:
            return OrderKey.parse(file.last_key)
        if file.first_rank <= rank < file.last_rank:
            return next(_keys(binlog, file, rank, rank), None)
    return None


def key_before(binlog: Log, rank: int) -> OrderKey:
    """Return the greatest key that the log says of a transaction before the one with a rank."""
    for file in reversed([f for f in binlog.state.files if f.first_rank < rank]):
        if file.last_rank < rank:
            return OrderKey.parse(file.last_key)
        key = _last_key(binlog, file, file.first_rank, rank - 1)
        if key is not None:
            return key
    return ORIGIN


def _last_key(binlog: Log, file: OutputFile, first: int, last: int) -> OrderKey | None:
    """Return the last key that a file says of transactions `first` to `last`."""
    chunks = chunks_of(binlog.folder, file)
    begin, end = max(first, file.first_rank), min(last, file.last_rank)
    if binlog.keys_at_ends:
        return next((key for rank in range(end, begin - 1, -1) for key in _keys(binlog, file, rank, rank)), None)
    for number in range(chunks.of_rank(end), chunks.of_rank(begin) - 1, -1):
        found = None
        ranks = max(begin, chunks.rank(number)), min(end, chunks.rank(number + 1) - 1)
        for rows in transactions_between(binlog.folder, file, *ranks):
            known = rows[rows[:, x.X_TSO] >= 0]
            found = key_of(known[-1]) if len(known) else found
        if found is not None:
            return found
    return None


def _keys(binlog: Log, file: OutputFile, first: int, last: int) -> Iterator[OrderKey]:
    """Yield the keys of a file's transactions of rows from `first` to `last`, where the log says them."""
    keys: Iterator[OrderKey | None]
    if binlog.keys_at_ends:
        ranks = range(max(first, file.first_rank), min(last, file.last_rank) + 1)
        found = map(binlog.in_file(file).transaction, ranks)
        keys = (one.key for one in found if one.ddl is None)
    else:
        keys = (key_of(row) for rows in transactions_between(binlog.folder, file, first, last) for row in rows)
    yield from (key for key in keys if key is not None)


def _seen(binlog: Log, schema: str, name: str, first: int, last: int) -> Iterator[Table]:
    """Yield the definitions that the table maps of a range describe."""
    known: set[bytes] = set()
    for piece in segments(binlog, first, last):
        if not isinstance(piece, Segment):
            continue
        for table_map in piece.tables:
            if (table_map.schema, table_map.table) == (schema, name) and (data := table_map.pack()) not in known:
                known.add(data)
                if (table := table_from_table_map(table_map)) is not None:
                    yield table
