"""The keys by which rows conflict: primary keys, unique keys and foreign keys, as hashes.

    before (7, 'a@x', NULL)  ─┐   ("shop", "users", ("id",)) 7          the same row
    after  (7, 'b@x', 31)    ─┘   ("shop", "users", ("mail",)) 'A@X'    who had the address
                                  ("shop", "users", ("mail",)) 'B@X'    who has it now
                                  ("shop", "teams", ("id",)) 31         its parent

Two rows that a server might take for equal, or for parent and child, share a key. If the bytes do not decide that (an
unknown collation, text beyond ASCII in a case-insensitive one, a cell that the image does not hold), the row claims its
whole table. So there may be too many conflicts, never too few. NULL equals nothing in a unique key.

Sources: MySQL manual 12.10 (collations, PAD SPACE), 15.1.20.5 (FOREIGN KEY), 19.1.6.4 (binlog_row_image).
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, TypeVar

from binlog_merge.binlog.rows import ABSENT, Row, RowImage
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.values.key_values import KeyPart, Unclear, folded

TableName = tuple[str, str]
"""(schema, table) in lower case: servers differ in whether table names are case-sensitive."""


def table_name(schema: str, table: str) -> TableName:
    """Return a table's name in the form used for conflicts."""
    return schema.lower(), table.lower()


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a table, or of its parent; `name` is (schema, table, columns) of the table that owns the key."""

    name: tuple[str, str, tuple[str, ...]]
    parts: tuple[KeyPart, ...]

    @property
    def owner(self) -> TableName:
        """Return the table whose key it is."""
        return self.name[:2]


@dataclass(frozen=True, slots=True)
class TableKeys:
    """The keys by which rows of a table conflict. `columns` is the number of columns at the target.

    `keys` are primary and unique keys, keys that children refer to, and keys of parents that the table refers to.
    `family` names the tables between which the server changes rows on its own (CASCADE, SET NULL); they are claimed
    together. `opaque`: there is no key, or one that is not in row images (an expression); the table is claimed whole.
    """

    columns: int
    keys: tuple[Key, ...] = ()
    family: TableName | None = None
    opaque: bool = False


OPAQUE: Final = TableKeys(0, opaque=True)
"""A table whose keys are not known."""


@dataclass(slots=True)
class Claims:
    """What a transaction touches: `tables` are all it touches, `whole` those claimed whole, `keys` the keys' hashes."""

    tables: set[TableName] = field(default_factory=set)
    whole: set[TableName] = field(default_factory=set)
    keys: set[int] = field(default_factory=set)

    def take(self, table: TableMap, keys: TableKeys, rows: Iterable[Row]) -> None:
        """Add the claims of a table's rows."""
        name = table_name(table.schema, table.table)
        fits = keys.columns == len(table.types)
        shapes = keys.keys if fits else ()
        self.tables.update((name, *(key.owner for key in shapes)))
        if keys.opaque or not fits:
            self.whole.add(name)
        if keys.family is not None:
            self.tables.add(keys.family)
            self.whole.add(keys.family)
        for before, after in rows:
            useful = [key for key in shapes if key.owner not in self.whole]
            if not useful:
                return
            self._take_row(table, useful, before, after)

    def _take_row(self, table: TableMap, keys: Sequence[Key], before: RowImage | None, after: RowImage | None) -> None:
        own, named = table_name(table.schema, table.table), False
        for key in keys:
            try:
                hashes = _of_key(table, key, before, after)
            except Unclear:
                self.whole.add(key.owner)
            else:
                self.keys.update(hashes)
                named |= bool(hashes) and key.owner == own
        if not named:
            self.whole.add(own)


class _Nothing(Enum):
    NULL = 0
    ABSENT = 1


def _of_key(table: TableMap, key: Key, before: RowImage | None, after: RowImage | None) -> list[int]:
    if before is None or after is None:
        image = after if before is None else before
        assert image is not None
        value = _value(table, key, image)
        if value is _Nothing.ABSENT:
            raise Unclear  # a default, or a value that the image does not hold
        return [] if value is _Nothing.NULL else [hash((key.name, value))]
    old = _value(table, key, before)
    if all(after[part.column] is ABSENT for part in key.parts):
        # The key does not change: if its value is not known, it cannot conflict with a new value.
        return [] if isinstance(old, _Nothing) else [hash((key.name, old))]
    merged = tuple(before[i] if cell is ABSENT else cell for i, cell in enumerate(after))
    new = _value(table, key, merged)
    if _Nothing.ABSENT in (old, new):
        raise Unclear
    return [hash((key.name, value)) for value in (old, new) if value is not _Nothing.NULL]


def _value(table: TableMap, key: Key, image: RowImage) -> tuple[bytes, ...] | _Nothing:
    cells = [image[part.column] for part in key.parts]
    if any(cell is ABSENT for cell in cells):
        return _Nothing.ABSENT
    if any(cell is None for cell in cells):
        return _Nothing.NULL
    return tuple(folded(table, part, cell) for part, cell in zip(key.parts, cells, strict=True))


Owner = TypeVar("Owner", bound=Hashable)


class ClaimTable(Generic[Owner]):
    """The claims of all transactions in flight. Only the last owner of a key is kept: it waits for those before it."""

    def __init__(self) -> None:
        self._keys: dict[int, Owner] = {}
        self._whole: dict[TableName, set[Owner]] = {}
        self._touching: dict[TableName, set[Owner]] = {}
        self._claims: dict[Owner, list[Claims]] = {}

    def owners(self, claims: Claims) -> set[Owner]:
        """Return the owners of claims with which these may conflict."""
        keys = self._keys
        found = {keys[key] for key in claims.keys if key in keys}
        for name in claims.tables:
            found |= self._whole.get(name, set())
        for name in claims.whole:
            found |= self._touching.get(name, set())
        return found

    def take(self, owner: Owner, claims: Claims) -> None:
        """Add claims to those of an owner."""
        self._claims.setdefault(owner, []).append(claims)
        self._keys.update(dict.fromkeys(claims.keys, owner))
        for name in claims.whole:
            self._whole.setdefault(name, set()).add(owner)
        for name in claims.tables:
            self._touching.setdefault(name, set()).add(owner)

    def release(self, owner: Owner) -> None:
        """Remove all claims of an owner."""
        for claims in self._claims.pop(owner, ()):
            for key in claims.keys:
                if self._keys.get(key) is owner:
                    del self._keys[key]
            for names, claimed in ((self._whole, claims.whole), (self._touching, claims.tables)):
                for name in claimed:
                    owners = names.get(name)
                    if owners is not None:
                        owners.discard(owner)
                        if not owners:
                            del names[name]

    def touched(self, name: TableName) -> bool:
        """Return whether anything of a table is claimed."""
        return name in self._touching

    def __len__(self) -> int:
        return len(self._claims)
