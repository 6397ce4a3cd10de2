"""When two shards' statements are one DDL."""

from binlog_merge.shard.ledger import plain
from binlog_merge.shard.values import ShardDdl
from snapshot_store.diff import diff_tables, equivalent


def same_ddl(a: ShardDdl, b: ShardDdl) -> bool:
    """Tell whether two statements are one DDL: the same text, the same clauses, or the same change of the schema."""
    if plain(a.sql) == plain(b.sql):
        return True
    clauses = [frozenset(plain(step.sql) for step in ddl.steps) for ddl in (a, b)]
    if clauses[0] == clauses[1] and len(a.steps) == len(b.steps):
        return True
    changes = [diff_tables(ddl.before, ddl.after) for ddl in (a, b)]
    if not changes[0] or _plain_renames(a) != _plain_renames(b):
        return False
    if changes[0] == changes[1]:
        return True
    # Comments may differ, where more than the comments changes.
    return equivalent(a.before, b.before) and equivalent(a.after, b.after) and not equivalent(a.before, a.after)


def _plain_renames(ddl: ShardDdl) -> list[tuple[str, str]]:
    return sorted((old.lower(), new.lower()) for old, new in ddl.renames)
