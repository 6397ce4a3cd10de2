"""PolarDB-X's own clauses of tables and indexes: finds where each begins and ends.

Source: PolarDB-X documentation, "CREATE TABLE (AUTO mode)", "CREATE TABLE (DRDS mode)", "CREATE INDEX", "TTL tables",
"Local partitions"; what its parser takes beyond these (`EXTPARTITION`, `ASYNC`) from polardbx-sql, Apache-2.0.
"""

from snapshot_store.mysql.sql.cursor import Cursor

# Clauses of the form `NAME [=] value`.
_VALUED = frozenset(
    {
        "ASYNC",
        "AUTO_SPLIT",
        "BLOCK_SIZE",
        "DBPARTITIONS",
        "DICTIONARY_COLUMNS",
        "JOINGROUP",
        "LOCALITY",
        "LOCATION",
        "PARTITIONS",
        "SUBPARTITIONS",
        "TBPARTITIONS",
    }
)
# Prefixes of such clauses: TTL_ENABLE, TTL_CLEANUP, ARCHIVE_MODE, ARCHIVE_TABLE_PRE_ALLOCATE, COLUMNAR_OPTIONS.
_FAMILIES = ("ARCHIVE_", "COLUMNAR_", "TTL_")
_PARTITIONING = ("DBPARTITION", "PARTITION", "SUBPARTITION", "TBPARTITION")
_EXTENDED = ("EXPARTITION", "EXPARTITIONS", "EXTPARTITION", "EXTPARTITIONS")


def skip_table_clause(cursor: Cursor) -> bool:
    """Skip one clause that only a PolarDB-X table has. Returns False if there is none at the cursor."""
    if cursor.accept_one("BROADCAST", "SINGLE"):
        return True
    return skip_index_clause(cursor)


def skip_index_clause(cursor: Cursor) -> bool:
    """Skip one clause that only a PolarDB-X table or index has. Returns False if there is none at the cursor."""
    if cursor.word() in _PARTITIONING and cursor.word(1) == "BY":
        _skip_partition_by(cursor)
        return True
    if cursor.at("LOCAL", "PARTITION", "BY"):
        _skip_local_partition_by(cursor)
        return True
    if skip_table_group(cursor) or _skip_ttl(cursor):
        return True
    if cursor.accept_one(*_EXTENDED):
        cursor.parenthesized()
        return True
    if cursor.word() in _VALUED or cursor.word().startswith(_FAMILIES):
        cursor.next()
        cursor.accept_symbol("=")
        _skip_value(cursor)
        return True
    return _skip_distribution(cursor)


def at_trailer(cursor: Cursor) -> bool:
    """Return whether the cursor is at a PolarDB-X clause that ALTER TABLE accepts without a comma before it."""
    return (
        (cursor.word() in _PARTITIONING and cursor.word(1) in ("BY", "ALIGN"))
        or cursor.at("LOCAL", "PARTITION")
        or cursor.at("WITH", "TABLEGROUP")
        or (cursor.word() in ("TABLEGROUP", "LOCALITY", "ASYNC", "JOINGROUP") and cursor.at_symbol("=", 1))
    )


def skip_table_group(cursor: Cursor) -> bool:
    """Skip `[WITH] TABLEGROUP [=] name [IMPLICIT | FORCE]`. Returns False if it is not at the cursor."""
    if not (cursor.at("TABLEGROUP") or cursor.at("WITH", "TABLEGROUP")):
        return False
    cursor.accept("WITH")
    cursor.expect("TABLEGROUP")
    cursor.accept_symbol("=")
    _skip_value(cursor)
    while cursor.accept_one("IMPLICIT", "FORCE"):
        pass
    return True


def skip_unit(cursor: Cursor) -> None:
    """Skip `UNIT COUNT n INDEX m STEP s`, of which each part is optional."""
    if cursor.accept("UNIT"):
        cursor.expect("COUNT")
        _skip_value(cursor)
    if cursor.at("INDEX") and cursor.peek(1).kind == "number":
        cursor.next()
        _skip_value(cursor)
    if cursor.at("STEP") and cursor.peek(1).kind == "number":
        cursor.next()
        _skip_value(cursor)


