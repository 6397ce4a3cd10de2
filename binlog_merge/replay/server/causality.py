"""Who must wait for whom: transactions that are under way, and what each has claimed.

    t1 users 7        ─ group 1
    t2 users 9        ─ group 2
    t3 users 7        ─ waits for group 1: the same key
    t4 users, whole   ─ waits for groups 1 and 2

An owner is whatever transactions are carried out in; it holds its claims until it is released.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

from binlog_merge.replay.server.keys import Claims, TableName

Owner = TypeVar("Owner", bound=Hashable)


class ClaimTable(Generic[Owner]):
    """The claims of all that is under way. For each key the last owner is kept: it waits for those before itself."""

    def __init__(self) -> None:
        self._keys: dict[int, Owner] = {}
        self._whole: dict[TableName, set[Owner]] = {}
        self._touching: dict[TableName, set[Owner]] = {}
        self._claims: dict[Owner, list[Claims]] = {}

    def owners(self, claims: Claims) -> set[Owner]:
        """Return who holds something that these claims may collide with."""
        keys = self._keys
        found = {keys[key] for key in claims.keys if key in keys}
        for name in claims.tables:
            found |= self._whole.get(name, set())
        for name in claims.whole:
            found |= self._touching.get(name, set())
        return found

    def take(self, owner: Owner, claims: Claims) -> None:
        """Give an owner these claims, beside what it has."""
        self._claims.setdefault(owner, []).append(claims)
        self._keys.update(dict.fromkeys(claims.keys, owner))
        for name in claims.whole:
            self._whole.setdefault(name, set()).add(owner)
        for name in claims.tables:
            self._touching.setdefault(name, set()).add(owner)

    def release(self, owner: Owner) -> None:
        """Forget all claims of an owner."""
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
        """Return whether anyone has claimed something of a table."""
        return name in self._touching

    def __len__(self) -> int:
        return len(self._claims)
