"""Parsing partitioning clauses, and ALTER TABLE's actions on partitions.

In statements that a server has executed, a clause that is not understood is skipped. Source: rule `partition_clause` of
mysql-server `sql/sql_yacc.yy`.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from snapshot_store.ddl.actions import PartitionWork
from snapshot_store.ddl.parse.options import at_placement, parse_table_option, skip_placement
from snapshot_store.ddl.specs import Options, Partition, PartitionSpec
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.model import Attributes, attributes_sql, with_attributes
from snapshot_store.mysql.expr.nodes import Node, literal
from snapshot_store.mysql.expr.read import printed, read_expression
from snapshot_store.mysql.expr.reader import ExpressionReader
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.lexer import tokenize
from snapshot_store.mysql.sql.names import quote_string
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.mysql.values.times import utc_of, zone_of
from snapshot_store.partitioning import Partitioning, Tuples

_MOST = 8192


def parse_partitioning(cursor: Cursor) -> PartitionSpec:
    """Parse PARTITION BY … to the end of the clause."""
    cursor.expect("PARTITION", "BY")
    spec = _method(cursor)
    count = _count(cursor, "PARTITIONS")
    sub = None
    if cursor.accept("SUBPARTITION", "BY"):
        sub = _method(cursor)
        sub = replace(sub, count=_count(cursor, "SUBPARTITIONS"))
    partitions = _definitions(cursor) if cursor.at_symbol("(") else ()
    columns = (*spec.columns, *(sub.columns if sub else ()))
    return replace(spec, count=count, partitions=partitions, columns=columns, sub=sub)


def _method(cursor: Cursor) -> PartitionSpec:
    linear = cursor.accept("LINEAR")
    method = cursor.accept_one("HASH", "KEY", "RANGE", "LIST")
    if method is None or (linear and method in ("RANGE", "LIST")):
        raise cursor.error("expected HASH, KEY, RANGE or LIST")
    if method == "KEY":
        algorithm = 0
        if cursor.accept("ALGORITHM"):
            cursor.accept_symbol("=")
            algorithm = cursor.integer()
        return PartitionSpec("KEY", _columns(cursor), linear=linear, algorithm=algorithm)
    if method in ("RANGE", "LIST") and cursor.accept("COLUMNS"):
        return PartitionSpec(f"{method} COLUMNS", _columns(cursor))
    found = read_expression(cursor.parenthesized(), cursor.session)
    plain = found.node.text if found.node.kind == "column" else None
    return PartitionSpec(method, tuple(sorted(found.columns)), plain, printed(found.node), linear)


def _columns(cursor: Cursor) -> tuple[str, ...]:
    if cursor.at_symbol("(") and cursor.at_symbol(")", 1):
        cursor.parenthesized()
        return ()
    return cursor.names()


def _count(cursor: Cursor, word: str) -> int | None:
    if not cursor.accept(word):
        return None
    count = cursor.integer()
    cursor.limit(0 < count <= _MOST, f"{count} partitions")
    return count


def _definitions(cursor: Cursor) -> tuple[Partition, ...]:
    cursor.expect_symbol("(")
    definitions = [_definition(cursor)]
    while cursor.accept_symbol(","):
        definitions.append(_definition(cursor))
    cursor.expect_symbol(")")
    return tuple(definitions)


def _definition(cursor: Cursor) -> Partition:
    cursor.expect("PARTITION")
    partition = Partition(cursor.name())
    if cursor.accept("VALUES", "LESS", "THAN"):
        text = "MAXVALUE" if cursor.accept("MAXVALUE") else cursor.parenthesized()
        partition = replace(partition, kind="RANGE", values=(text,), tuples=_tuples(text, cursor.session, True))
    elif cursor.accept("VALUES", "IN"):
        text = cursor.parenthesized()
        values = tuple(v.strip() for v in text.split(",")) if re.fullmatch(r"[\w\s,+-]+", text) else (text,)
        partition = replace(partition, kind="LIST", values=values, tuples=_tuples(text, cursor.session, False))
    said = _said(cursor, partition.name)
    if not cursor.accept_symbol("("):
        return replace(partition, said=said)
    names = []
    while True:
        cursor.expect("SUBPARTITION")
        names.append(cursor.name())
        said += _said(cursor, names[-1])
        if not cursor.accept_symbol(","):
            cursor.expect_symbol(")")
            return replace(partition, subpartitions=tuple(names), said=said)


def _tuples(text: str, session: DdlSession, single: bool) -> Tuples:
    """Return the values of a partition as tuples, with `single` as one tuple; () if they are not understood."""
    cursor = Cursor(text, text, tokenize(text, session), session)
    found: list[Node] = []
    try:
        while not found or cursor.accept_symbol(","):
            most = cursor.accept("MAXVALUE")
            found.append(literal("MAXVALUE") if most else ExpressionReader(cursor).expression())
        cursor.finish()
    except DdlNotUnderstood:
        return ()
    nodes = [_in_time_zone(node, session.time_zone) for node in found]
    if single:
        return (tuple(printed(node) for node in nodes),)
    return tuple(tuple(map(printed, node.args if node.kind == "row" else (node,))) for node in nodes)


def _in_time_zone(node: Node, time_zone: str) -> Node:
    """Return a bound with UNIX_TIMESTAMP('...') replaced by the number that a server stores."""
    if node.kind == "call" and node.text == "unix_timestamp" and time_zone and node.args[0].kind == "string":
        try:
            moment = utc_of(datetime.fromisoformat(node.args[0].text), zone_of(time_zone))
        except ValueError:
            return node
        return literal(str(int(moment.replace(tzinfo=UTC).timestamp())))
    return replace(node, args=tuple(_in_time_zone(arg, time_zone) for arg in node.args))


def _said(cursor: Cursor, name: str) -> Attributes:
    """Parse the options of a partition; return them with its name, () if it has none but its engine and its files."""
    _skip_engine(cursor)
    options = Options()
    while (extended := parse_table_option(cursor, options)) is not None:
        options = extended
        _skip_engine(cursor)
    comment = [f"COMMENT = {quote_string(options.comment)}"] if options.comment else []
    clauses = [*comment, *attributes_sql(with_attributes((), options.attributes))]
    return ((name, " ".join(clauses)),) if clauses else ()


def _skip_engine(cursor: Cursor) -> None:
    while cursor.accept("STORAGE", "ENGINE") or cursor.accept("ENGINE") or cursor.accept("NODEGROUP"):
        cursor.accept_symbol("=")
        cursor.next()


def parse_tail(cursor: Cursor) -> PartitionSpec | None:
    """Parse partitioning or placement; None for placement, and for partitioning that is not MySQL's."""
    if not cursor.at("PARTITION"):
        skip_placement(cursor)
        return None
    place = cursor.place
    try:
        spec = parse_partitioning(cursor)
        if at_placement(cursor):
            skip_placement(cursor)
        return spec
    except DdlNotUnderstood:
        if cursor.session.validate:
            raise
        cursor.place = place
        skip_placement(cursor)
        return None