def _skip_partition_by(cursor: Cursor) -> None:
    """Skip a PARTITION BY clause with its counts, its subpartitioning and its list of partitions."""
    cursor.next()
    cursor.expect("BY")
    _skip_function(cursor)
    while True:
        if cursor.accept_one("PARTITIONS", "SUBPARTITIONS", "DBPARTITIONS", "TBPARTITIONS", "LIFECYCLE"):
            cursor.accept_symbol("=")
            _skip_value(cursor)
        elif cursor.accept("SUBPARTITION", "BY"):
            _skip_function(cursor)
        elif cursor.accept("SUBPARTITION", "TEMPLATE") or cursor.at_symbol("("):
            cursor.parenthesized()
        elif not _skip_period(cursor):
            return


def _skip_function(cursor: Cursor) -> None:
    """Skip `[LINEAR] HASH(…)`, `KEY ALGORITHM = 2 (…)`, `RANGE COLUMNS (…)`, `YYYYMM(…)` and the like."""
    if not cursor.at_name():
        raise cursor.error("expected a way to partition")
    cursor.accept("LINEAR")
    cursor.next()
    cursor.accept("COLUMNS")
    if cursor.accept("ALGORITHM"):
        cursor.accept_symbol("=")
        _skip_value(cursor)
    if cursor.at_symbol("("):
        cursor.parenthesized()


def _skip_local_partition_by(cursor: Cursor) -> None:
    """Skip `LOCAL PARTITION BY RANGE (c) [STARTWITH …] INTERVAL … [EXPIRE AFTER n] [PRE ALLOCATE n] …`."""
    cursor.next()
    cursor.next()
    cursor.expect("BY")
    _skip_function(cursor)
    while _skip_period(cursor):
        pass


def _skip_period(cursor: Cursor) -> bool:
    """Skip one clause of how partitions follow each other in time. Returns False if there is none at the cursor."""
    if cursor.accept_one("STARTWITH", "ENDWITH", "PIVOTDATE"):
        _skip_value(cursor)
    elif cursor.accept("INTERVAL"):
        _skip_value(cursor)
        cursor.accept_one("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
    elif cursor.accept("EXPIRE", "AFTER") or cursor.accept("PRE", "ALLOCATE"):
        _skip_value(cursor)
    else:
        return cursor.accept("DISABLE", "SCHEDULE") or cursor.accept("ENABLE", "SCHEDULE")
    return True


def _skip_ttl(cursor: Cursor) -> bool:
    """Skip `TTL = TTL_DEFINITION(…)`, `TTL_EXPR = … EXPIRE …` or `TTL_JOB = CRON …`. Returns False if none is at the
    cursor.
    """
    if cursor.accept("TTL_EXPR"):
        cursor.accept_symbol("=")
        _skip_value(cursor)
        _skip_expiry(cursor)
        return True
    if cursor.accept("TTL_JOB"):
        cursor.accept_symbol("=")
        cursor.accept("CRON")
        _skip_value(cursor)
        _skip_time_zone(cursor)
        return True
    if cursor.at("TTL") and (cursor.at_symbol("=", 1) or cursor.word(1) == "TTL_DEFINITION"):
        cursor.next()
        cursor.accept_symbol("=")
        _skip_value(cursor)
        _skip_expiry(cursor)
        return True
    return False


def _skip_expiry(cursor: Cursor) -> None:
    if cursor.accept("EXPIRE"):
        cursor.accept_one("AFTER", "OVER")
        _skip_value(cursor)
        cursor.accept_one(
            "YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "PARTITION", "PARTITIONS"
        )
    _skip_time_zone(cursor)


def _skip_time_zone(cursor: Cursor) -> None:
    if cursor.accept("TIMEZONE"):
        _skip_value(cursor)


def _skip_distribution(cursor: Cursor) -> bool:
    if cursor.word() in ("DISTRIBUTE", "DISTRIBUTED") and cursor.word(1) == "BY":
        cursor.next()
        cursor.next()
        _skip_function(cursor)
        return True
    if cursor.accept("CLUSTERED", "BY"):
        cursor.parenthesized()
        return True
    return False


def _skip_value(cursor: Cursor) -> None:
    """Skip one value: a literal, a name, a call or a list in parentheses, with an optional sign or qualifier."""
    while cursor.accept_symbol("-") or cursor.accept_symbol("+"):
        pass
    if not cursor.at_symbol("("):
        if cursor.done or cursor.peek().kind == "symbol":
            raise cursor.error("expected a value")
        cursor.next()
        while cursor.accept_symbol("."):
            cursor.next()
    if cursor.at_symbol("("):
        cursor.parenthesized()
