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

    `hint` is the comment that the compute node puts before the statement; it holds the sequence, and the server id of
    a client that wants to know its own changes again.
    """

    schema: str
    name: str
    table: Table
    before: Values | None
    after: Values | None
    sequence: int = 1
    hint: str = ""
    server: int | None = None

    @property
    def kind(self) -> str:
        return "insert" if self.before is None else "delete" if self.after is None else "update"


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
    writes: tuple[Write, ...]


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