_BY_NAME = frozenset({"ANALYZE", "CHECK", "OPTIMIZE", "REBUILD", "REPAIR", "TRUNCATE", "DISCARD", "IMPORT", "DROP"})
_TAILS = ("TABLESPACE", "QUICK", "EXTENDED", "FAST", "MEDIUM", "CHANGED", "USE_FRM", "UPDATE", "FOR")


def at_partition_work(cursor: Cursor) -> bool:
    """Return whether an action on partitions comes next."""
    words = (*_BY_NAME, "ADD", "COALESCE", "EXCHANGE", "REORGANIZE")
    return cursor.word() in words and cursor.word(1) == "PARTITION"


def parse_partition_work(cursor: Cursor) -> PartitionWork:
    """Parse an action on partitions."""
    kind = cursor.next().text.upper()
    cursor.expect("PARTITION")
    if cursor.accept_one("NO_WRITE_TO_BINLOG", "LOCAL"):
        pass
    if kind in _BY_NAME:
        exists = kind == "DROP" and cursor.accept_condition("IF", "EXISTS")
        work = PartitionWork(kind, _names(cursor), conditional=exists)
        while cursor.word() in _TAILS:
            cursor.next()
        return work
    if kind == "COALESCE":
        return PartitionWork(kind, count=cursor.integer())
    if kind == "ADD":
        if cursor.accept("PARTITIONS"):
            return PartitionWork(kind, count=cursor.integer())
        missing = cursor.accept_condition("IF", "NOT", "EXISTS")
        return PartitionWork(kind, partitions=_definitions(cursor), conditional=missing)
    if kind == "EXCHANGE":
        name = cursor.name()
        cursor.expect("WITH", "TABLE")
        work = PartitionWork(kind, (name,), table=cursor.table_name())
        if cursor.accept_one("WITH", "WITHOUT"):
            cursor.expect("VALIDATION")
        return work
    if cursor.done:
        return PartitionWork(kind)
    names = _names(cursor)
    cursor.expect("INTO")
    return PartitionWork(kind, names, partitions=_definitions(cursor))


def _names(cursor: Cursor) -> tuple[str, ...]:
    if cursor.accept("ALL"):
        return ("ALL",)
    names = [cursor.name()]
    while cursor.accept_symbol(","):
        names.append(cursor.name())
    return tuple(names)


def partitioning_of(spec: PartitionSpec, primary_key: Sequence[str]) -> Partitioning:
    """Return the partitioning that a clause defines; KEY () means the primary key."""
    named = spec.partitions or tuple(Partition(f"p{i}") for i in range(spec.count or 1))
    sub = spec.sub
    listed = max((len(p.subpartitions) for p in named), default=0)
    return Partitioning(
        spec.method,
        spec.columns or tuple(primary_key),
        tuple(p.name for p in named),
        tuple(bound_of(p) for p in named),
        tuple(name for p in named for name in p.subpartitions),
        tuple(p.tuples for p in named),
        spec.expression,
        spec.linear,
        "" if sub is None else sub.expression,
        0 if sub is None else sub.count or listed or 1,
        sub is not None and sub.linear,
        tuple(said for p in named for said in p.said),
        spec.algorithm,
        0 if sub is None else sub.algorithm,
    )


def bound_of(partition: Partition) -> str:
    """Return the upper bound of a RANGE partition if it is an integer or MAXVALUE, which can be compared; else ""."""
    if partition.kind != "RANGE":
        return ""
    text = partition.values[0].strip()
    return text.upper() if re.fullmatch(r"-?\d{1,30}|MAXVALUE", text, re.IGNORECASE) else ""
