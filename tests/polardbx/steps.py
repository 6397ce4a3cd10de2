"""What happens on data nodes, one step after the other, as values: packed as binlogs, or run on real servers.

A step is what one session does on one node at one moment. The order of a node's steps is the order of its binlog.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tests.polardbx.splice import Stamp
from tests.simulator.columns import Table, Value

Values = Mapping[str, Value]


@dataclass(frozen=True)
class Xid:
    """A branch's name. Format 1 is a plain one, 2 of a recovery, 3 of an archive transaction, 4 one to be ignored."""

    gtrid: bytes
    bqual: bytes
    format_id: int = 1

    @property
    def text(self) -> str:
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"


@dataclass(frozen=True)
class Write:
    """One row of one physical table, written by the `sequence`-th statement of its transaction.

    `hint` is the comment that the compute node puts before the statement; it holds the sequence and its part `sub`,
    and the server id of a client that wants to know its own changes again. `image` is the node's binlog_row_image.
    """

    schema: str
    name: str
    table: Table
    before: Values | None
    after: Values | None
    sequence: int = 1
    hint: str = ""
    server: int | None = None
    sub: int = 0
    image: str = "FULL"

    @property
    def kind(self) -> str:
        return "insert" if self.before is None else "delete" if self.after is None else "update"

    @property
    def images(self) -> tuple[Values | None, Values | None]:
        """Return both images with the columns that the binlog has of them."""
        blobs = {c.name for c in self.table.columns if c.is_blob}
        if self.image == "FULL" or self.kind == "insert":
            return self.before, self.after
        assert self.before is not None
        if self.image == "NOBLOB":
            before = {name: value for name, value in self.before.items() if name not in blobs}
            return before, self.after and {
                name: value for name, value in self.after.items() if name in before or value != self.before[name]
            }
        key = self.table.columns[0].name
        changed = self.after and {n: v for n, v in self.after.items() if v != self.before[n] and n != key}
        if self.after and not changed:  # a server writes nothing then
            changed = dict(list(self.after.items())[-1:])
        return {key: self.before[key]}, changed


@dataclass(frozen=True)
class Step:
    node: str


@dataclass(frozen=True)
class Prepare(Step):
    xid: Xid
    writes: tuple[Write, ...]


@dataclass(frozen=True)
class Commit(Step):
    xid: Xid


@dataclass(frozen=True)
class Rollback(Step):
    xid: Xid


@dataclass(frozen=True)
class OnePhase(Step):
    xid: Xid
    writes: tuple[Write, ...]


@dataclass(frozen=True)
class Local(Step):
    """A transaction of a node alone; `tso` is one that the node gives it, where its dialect has room for it."""

    writes: tuple[Write, ...]
    tso: int | None = None


@dataclass(frozen=True)
class Ddl(Step):
    schema: str
    sql: str


@dataclass(frozen=True)
class Rotate(Step):
    pass


def counted(steps: Iterable[Step], stamps: Mapping[bytes, Stamp], node: str) -> dict[bytes, Stamp]:
    """Return the stamps of transactions as a node has them: with the numbers of all branches and of its own."""
    everywhere: Counter[bytes] = Counter()
    here: Counter[bytes] = Counter()
    for step in steps:
        if isinstance(step, Prepare):
            everywhere[step.xid.gtrid] += 1
            here[step.xid.gtrid] += step.node == node
    return {g: replace(stamp, branches=(everywhere[g], here[g])) for g, stamp in stamps.items()}
