"""Distributed transactions on their way, what has committed, and the tables of the cluster's own."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulator.columns import Column, Table
from tests.simulator.keys import Keys
from tests.simulator.nodes import Node
from tests.simulator.rows import RowChange, Shard
from tests.simulator.wire import Event

Key = tuple[int, int, int, int]

MARKER = Table(
    (
        Column("ID", "bigint", nullable=False),
        Column("JOB_ID", "bigint"),
        Column("SQL_KIND", "varchar", 50, nullable=False),
        Column("SCHEMA_NAME", "varchar", 200, nullable=False),
        Column("TABLE_NAME", "varchar", 200),
        Column("GMT_CREATED", "datetime", nullable=False),
        Column("DDL_SQL", "mediumtext", nullable=False),
        Column("META_INFO", "mediumtext"),
        Column("VISIBILITY", "bigint", nullable=False),
        Column("EXT", "text"),
    )
)
COMMIT_ROWS = Table((Column("gtrid", "varbinary", 64, nullable=False), Column("tso", "bigint", nullable=False)))
HEARTBEAT = Table((Column("id", "bigint", nullable=False), Column("at", "varchar", 40)))


@dataclass(frozen=True)
class Knobs:
    """What is decided once for a whole history."""

    carrier: str
    realistic: bool  # TSOs that carry time
    large: int  # the longest text
    steps: int
    max_size: int
    ddl: int  # how often there is a step of a DDL; a local transaction weighs 20


@dataclass
class Branch:
    node: Node
    bqual: bytes
    keys: Keys
    changes: list[RowChange] = field(default_factory=list)
    shards: list[tuple[Shard, Table]] = field(default_factory=list)
    state: str = "new"  # new, prepared, ended


@dataclass
class Distributed:
    """An XA transaction on its way. `events` makes the rows of a branch; by default they are made up."""

    gtrid: bytes
    branches: list[Branch]
    events: Callable[[Branch], list[Event]]
    tso: int = 0
    told: set[str] = field(default_factory=set)  # nodes with the commit row
    fate: str = "commit"  # commit, rollback, inherit
    announces: bool = False
    done: Callable[[], None] = lambda: None

    @property
    def transaction(self) -> int:
        return transaction_id(self.gtrid)


def transaction_id(gtrid: bytes) -> int:
    """Return the number a gtrid stands for: PolarDB-X's own, else FNV-1a."""
    if gtrid.startswith(b"drds-"):
        return int(gtrid[5 : gtrid.index(b"@")], 16) & (2**63 - 1)
    value = 14695981039346656037
    for byte in gtrid:
        value = ((value ^ byte) * 1099511628211) & (2**64 - 1)
    return value & (2**63 - 1)


@dataclass(frozen=True)
class Committed:
    """One committed branch, or, with `sql`, one logical DDL."""

    key: Key
    place: tuple[int, int, int]  # node number, file, offset: the order of branches in one transaction
    source_us: int
    changes: tuple[RowChange, ...] = ()
    sql: str | None = None
