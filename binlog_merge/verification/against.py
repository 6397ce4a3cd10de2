"""Compares a server with the merged binlog: its tables are rebuilt from the log, and compared with the server's.

The position up to which the server should have the log is that of a replay, the executed GTIDs of a replica, or given
by the user. The server is read in a consistent snapshot.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.config.merge_config import MergeConfig, topology_of
from binlog_merge.errors import ConfigError, ReplayStopped
from binlog_merge.filters.filter import Filter
from binlog_merge.log.log import Log
from binlog_merge.log.rank_set import RankSet
from binlog_merge.log.replay_options import ReplayOptions, history_of
from binlog_merge.tables.found_there import FoundThere, Name, Unjudgeable
from binlog_merge.tables.load import Base, load
from binlog_merge.tables.target import DuckdbTarget
from binlog_merge.targets.server.ledger import check_bootstrapped
from binlog_merge.targets.server.mysql import META_SCHEMA
from binlog_merge.verification.compare import Known, TableComparison, compare_tables
from binlog_merge.verification.compare_sides import Compared, LogSide, ServerSide
from snapshot_store.server import ServerAddress
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class Position:
    """What a server has of the log: everything up to a rank, except skipped transactions."""

    rank: int
    skipped: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison; `rank` is the position, None for a comparison with nodes.

    `others` are tables of the server that the log does not have.
    """

    rank: int | None
    tables: tuple[TableComparison, ...]
    others: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Return whether no table differs, as far as they could be compared."""
        return all(table.same for table in self.tables if not table.unjudged)

    @property
    def whole(self) -> bool:
        """Return whether all tables were compared, with all their rows."""
        return all(table.whole for table in self.tables)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        tables = {table.name: table.to_dict() for table in self.tables}
        return {
            "same": self.same,
            "whole": self.whole,
            "rank": self.rank,
            "tables": tables,
            "others": list(self.others),
        }


def compare_with_server(
    binlog: Log,
    address: ServerAddress,
    *,
    ssl_ca: str | None = None,
    rank: int | None = None,
    chosen: Filter | None = None,
    most_rows: int = 20,
    work: Path | None = None,
    base: Base | None = None,
) -> Comparison:
    """Compare a server with the log, up to `rank` (None: the server's position).

    Raises ServerRefused, ConfigError if the server's position is not known, and what a replay into DuckDB raises.
    `work` is the directory for temporary tables. `base` has the rows of tables from before the log; of other such
    tables, only what the log contains is compared.
    """
    with ServerSide([address], ssl_ca) as server:
        found = position_of(server, binlog) if rank is None else Position(rank)
        if found.rank > binlog.last_rank:
            raise ReplayStopped(f"the server has {found.rank} transactions, the merged binlog {binlog.last_rank}")
        if base is not None and base.rank > found.rank:
            raise ConfigError(
                f"--base has {base.rank} transactions of the log, the server {found.rank}",
                remedy="wait until the server has as many, or give a base that is not ahead of it",
            )
        options = ReplayOptions(
            first_rank=base.rank + 1 if base is not None and base.rank else None,
            last_rank=found.rank,
            filter=chosen,
            skip=found.skipped,
            system_zone=_system_zone(server),
        )
        with tempfile.TemporaryDirectory(dir=work) as folder:
            left_out: dict[Name, str] = {}
            while True:
                there, path = FoundThere(dict(left_out)), Path(folder) / f"made-{len(left_out)}"
                try:
                    return _made_and_compared(binlog, options, path, server, most_rows, there, base)
                except Unjudgeable as error:
                    if error.name in left_out:
                        raise
                    path.unlink(missing_ok=True)
                    left_out[error.name] = error.message
                except ReplayStopped as error:
                    error.remedy = error.remedy if base is None else _NOT_FROM_THEN
                    raise


_NOT_FROM_THEN: Final = (
    "a base must hold the tables as they were where the log begins, or say where in the log it is; see what of the two "
    "is wrong, or leave --base out"
)


def _system_zone(server: ServerSide) -> str:
    """Return the offset of the server's clock from UTC, which is its time zone SYSTEM."""
    ((minutes,),) = server.ask(
        "SELECT TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(), CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM'))"
    )
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def compare_with_nodes(
    binlog: Log,
    address: ServerAddress,
    config: Path,
    nodes: Mapping[str, ServerAddress],
    *,
    ssl_ca: str | None = None,
    most_rows: int = 20,
) -> Comparison:
    """Compare a server with the current rows of a cluster's nodes, whose routes map physical to logical tables.

    Raises ServerRefused, and ConfigError if a node's server is not given.
    """
    topology = topology_of(MergeConfig.load(config))
    configured = [node.source_id for node in MergeConfig.load(config).nodes]
    if missing := [name for name in configured if name not in nodes]:
        raise ConfigError(
            f"where is the server of node {missing[0]}?", remedy=f"give --node {missing[0]}=mysql://user@host:port"
        )
    history = history_of(binlog.directory)
    if history is None:
        raise ConfigError(f"{binlog.folder} has no schema.duckdb, which says what the logical tables are")
    logical = history.catalog(_LAST).tables
    with ServerSide([nodes[name] for name in configured], ssl_ca) as cluster, ServerSide([address], ssl_ca) as server:
        places: dict[tuple[str, str], list[tuple[int, str, str]]] = {}
        for number, name in enumerate(configured):
            for schema, table in sorted(cluster.names(number)):
                if (of := topology.logical_name(name, schema, table)) is not None:
                    places.setdefault(of, []).append((number, schema, table))
        cluster.places = places
        wanted = [table for name, table in sorted(logical.items()) if name in places]
        tables = compare_tables(wanted, cluster, server, most_rows, server.columns)
        others = server.names() - logical.keys()
        return Comparison(None, tuple(tables), tuple(f"{schema}.{name}" for schema, name in sorted(others)))


_LAST = OrderKey((1 << 63) - 1, (1 << 63) - 1, 1 << 33, 999_999)


def _made_and_compared(
    binlog: Log,
    options: ReplayOptions,
    path: Path,
    server: ServerSide,
    most_rows: int,
    found_there: FoundThere,
    base: Base | None,
) -> Comparison:
    """Rebuild the log's tables in a file and compare them. Raises Unjudgeable for a table that must be left out."""
    columns = (lambda schema, table: None) if options.filter is None else options.filter.columns
    with DuckdbTarget(path, binlog.cluster_uuid, temporal_text=True, chosen=columns) as target:
        load(binlog, target, history_of(binlog.directory), options, found_there, base)
        if base is not None and found_there.names and not found_there.given:
            raise ConfigError("--base has none of the tables that the log begins with", remedy=_NOT_FROM_THEN)
        return _compared(target, server, options, most_rows, found_there)


def _compared(
    target: DuckdbTarget, server: ServerSide, options: ReplayOptions, most_rows: int, found_there: FoundThere
) -> Comparison:
    chosen = options.filter
    wanted = [
        table for name, table in sorted(target.catalog.tables.items())
        if chosen is None or chosen.table(*name).action == "Do"
    ]  # fmt: skip
    left_out = {
        name: found_there.left_out[was] for name, was in found_there.names.items() if was in found_there.left_out
    }
    judged = [target.as_kept(table) for table in wanted if (table.schema, table.name) not in left_out]
    log = LogSide(target.connection)
    tables = compare_tables(judged, log, server, most_rows, server.columns, lambda c: _known(log, found_there, c))
    tables += [
        TableComparison(f"{schema}.{name}", problem=f"cannot be judged: {reason}", unjudged=True)
        for (schema, name), reason in sorted(left_out.items())
        if chosen is None or chosen.table(schema, name).action == "Do"
    ]
    others = server.names() - target.catalog.tables.keys() - left_out.keys()
    names = tuple(f"{schema}.{name}" for schema, name in sorted(others))
    return Comparison(options.last_rank, tuple(tables), names)


def _known(log: LogSide, there: FoundThere, compared: Compared) -> Known | None:
    """Return what the log knows of a table from before the log; None for a table that the log created."""
    name = (compared.table.schema, compared.table.name)
    if name not in there.names:
        return None
    touched, note = there.touched(name, log.connection), there.notes.get(there.names[name], "")
    if not compared.keyed or not touched.there():
        return Known(note=note)
    keys = frozenset(key for key, _ in log.recorded(compared, touched.keys))
    return Known(keys, dict(log.recorded(compared, touched.unsaid)), note)


def rank_of_server(server: ServerSide, binlog: Log) -> int:
    """Return the rank up to which a server has a log; 0 if it is not recorded. Raises ReplayStopped for gaps."""
    try:
        return position_of(server, binlog).rank
    except ConfigError:
        return 0


def position_of(server: ServerSide, binlog: Log) -> Position:
    """Return a server's position in a log. Raises ConfigError if it has none, ReplayStopped for gaps."""
    cluster = binlog.cluster_uuid
    check_bootstrapped(server, cluster)
    gtids = GtidSet.parse_text(str(server.ask("SELECT @@GLOBAL.gtid_executed")[0][0]))
    executed = RankSet.of_gtids(gtids, cluster)  # as a replica
    if server.ask(
        "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = 'replay_position'",
        (META_SCHEMA,),
    ):
        rows = server.ask(f"SELECT `rank` FROM {META_SCHEMA}.replay_position WHERE cluster = %s", (cluster,))
        if rows:  # what a bootstrap or a replay has filled may have followed as a replica since
            return _whole(_applied(server, cluster, int(rows[0][0])) | executed, _skipped(server, cluster))
    if not executed.intervals:
        raise ConfigError(
            "the server does not say what it has of this log: no replay has written to it, and it is no replica of it",
            remedy="give --stop-gtid or --stop-tso",
        )
    return _whole(executed, frozenset())


def _applied(server: ServerSide, cluster: str, rank: int) -> RankSet:
    applied = RankSet.upto(rank)
    for (ranks,) in server.ask(f"SELECT ranks FROM {META_SCHEMA}.replay_worker WHERE cluster = %s", (cluster,)):
        applied |= RankSet.parse(ranks)
    return applied


def _skipped(server: ServerSide, cluster: str) -> frozenset[int]:
    rows = server.ask(f"SELECT `rank` FROM {META_SCHEMA}.replay_skipped WHERE cluster = %s", (cluster,))
    return frozenset(int(rank) for (rank,) in rows)


def _whole(applied: RankSet, skipped: frozenset[int]) -> Position:
    if len(applied.intervals) > 1 or applied.low != len(applied):
        raise ReplayStopped(
            f"the server has transactions {applied}, with gaps: something is being applied",
            remedy="let it finish, then compare again",
        )
    return Position(applied.low, skipped)
