"""What is decided once for a simulated history."""

from dataclasses import dataclass

from tests.polardbx.splice import Dialect


@dataclass(frozen=True)
class Knobs:
    """What is decided once for a history. A weight is against 20 for a local transaction."""

    steps: int = 120
    nodes: int = 2
    ddl: int = 12
    hints: bool = True  # every statement has its trace id
    scale: bool = True  # nodes may join and leave
    extras: bool = False  # tables of the machinery, shadow tables, sync points, long names: what a plain cluster lacks
    log: bool = False  # commit TSOs stand in the transaction log
    images: tuple[str, ...] = ("FULL",)  # what nodes choose binlog_row_image from
    keyless: bool = False  # some tables have no key of their own
    row_ids: bool = False  # some of these get theirs from the data node
    windows: bool = True  # nodes have transactions of their own while a sync point is under way
    dialects: tuple[Dialect, ...] = (Dialect(),)  # what nodes choose from
    first: int | None = None  # the number of the change that is tried first
    heartbeat: int = 0  # heartbeats come out in seconds that are a multiple of this
