"""MySQL's column types: the one table of what each is, and the type of a column.

Whoever treats types differently asks for the family, or for a number of the table, so that a new type is a new row here
(and its forms in `binlog_merge.values.types`), and what knows nothing of a new family refuses it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from snapshot_store.errors import UnsupportedType


class Family(StrEnum):
    """What the values of a type are."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    BIT = "bit"
    YEAR = "year"
    DATE = "date"
    TIME = "time"
    MOMENT = "moment"
    """A date and time: DATETIME, TIMESTAMP."""
    TEXT = "text"
    BYTES = "bytes"
    ENUM = "enum"
    SET = "set"
    JSON = "json"
    GEOMETRY = "geometry"
    VECTOR = "vector"


NUMERIC: Final = frozenset({Family.INTEGER, Family.DECIMAL, Family.FLOAT, Family.YEAR})
"""Numbers with a signedness bit in a table map; YEAR has one, always set."""
DATES: Final = frozenset({Family.DATE, Family.MOMENT})
TEMPORAL: Final = frozenset({Family.DATE, Family.TIME, Family.MOMENT})
MEMBERS: Final = frozenset({Family.ENUM, Family.SET})
CHARACTERS: Final = frozenset({Family.TEXT, Family.ENUM, Family.SET})
"""What has a character set."""
OPAQUE: Final = frozenset({Family.BYTES, Family.GEOMETRY, Family.VECTOR})
"""What is bytes, and shown as hexadecimal digits."""
AS_BYTES: Final = {"char": "binary", "varchar": "varbinary"}
"""The types of bytes for those of characters with a length."""
AS_CHARACTERS: Final = {name: of for of, name in AS_BYTES.items()}


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """A type, as MySQL describes it; 0 where a number is not of this type, or depends on the column.

    `size`: bytes in the server's record format, without those of fractions of a second. `width`: characters of a value
    as the protocol announces it, with a sign. `digits`: NUMERIC_PRECISION. `counter`: how many bytes count the bytes of
    a TEXT or BLOB.
    """

    name: str
    family: Family
    size: int = 0
    width: int = 0
    digits: int = 0
    counter: int = 0

    @property
    def most_bytes(self) -> int:
        """Return how many bytes a value of a TEXT or BLOB has at most."""
        return (1 << 8 * self.counter) - 1

    @property
    def defaults_to_literal(self) -> bool:
        """Return whether a column of this type may have a literal as DEFAULT."""
        return not self.counter and self.family not in (Family.JSON, Family.VECTOR, Family.GEOMETRY)

    def shown_width(self, unsigned: bool) -> int:
        """Return the characters of an integer: unsigned ones need no sign, but BIGINT has a digit more instead."""
        return self.width - (unsigned and self.size < 8)


_F = Family
TYPES: Final = {
    facts.name: facts
    for facts in (
        TypeFacts("tinyint", _F.INTEGER, size=1, width=4, digits=3),
        TypeFacts("smallint", _F.INTEGER, size=2, width=6, digits=5),
        TypeFacts("mediumint", _F.INTEGER, size=3, width=9, digits=7),
        TypeFacts("int", _F.INTEGER, size=4, width=11, digits=10),
        TypeFacts("bigint", _F.INTEGER, size=8, width=20, digits=19),
        TypeFacts("decimal", _F.DECIMAL),
        TypeFacts("float", _F.FLOAT, size=4, width=12, digits=12),
        TypeFacts("double", _F.FLOAT, size=8, width=22, digits=22),
        TypeFacts("bit", _F.BIT),
        TypeFacts("year", _F.YEAR, size=1, width=4),
        TypeFacts("date", _F.DATE, size=3, width=10),
        TypeFacts("time", _F.TIME, size=3, width=10),
        TypeFacts("datetime", _F.MOMENT, size=5, width=19),
        TypeFacts("timestamp", _F.MOMENT, size=4, width=19),
        TypeFacts("char", _F.TEXT),
        TypeFacts("varchar", _F.TEXT),
        TypeFacts("tinytext", _F.TEXT, size=9, counter=1),
        TypeFacts("text", _F.TEXT, size=10, counter=2),
        TypeFacts("mediumtext", _F.TEXT, size=11, counter=3),
        TypeFacts("longtext", _F.TEXT, size=12, counter=4),
        TypeFacts("binary", _F.BYTES),
        TypeFacts("varbinary", _F.BYTES),
        TypeFacts("tinyblob", _F.BYTES, size=9, counter=1),
        TypeFacts("blob", _F.BYTES, size=10, counter=2),
        TypeFacts("mediumblob", _F.BYTES, size=11, counter=3),
        TypeFacts("longblob", _F.BYTES, size=12, counter=4),
        TypeFacts("enum", _F.ENUM),
        TypeFacts("set", _F.SET),
        TypeFacts("json", _F.JSON, size=12),
        TypeFacts("vector", _F.VECTOR, size=12),
        TypeFacts("geometry", _F.GEOMETRY, size=12),
        TypeFacts("point", _F.GEOMETRY, size=12),
        TypeFacts("linestring", _F.GEOMETRY, size=12),
        TypeFacts("polygon", _F.GEOMETRY, size=12),
        TypeFacts("multipoint", _F.GEOMETRY, size=12),
        TypeFacts("multilinestring", _F.GEOMETRY, size=12),
        TypeFacts("multipolygon", _F.GEOMETRY, size=12),
        TypeFacts("geomcollection", _F.GEOMETRY, size=12),
    )
}


