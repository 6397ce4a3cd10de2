"""Parsing keys, foreign keys and checks in CREATE TABLE, ALTER TABLE ADD, and CREATE INDEX."""

from dataclasses import replace

from snapshot_store.ddl.parse.options import at_private_index, skip_index_place, skip_index_tail
from snapshot_store.ddl.specs import CheckSpec, Constraint, ForeignKeySpec, KeySpec
from snapshot_store.model import IndexPart, with_attributes
from snapshot_store.mysql.expr.read import canonical
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.names import quote_name, quote_string


def at_constraint(cursor: Cursor) -> bool:
    """Return whether a constraint or key begins here rather than a column; its first words are reserved in MySQL."""
    return at_private_index(cursor) or cursor.word() in (
        "CONSTRAINT",
        "PRIMARY",
        "UNIQUE",
        "FOREIGN",
        "CHECK",
        "KEY",
        "INDEX",
        "FULLTEXT",
        "SPATIAL",
    )


def parse_constraint(cursor: Cursor) -> Constraint:
    """Parse a key, foreign key or check."""
    symbol = None
    if cursor.accept("CONSTRAINT"):
        cursor.accept_condition("IF", "NOT", "EXISTS")
        if cursor.word() not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
            symbol = cursor.name()
    if cursor.at("CHECK"):
        return parse_check(cursor, symbol)
    if cursor.accept("FOREIGN", "KEY"):
        cursor.accept_condition("IF", "NOT", "EXISTS")
        index_name = None if cursor.at_symbol("(") else cursor.name()
        return parse_references(cursor, symbol, index_name, cursor.names())
    if cursor.accept("PRIMARY", "KEY"):
        return replace(_key(cursor, "primary"), name="PRIMARY")
    skip_index_place(cursor)
    if cursor.accept("UNIQUE"):
        skip_index_place(cursor)
        cursor.accept_one("INDEX", "KEY")
        key = _key(cursor, "unique")
        return replace(key, name=key.name or symbol)
    if word := cursor.accept_one("FULLTEXT", "SPATIAL"):
        cursor.accept_one("INDEX", "KEY")
        return _key(cursor, word.lower())
    if not cursor.accept_one("INDEX", "KEY"):
        raise cursor.error("expected a constraint")
    return _key(cursor, "index")


def _key(cursor: Cursor, kind: str) -> KeySpec:
    """Parse an optional name, the key parts and the options."""
    cursor.accept_condition("IF", "NOT", "EXISTS")
    name = None if cursor.at_symbol("(") or cursor.at("USING") else cursor.name()
    algorithm = parse_algorithm(cursor)
    return parse_key_body(cursor, KeySpec(kind, name, (), algorithm))


def parse_algorithm(cursor: Cursor) -> str | None:
    """Parse USING BTREE or HASH, if it comes next."""
    if not cursor.accept_one("USING", "TYPE"):
        return None
    word = cursor.accept_one("BTREE", "HASH", "RTREE")
    if word is None:
        raise cursor.error("expected BTREE or HASH")
    return word.lower()


def parse_key_body(cursor: Cursor, key: KeySpec) -> KeySpec:
    """Parse the key parts in parentheses and the options after them."""
    cursor.expect_symbol("(")
    ordered = key.kind not in ("fulltext", "spatial")
    parts = [_part(cursor, ordered)]
    while cursor.accept_symbol(","):
        parts.append(_part(cursor, ordered))
    cursor.expect_symbol(")")
    key = replace(key, parts=tuple(parts))
    while (extended := _option(cursor, key)) is not None:
        key = extended
    skip_index_tail(cursor)
    return key


def _part(cursor: Cursor, ordered: bool) -> IndexPart:
    if cursor.at_symbol("("):
        expression = canonical(cursor.parenthesized(), cursor.session)
        return IndexPart(None, None, expression=expression, descending=_descending(cursor))
    column, length = cursor.name(), None
    if cursor.accept_symbol("("):
        length = cursor.integer()
        cursor.expect_symbol(")")
    cursor.limit(ordered or cursor.word() not in ("ASC", "DESC"), "a fulltext or spatial key has no order")
    return IndexPart(column, length, _descending(cursor))


def _descending(cursor: Cursor) -> bool:
    return cursor.accept_one("ASC", "DESC") == "DESC"


def _option(cursor: Cursor, key: KeySpec) -> KeySpec | None:
    if cursor.at("USING") or cursor.at("TYPE"):
        return replace(key, algorithm=parse_algorithm(cursor))
    if word := cursor.accept_one("VISIBLE", "INVISIBLE"):
        return replace(key, visible=word == "VISIBLE")
    if cursor.accept("WITH", "PARSER"):
        return _said(key, "WITH PARSER", quote_name(cursor.name()))
    if cursor.accept("COMMENT"):
        return _said(key, "COMMENT", quote_string(cursor.string()))
    if word := cursor.accept_one("KEY_BLOCK_SIZE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"):
        cursor.accept_symbol("=")
        value = str(cursor.integer()) if word == "KEY_BLOCK_SIZE" else quote_string(cursor.string())
        return _said(key, word, value)
    return None


def _said(key: KeySpec, name: str, value: str) -> KeySpec:
    return replace(key, attributes=with_attributes(key.attributes, ((name, value),)))


def parse_check(cursor: Cursor, name: str | None) -> CheckSpec:
    """Parse CHECK (expression) [[NOT] ENFORCED]."""
    cursor.expect("CHECK")
    expression = canonical(cursor.parenthesized(), cursor.session)
    if cursor.accept("NOT", "ENFORCED"):
        return CheckSpec(name, expression, enforced=False)
    cursor.accept("ENFORCED")
    return CheckSpec(name, expression)


def parse_references(
    cursor: Cursor, name: str | None, index_name: str | None, columns: tuple[str, ...]
) -> ForeignKeySpec:
    """Parse REFERENCES table [(columns)] [MATCH …] [ON DELETE …] [ON UPDATE …]."""
    cursor.expect("REFERENCES")
    table = cursor.table_name()
    referenced = cursor.names() if cursor.at_symbol("(") else ()
    if cursor.accept("MATCH") and not cursor.accept_one("FULL", "PARTIAL", "SIMPLE"):
        raise cursor.error("expected FULL, PARTIAL or SIMPLE")
    actions = {}
    while cursor.at("ON", "DELETE") or cursor.at("ON", "UPDATE"):
        cursor.next()
        event = cursor.next().text.upper()
        actions[event] = _reaction(cursor)
    on = (actions.get("DELETE", ""), actions.get("UPDATE", ""))
    return ForeignKeySpec(name, index_name, columns, table, referenced, *on)


def _reaction(cursor: Cursor) -> str:
    for words in (("RESTRICT",), ("CASCADE",), ("SET", "NULL"), ("NO", "ACTION"), ("SET", "DEFAULT")):
        if cursor.accept(*words):
            return " ".join(words)
    raise cursor.error("expected what to do ON DELETE or ON UPDATE")
