"""Tables without what rows of different moments may contradict: foreign keys, unique keys but the one of rows."""

from collections.abc import Iterator
from dataclasses import replace

from binlog_merge.tables.rows import keys_of
from snapshot_store.model import Table
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.render_sql import index_sql


def _kept(table: Table) -> str | None:
    """Return the name of the key by which rows are told apart."""
    key = next(keys_of(table), None)
    for index in sorted(table.indexes, key=lambda i: i.name != "PRIMARY"):
        places = [None if part.column is None else table.index_of(part.column) for part in index.parts]
        if places == key and (index.unique or index.name == "PRIMARY"):
            return index.name
    return None


def _deferred(table: Table) -> list[str]:
    return [i.name for i in table.indexes if i.unique and i.name not in ("PRIMARY", _kept(table))]


def loose(table: Table) -> Table:
    """Return a table without what rows of different moments may contradict."""
    later = _deferred(table)
    indexes = tuple(replace(i, unique=False) if i.name in later else i for i in table.indexes)
    return replace(table, indexes=indexes, foreign_keys=())


def loosening(table: Table) -> Iterator[str]:
    """Yield the clauses that make a table loose."""
    for key in table.foreign_keys:
        yield f"DROP FOREIGN KEY {quote_name(key.name)}"
    for index in loose(table).indexes:
        if index.name in _deferred(table):
            yield f"DROP INDEX {quote_name(index.name)}, ADD {index_sql(index, table)}"


def unique_again(there: Table, wanted: Table) -> Iterator[str]:
    """Yield the clauses that make a loose table's keys unique again."""
    known = {index.name.lower(): index for index in there.indexes}
    for index in wanted.indexes:
        own = known.get(index.name.lower())
        if own is not None and index.unique and not own.unique and own.name != "PRIMARY":
            yield f"DROP INDEX {quote_name(own.name)}, ADD {index_sql(index, wanted)}"


def tied_again(there: Table, wanted: Table) -> Iterator[str]:
    """Yield the clauses that give a loose table its foreign keys."""
    have = {key.name for key in there.foreign_keys}
    yield from (f"ADD {key.sql}" for key in wanted.foreign_keys if key.name not in have)
