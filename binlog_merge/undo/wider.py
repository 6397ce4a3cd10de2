"""When a column that a DDL has changed has each old value as it was, so that older rows can be undone after it.

    integers   more bytes, and unsigned ones as greater signed ones      ENUM, SET      members at the end
    DECIMAL    more digits before or after the point                     times          more digits of a second
    CHAR, VARCHAR, VARBINARY   longer                                    TEXT, BLOB     larger, or for (VAR)CHARs

Character set and collation must stay. FLOAT, BINARY and conversions between these kinds are left out: their values are
shown or compared otherwise in the new type. What a table's keys hold must have the same literal, too, since a row is
known by it.
"""

from typing import Final

from snapshot_store.model import Column
from snapshot_store.mysql.column_type import MEMBERS, ColumnType, Family

_MOST_VARCHAR: Final = 2
"""How many bytes count the bytes of a TEXT or BLOB that any VARCHAR or VARBINARY fits in."""


def has_values_of(new: Column, old: Column, keyed: bool) -> bool:
    """Return whether a column has each value of an older definition as it was; `keyed`: it is part of a unique key."""
    if new.generated or old.generated or new.auto_increment != old.auto_increment:
        return False
    if new.on_update_now and not old.on_update_now:
        return False  # what undoes an older UPDATE does not name the column, and the server would set it
    if old.nullable != new.nullable and (keyed or old.nullable):
        return False
    return new.type == old.type or _is_wider(new.type, old.type, keyed)


def _is_wider(new: ColumnType, old: ColumnType, keyed: bool) -> bool:
    if (new.charset, new.collation, new.zerofill) != (old.charset, old.collation, old.zerofill):
        return False
    if new.family is Family.INTEGER:
        return new.holds_numbers_of(old)
    if old.is_lob or new.is_lob:
        return _is_larger(new, old)
    if new.name != old.name:
        return False
    if new.family is Family.DECIMAL:
        return new.holds_numbers_of(old) and (new.decimals == old.decimals or not keyed)
    if new.family in MEMBERS:
        added = new.members[len(old.members) :]
        # An ENUM shows what is no member as an empty text, too.
        return new.members[: len(old.members)] == old.members and "" not in added
    if new.family in (Family.TIME, Family.MOMENT):
        return new.fsp >= old.fsp and not keyed
    return new.is_sized and new.name != "binary" and (new.length or 0) >= (old.length or 0)


def _is_larger(new: ColumnType, old: ColumnType) -> bool:
    """Return whether a TEXT or BLOB has room for each value of a type of texts, or of bytes."""
    if new.family is not old.family or not new.is_lob or old.name in ("char", "binary"):
        return False
    return new.facts.counter >= (old.facts.counter or _MOST_VARCHAR)
