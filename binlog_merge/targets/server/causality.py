"""Conflicts between transactions in flight: what each has claimed, and which must wait for which.

    t1 users 7        ─ group 1
    t2 users 9        ─ group 2
    t3 users 7        ─ waits for group 1: the same key
    t4 users, whole   ─ waits for groups 1 and 2

An owner is the unit in which transactions are applied, a group; it holds its claims until it is released.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

from binlog_merge.targets.server.keys import Claims, TableName

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