def facts_of(name: str) -> TypeFacts:
    """Return the facts of a type. Raises UnsupportedType for one that the table does not have."""
    facts = TYPES.get(name)
    if facts is None:
        raise UnsupportedType(name)
    return facts


def lobs_of(family: Family) -> tuple[TypeFacts, ...]:
    """Return the TEXT or BLOB types, from the smallest on."""
    return tuple(facts for facts in TYPES.values() if facts.family == family and facts.counter)


def names_of(family: Family) -> Iterator[str]:
    """Yield the names of a family's types; those of integers, texts and bytes from the smallest on."""
    return (facts.name for facts in TYPES.values() if facts.family == family)


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A column's type with everything that decides its bytes in a row image.

    `length` is characters for char/varchar/text, bytes for binary/varbinary/blob, bits for bit, entries for vector.
    For the blob and text family `length` is None; the name (tinyblob … longtext) determines it.

    `display_width` is the number written after an integer type, as in int(11). Servers since 8.0.19 drop it (except for
    ZEROFILL and tinyint(1), which have it as `length`). It has no effect; only the lattice, which follows DM, uses it.
    """

    name: str
    length: int | None = None
    decimals: int | None = None
    fsp: int = 0
    unsigned: bool = False
    zerofill: bool = False
    charset: str | None = None
    collation: str | None = None
    members: tuple[str, ...] = ()
    srid: int | None = None
    display_width: int | None = field(default=None, compare=False)

    @property
    def facts(self) -> TypeFacts:
        """Return what MySQL says of the type, whatever the column. Raises UnsupportedType."""
        return facts_of(self.name)

    @property
    def family(self) -> Family:
        """Return what its values are. Raises UnsupportedType."""
        try:
            return TYPES[self.name].family  # without a call, since cells ask for it, too
        except KeyError:
            raise UnsupportedType(self.name) from None

    @property
    def limits(self) -> tuple[int, int]:
        """Return the least and the greatest number that an integer column holds."""
        bits = 8 * self.facts.size
        return (0, (1 << bits) - 1) if self.unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)

    def holds_numbers_of(self, other: "ColumnType") -> bool:
        """Return whether an integer or DECIMAL column holds each number of another one of its family."""
        if self.family is not other.family:
            return False
        if self.family is Family.INTEGER:
            (low, high), (lowest, highest) = other.limits, self.limits
            return lowest <= low and high <= highest
        after, was_after = self.decimals or 0, other.decimals or 0
        before, was_before = (self.length or 10) - after, (other.length or 10) - was_after
        signed = other.unsigned or not self.unsigned
        return self.family is Family.DECIMAL and after >= was_after and before >= was_before and signed

    @property
    def is_lob(self) -> bool:
        """Return whether it is a TEXT or BLOB of any size."""
        return self.facts.counter > 0

    @property
    def is_sized(self) -> bool:
        """Return whether it is a CHAR, VARCHAR, BINARY or VARBINARY, whose definition has a length."""
        return self.family in (Family.TEXT, Family.BYTES) and not self.is_lob

    @property
    def member_bytes(self) -> int:
        """Return the size in bytes of an ENUM's index or a SET's bits."""
        count = len(self.members)
        if self.family is Family.ENUM:
            return 1 if count < 256 else 2
        size = max(1, (count + 7) // 8)
        return size if size <= 4 else 8

    @property
    def defaults_to_literal(self) -> bool:
        """Return whether a column may have a literal as DEFAULT, and so shows DEFAULT NULL where it has none."""
        return self.facts.defaults_to_literal


def set_text(members: Iterable[str]) -> str:
    """Return the text of a SET with these members, in the order of the definition.

    There is a comma only behind text: after the empty member alone there is none (`Field_set::val_str`).
    """
    text = ""
    for member in members:
        text += f",{member}" if text else member
    return text
