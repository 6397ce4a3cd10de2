"""What copies of a table have not yet done alike: the changes that one node has made and another has not.

    shard-1 (comes out)   +a  +b      +c
    shard-2                   -a  -b           c is open: shard-2 lags, or never makes it

Each change of a row is known by a digest of its values. Those that both have made cancel out, in whichever order they
come, so what is kept grows with what differs, and only up to a bound.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from snapshot_store.tso import OrderKey, tso_millis

MOST_OPEN: Final = 5000
"""The open changes kept of one table and node; with more it is known to differ, and no longer compared."""
PATIENCE_MS: Final = 600_000
"""How far behind the merged log a change may be before it is told that another node has not made it."""
_MOST_NAMED: Final = 3


class Name(NamedTuple):
    """The logical table of a copy, the node whose copy comes out, and the one that is compared with it."""

    schema: str
    table: str
    source: str
    node: str


@dataclass(frozen=True, slots=True)
class Open:
    """A change that one side has made `count` times more often: the node that comes out if positive, else the other.

    `key` is where it was first, `what` says which it is; `told`: there was a warning of it.
    """

    count: int
    key: OrderKey
    what: str
    told: bool = False


@dataclass
class Ledger:
    """The open changes of each copy, by their digests. `differ` are copies that are known to differ.

    `until` are the keys below which the changes of each node are counted.
    """

    open: dict[Name, dict[str, Open]] = field(default_factory=dict)
    differ: set[Name] = field(default_factory=set)
    until: dict[str, OrderKey] = field(default_factory=dict)

    def take(self, name: Name, digest: str, step: int, key: OrderKey, what: str) -> None:
        """Count a change: `step` is 1 for the node that comes out, -1 for the other."""
        if name in self.differ:
            return
        changes = self.open.setdefault(name, {})
        known = changes.pop(digest, Open(0, key, what))
        if known.count + step:
            changes[digest] = replace(known, count=known.count + step)
        if len(changes) > MOST_OPEN:
            self.differ.add(name)

    def overdue(self, at: OrderKey | None) -> Iterator[tuple[Name, list[Open]]]:
        """Yield the copies with changes that are to be told of at a key, and count them as told; None: all."""
        for name, changes in sorted(self.open.items()):
            late = {
                digest: one
                for digest, one in changes.items()
                if not one.told and (at is None or _passed(one.key, at) or name in self.differ)
            }
            if late:
                yield name, sorted(late.values(), key=lambda one: one.key)
                changes.update({digest: replace(one, told=True) for digest, one in late.items()})

    def to_json(self) -> str:
        """Return it as text."""
        changes = [
            [*name, [[digest, one.count, one.key.text(), one.what, one.told] for digest, one in sorted(found.items())]]
            for name, found in sorted(self.open.items())
            if found
        ]
        until = {node: key.text() for node, key in sorted(self.until.items())}
        return json.dumps({"open": changes, "differ": sorted(self.differ), "until": until})

    @classmethod
    def from_json(cls, text: str) -> "Ledger":
        """Return what `to_json` wrote."""
        values = json.loads(text)
        changes = {
            Name(*name): {
                digest: Open(count, OrderKey.parse(key), what, told) for digest, count, key, what, told in found
            }
            for *name, found in values["open"]
        }
        until = {node: OrderKey.parse(key) for node, key in values["until"].items()}
        return cls(changes, {Name(*name) for name in values["differ"]}, until)


def _passed(key: OrderKey, at: OrderKey) -> bool:
    return tso_millis(at.commit_tso) - tso_millis(key.commit_tso) > PATIENCE_MS


def difference(name: Name, changes: list[Open], differ: bool) -> str:
    """Return what two copies have not done alike, as a sentence."""
    sides = []
    for has, lacks, sign in ((name.source, name.node, 1), (name.node, name.source, -1)):
        found = [one for one in changes if one.count * sign > 0]
        if found:
            named = ", ".join(f"{one.what} at {one.key.text()}" for one in found[:_MOST_NAMED])
            more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
            sides.append(f"{lacks} has not made what {has} has: {named}{more}")
    bound = ", and is no longer compared" if differ else ""
    table = f"{name.schema}.{name.table}"
    return (
        f"the copy of {table} on {name.node} is not that of {name.source}, which comes out{bound}: {'; '.join(sides)}"
    )


def texts(ledger: Ledger, at: OrderKey | None) -> list[str]:
    """Return what is to be told of at a key, None: of everything."""
    return [difference(name, changes, name in ledger.differ) for name, changes in ledger.overdue(at)]
