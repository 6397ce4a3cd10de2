"""The type of a column: everything that decides its bytes in a row image."""

from dataclasses import dataclass, field

_SPATIAL = ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon")
_WITHOUT_NULL_DEFAULT = ("blob", "text", "json", "vector", "geomcollection", *_SPATIAL)


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
    def defaults_to_literal(self) -> bool:
        """Return whether a column may have a literal as DEFAULT, and so shows DEFAULT NULL where it has none."""
        return not self.name.endswith(_WITHOUT_NULL_DEFAULT)
