"""Resolving what a statement leaves open: character sets, type sizes and defaults.

Sources: MySQL 9.7 refman, "Column Character Set and Collation" and "The BLOB and TEXT Types"; each rule is compared
with a real server in tests/snapshot_store/ddl/test_ddl_mysql.py.
"""

from dataclasses import dataclass, replace

from snapshot_store.ddl.specs import ColumnSpec, Options, Value
from snapshot_store.errors import DdlNotUnderstood, DdlRejected, shorten
from snapshot_store.model import Column, Default, Schema
from snapshot_store.mysql.column_type import AS_BYTES, CHARACTERS, ColumnType, Family, lobs_of
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.mysql.sql.types import TypeSpec
from snapshot_store.mysql.text.charsets import (
    binary_collation,
    canonical_charset,
    canonical_collation,
    charset_named_by,
    default_collation,
    is_collation,
    max_bytes,
)
from snapshot_store.mysql.text.codecs import decoded, fits, mistaken, python_codec, squeezed
from snapshot_store.mysql.values.literals import literal_bytes, stored_text
from snapshot_store.mysql.values.times import in_utc

Charset = tuple[str, str]
"""A character set and one of its collations."""

_LONGEST_STRING = 65535


@dataclass(frozen=True, slots=True)
class Context:
    """The statement, its session and its default database, which resolving depends on."""

    sql: str
    session: DdlSession
    default_schema: str | None

    def error(self, reason: str) -> DdlNotUnderstood:
        """Return an error about the whole statement."""
        return DdlNotUnderstood(self.sql, reason)

    def limit(self, kept: bool, reason: str) -> None:
        """Raise DdlRejected unless `kept`, if the session has `validate`."""
        if not kept and self.session.validate:
            raise DdlRejected(f"{reason}; statement: {shorten(self.sql)}")


def server_charset(context: Context) -> Charset:
    """Return the character set of a schema that is created without one."""
    session = context.session
    return (session.charset_server, session.collation_server)


def default_conversion(session: DdlSession, database: Schema | None) -> Charset:
    """Return the character set that CONVERT TO CHARACTER SET DEFAULT means: that of the session's database, wherever
    the table is; the server's if there is none.
    """
    if session.collation_database:
        return (charset_named_by(session.collation_database), session.collation_database)
    if database is None:
        return (session.charset_server, session.collation_server)
    return (database.charset, database.collation)


def resolve_options(context: Context, options: Options, current: Charset) -> Charset:
    """Return the character set that options choose, or `current` if they name none."""
    if options.charset is None and options.collation is None:
        return current
    return choose_charset(context, options.charset, options.collation, current)


def choose_charset(
    context: Context, charset: str | None, collation: str | None, inherited: Charset, binary: bool = False
) -> Charset:
    """Return the character set and collation chosen by CHARACTER SET, COLLATE and BINARY, each optional."""
    chosen = None
    if charset is not None:
        chosen = canonical_charset(charset)
        if chosen is None:
            raise context.error(f"unknown character set {charset!r}")
    if collation is not None:
        known = canonical_collation(collation)
        if known is None or (chosen is not None and charset_named_by(known) != chosen):
            raise context.error(f"collation {collation!r} does not belong to character set {charset or 'of any name'}")
        context.limit(is_collation(known), f"unknown collation {collation}")
        return (charset_named_by(known), known)
    if chosen is None:
        return (inherited[0], binary_collation(inherited[0])) if binary else inherited
    return (chosen, binary_collation(chosen) if binary else _default_collation(chosen, context.session))


def _default_collation(charset: str, session: DdlSession) -> str:
    return session.default_collation_for_utf8mb4 if charset == "utf8mb4" else default_collation(charset)


def resolve_type(context: Context, spec: TypeSpec, table_charset: Charset) -> ColumnType:
    """Return the type of a column in a table with this character set."""
    type = spec.type
    if type.name == "varbinary" and not context.session.strict:
        return _grown(type, Family.BYTES, type.length or 0)
    if type.family not in CHARACTERS:
        if spec.characters is not None:
            type = replace(type, name=lob_name(Family.BYTES, spec.characters))
        return type
    charset, collation = choose_charset(context, spec.charset, spec.collation, table_charset, spec.binary)
    if spec.characters is not None:
        type = replace(type, name=lob_name(Family.TEXT, spec.characters * max_bytes(charset)))
    if type.name == "varchar" and not context.session.strict:
        type = _grown(type, Family.TEXT, (type.length or 0) * max_bytes(charset))
    return with_charset(type, (charset, collation))


