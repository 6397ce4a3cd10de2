"""A directory of Parquet files as the target: a change log for each table, exactly once.

    position.json                              the position, and the cluster
    shop/orders/000000000001-0000000000500-00000.parquet    changes of transactions 1 to 500
    _statements/…                              DDL, in order

Files are written under temporary names, then renamed, then the position is replaced. A file that reaches beyond the
position was not committed, and is removed by the next run. When the columns of a table change, a new file begins. Names
that a file system would not accept are percent-encoded.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from binlog_merge.binlog.columns import column_names
from binlog_merge.binlog.zero_dates import STOP, ZeroDates
from binlog_merge.errors import ConfigError, IoError, OutputBusy, ReplayStopped, TargetBusy, io_error
from binlog_merge.files.durable import replace_file, sync_directory, sync_file
from binlog_merge.files.failpoint import failpoint
from binlog_merge.files.lock import OutputLock
from binlog_merge.files.manifest import MANIFEST_NAME
from binlog_merge.log.reader import Begin, Rows
from binlog_merge.log.rows import TableShapes
from binlog_merge.log.statement import Statement
from binlog_merge.targets.changes.changes import ChangeBuffer
from snapshot_store.tso import OrderKey

_STATEMENTS = "_statements"
_PART_BYTES = 32 << 20
_STATEMENT_TYPE = pa.schema(
    [
        ("rank", pa.int64()),
        ("gtid", pa.string()),
        ("committed_at", pa.timestamp("us", tz="UTC")),
        ("schema", pa.string()),
        ("statement", pa.string()),
    ]
)


@dataclass
class ParquetTarget:
    """A change log under `folder`; use it as a context manager. Raises TargetBusy, ConfigError, IoError.

    `history` has the columns' names if table maps do not. At most `part_bytes` of rows are held in memory.
    """

    folder: Path
    cluster: str
    history: TableShapes | None = None
    temporal_text: bool = False
    columns: Callable[[str, str], Any] = lambda schema, table: None
    part_bytes: int = _PART_BYTES
    zero_dates: ZeroDates = STOP
    rank: int = 0
    key: str | None = None
    _buffers: dict[tuple[str, str], ChangeBuffer] = field(default_factory=dict)
    _statements: list[tuple[int, str, int, str, str]] = field(default_factory=list)
    _written: list[tuple[Path, Path]] = field(default_factory=list)
    _bytes: int = 0
    _first: int = 0
    _number: int = 0

    def __enter__(self) -> "ParquetTarget":
        if (self.folder / MANIFEST_NAME).exists():
            raise ConfigError(
                "the directory is a merge's output", file=str(self.folder), remedy="name a directory of its own"
            )
        self._lock = OutputLock(self.folder)
        try:
            self._lock.__enter__()
        except OutputBusy:
            raise TargetBusy(f"another replay is writing to {self.folder}", file=str(self.folder)) from None
        try:
            self.rank, self.key = self._position()
            self._clean()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.__exit__(None, None, None)

    @property
    def empty(self) -> bool:
        """Return whether nothing has been written to the directory yet."""
        return not (self.folder / "position.json").exists()

    def add(self, rows: Rows, cut: list[Any], op: str, begin: Begin, key: OrderKey | None) -> None:
        """Add the rows of an event."""
        name = (rows.table.schema, rows.table.table)
        names = self._names(rows, key)
        buffer = self._buffers.get(name)
        if buffer is None or not _same_shape(buffer, rows, names):
            self._part(name)
            buffer = ChangeBuffer(rows.table, names, self.columns(*name), self.temporal_text, self.zero_dates)
            self._buffers[name] = buffer
        buffer.add(op, begin, key, cut)
        self._bytes += len(rows.event.rows) + 100 * len(cut)
        if self._bytes > self.part_bytes:
            self._parts()

    def statement(self, item: Statement, sql: str, begin: Begin) -> None:
        """Add a statement."""
        self._statements.append((begin.rank, begin.gtid, begin.commit_us, item.schema, sql))

    @property
    def full(self) -> bool:
        """Return whether enough was added for a commit."""
        return bool(self._written)

    def commit(self, rank: int, key: str | None) -> None:
        """Make everything up to a transaction visible, with the position; `key` is the transaction's order key."""
        self._parts()
        for part, path in self._written:
            final = path.with_name(f"{self.rank + 1:012d}-{rank:012d}-{path.name}")
            try:
                part.rename(final)
            except OSError as error:
                raise io_error(error, str(final)) from error
            failpoint("parquet-renamed")
        for folder in {path.parent for _, path in self._written}:
            sync_directory(folder)
        self._written.clear()
        self._number = 0
        temporal = "text" if self.temporal_text else "typed"
        data = {"cluster_uuid": self.cluster, "rank": rank, "order_key": key, "temporal": temporal}
        data["zero_dates_as_text"] = self.zero_dates.as_text
        replace_file(self.folder / "position.json", json.dumps(data).encode() + b"\n")
        self.rank, self.key = rank, key
        failpoint("parquet-committed")

    def _names(self, rows: Rows, key: OrderKey | None) -> tuple[str, ...]:
        names = column_names(rows.table)
        if names[:1] != ("@1",):
            return names
        name = f"{rows.table.schema}.{rows.table.table}"
        version = (
            None if self.history is None or key is None else self.history.at(rows.table.schema, rows.table.table, key)
        )
        if version is None or version.table is None:
            raise ReplayStopped(
                f"the columns of {name} have no names: neither its table map nor a schema history says them",
                remedy="let the nodes write binlog_row_metadata=FULL, or keep schema.duckdb with the merged binlog",
            )
        return tuple(column.name for column in version.table.columns)

    def _parts(self) -> None:
        for name in list(self._buffers):
            self._part(name)
        if self._statements:
            columns = [list(values) for values in zip(*self._statements, strict=True)]
            arrays = [pa.array(values, kind) for values, kind in zip(columns, _STATEMENT_TYPE.types, strict=True)]
            self._write(self.folder / _STATEMENTS, pa.table(arrays, schema=_STATEMENT_TYPE))
            self._statements.clear()
        self._bytes = 0

    def _part(self, name: tuple[str, str]) -> None:
        buffer = self._buffers.pop(name, None)
        if buffer is not None and buffer.rows:
            self._write(self.folder.joinpath(*(quote(part, safe=" ") for part in name)), buffer.to_arrow())

    def _write(self, folder: Path, table: Any) -> None:
        path = folder / f"{self._number:05d}.parquet"
        part = folder / f".{path.name}.part"
        self._number += 1
        try:
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, part, compression="zstd")
        except (OSError, pa.ArrowException) as error:
            raise IoError(str(error), file=str(part)) from error
        sync_file(part)
        self._written.append((part, path))

    def _position(self) -> tuple[int, str | None]:
        path = self.folder / "position.json"
        if not path.exists():
            if any(self.folder.glob("*/*/*.parquet")):
                raise ConfigError("the directory has Parquet files and no position", file=str(self.folder))
            return 0, None
        try:
            values = json.loads(path.read_bytes())
            found, cluster = int(values["rank"]), values["cluster_uuid"]
            temporal, key = values["temporal"], values.get("order_key")
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise IoError(f"the position cannot be read: {error}", file=str(path)) from None
        if cluster != self.cluster:
            raise ConfigError(f"the directory is a change log of cluster {cluster}", file=str(path))
        if temporal != ("text" if self.temporal_text else "typed"):
            raise ConfigError(f"the change log was begun with --temporal {temporal}", file=str(path))
        if (texts := values.get("zero_dates_as_text", "")) != self.zero_dates.as_text:
            raise ConfigError(
                f"the change log was begun with {f'--zero-dates {texts}' if texts else 'typed dates'}",
                file=str(path),
                remedy="the columns of dates that are text stay so; name a new directory for others",
            )
        return found, key

    def _clean(self) -> None:
        """Remove files that were written but not committed."""
        for part in [*self.folder.glob("*/*/.*.part"), *self.folder.glob("*/.*.part")]:
            part.unlink()
        for path in [*self.folder.glob("*/*/*.parquet"), *self.folder.glob("*/*.parquet")]:
            if int(path.name.split("-")[0]) > self.rank:
                path.unlink()


def _same_shape(buffer: ChangeBuffer, rows: Rows, names: tuple[str, ...]) -> bool:
    one, two = buffer.table, rows.table
    return tuple(buffer.names) == names and (one.types, one.metas, one.optional) == (two.types, two.metas, two.optional)