def _grown(type: ColumnType, family: Family, size: int) -> ColumnType:
    """Return the TEXT or BLOB type for a string that is too long, as a server without strict mode chooses it."""
    return type if size <= _LONGEST_STRING else replace(type, name=lob_name(family, size), length=None)


def with_charset(type: ColumnType, charset: Charset) -> ColumnType:
    """Return a string type with a character set; `binary` turns strings into byte strings."""
    if charset[0] == "binary" and type.family is Family.TEXT:
        name = lob_name(Family.BYTES, type.facts.most_bytes) if type.is_lob else AS_BYTES[type.name]
        return replace(type, name=name, charset=None, collation=None)
    # MySQL removes trailing blanks from members of ENUM (refman, "The ENUM Type") and SET, but not from byte strings.
    cut = "" if charset[0] == "binary" else " "
    members = tuple(squeezed(member, charset[0]).rstrip(cut) for member in type.members)
    return replace(type, charset=charset[0], collation=charset[1], members=members)


def converted(type: ColumnType, charset: Charset) -> ColumnType:
    """Return a type after CONVERT TO CHARACTER SET: TEXT types grow until every old value fits, and never shrink."""
    if type.family not in CHARACTERS or type.charset in (None, "binary"):
        return type
    if type.is_lob:
        most = type.facts.most_bytes
        size = most // max_bytes(type.charset or "binary") * max_bytes(charset[0])
        type = replace(type, name=lob_name(Family.TEXT, max(size, most)))
    type = replace(type, members=tuple(mistaken(member, type.charset, charset[0]) for member in type.members))
    return with_charset(type, charset)


def converted_column(context: Context, column: Column, charset: Charset) -> Column:
    """Return a column after CONVERT TO CHARACTER SET."""
    type = converted(column.type, charset)
    if column.default is not None and column.default.kind == "literal" and type.charset is not None:
        context.limit(fits(column.default.text, type.charset), f"the default of {column.name} is not in {charset[0]}")
        kept = column.type.members == type.members or column.default.text.isascii()
        context.limit(kept, f"the default of {column.name} is no member any more")
    return replace(column, type=type)


def lob_name(family: Family, size: int) -> str:
    """Return the smallest type of a family that holds `size` bytes."""
    lobs = lobs_of(family)
    return next((facts.name for facts in lobs if size <= facts.most_bytes), lobs[-1].name)


def resolve_column(context: Context, spec: ColumnSpec, table_charset: Charset) -> Column:
    """Return the column that a definition creates in a table with this character set, ignoring its keys."""
    type = resolve_type(context, spec.type, table_charset)
    nullable = spec.nullable
    if nullable is None:
        nullable = type.name != "timestamp" or context.session.explicit_defaults_for_timestamp
    # An AUTO_INCREMENT column is never NULL, whatever was written.
    nullable = nullable and not spec.auto_increment
    default = spec.default
    if default is None and nullable and spec.generated is None:
        default = Default("null")
    return Column(
        name=spec.name,
        type=type,
        nullable=nullable,
        default=resolve_default(context, default, type, spec.name),
        on_update_now=spec.on_update_now,
        auto_increment=spec.auto_increment,
        generated=spec.generated,
        invisible=spec.invisible,
        comment=spec.comment,
        attributes=spec.attributes,
    )


def resolve_default(context: Context, default: Default | Value | None, type: ColumnType, name: str) -> Default | None:
    """Return a default with its literal spelt for its column's type, as `model.Default` describes it."""
    if not isinstance(default, Value):
        return default
    try:
        default = _characters(default, type, context.session.charset_connection)
        text = stored_text(default.kind, default.text, type, context.session)
        return Default("literal", in_utc(text, context.session.time_zone) if type.name == "timestamp" else text)
    except ValueError as error:
        if context.session.validate:
            raise DdlRejected(f"invalid default for column {name}: {error}") from None
        return Default("literal", default.text)


def _sent(text: str, connection: str) -> bytes:
    """Return the bytes of a string as the connection sent it, also those that are none of its characters."""
    return text.encode(python_codec(connection) or "utf-8", "surrogateescape")


def _characters(value: Value, type: ColumnType, connection: str) -> Value:
    """Return a literal for a text column, decoded. Raises ValueError for characters its character set lacks."""
    if type.charset is None or value.kind == "number":
        return value
    if value.kind == "bits":
        value = Value("string", decoded(literal_bytes(value.text), value.charset or type.charset))
    elif value.charset not in (None, "binary", connection) and not value.text.isascii():
        # The connection sent these bytes, and the introducer says that they are in another character set.
        value = Value("string", decoded(_sent(value.text, connection), value.charset))
    if not fits(value.text, type.charset):
        raise ValueError(f"character set {type.charset} lacks a character of {value.text[:40]!r}")
    return value
