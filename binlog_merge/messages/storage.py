"""A folder or an object store as the target, laid out as TiCDC's storage sink lays it out.

    metadata                                        {"checkpoint-ts":…}: all up to this commit TSO is here
    shop/orders/meta/schema_7_0123456789.json       a version of a table, and the statement that made it
    shop/orders/7/CDC000001.json                    messages, a line each (CR LF), of rows with version 7
    shop/orders/7/meta/CDC.index                    the name of the last such file
    transaction/CDC000001.json                      where transactions begin and end, if Debezium's options ask for it
    progress/000000000004.json                      this program's position, and the last file of each folder

A commit writes files of new names, and then the next progress record, which can only be made once: from then on they
count. A replay that begins makes a record of its own, so that one that still runs cannot commit any more, and removes
the files that no record names. Source: "Replicate Data to Storage Services" of TiCDC's manual.
"""

import json
import uuid
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from binlog_merge.errors import ConfigError, ReplayStopped, TargetBusy, io_error
from binlog_merge.files.manifest import MANIFEST_NAME
from binlog_merge.files.objects import FolderObjects, Objects
from binlog_merge.messages.delivery import Outgoing
from binlog_merge.messages.message import tidb_number
from snapshot_store.ddl import ParsedDdl
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import Family

_PROGRESS: Final = "progress"
_TRANSACTIONS: Final = "transaction"
_END: Final = b"\r\n"


@dataclass
class StorageTarget:
    """A folder or a store. Use it as a context manager. Raises TargetBusy, ConfigError, IoError and what stores do."""

    objects: Any
    title: str
    form: str
    cluster: str
    rank: int = 0
    key: str | None = None
    empty: bool = True
    _record: int = 0
    _last: dict[str, int] = field(default_factory=dict)
    _lines: dict[str, list[bytes]] = field(default_factory=dict)
    _schemas: dict[str, bytes] = field(default_factory=dict)
    # Two records of one position, of two replays, must not be the same bytes.
    _me: str = field(default_factory=lambda: uuid.uuid4().hex)

    @classmethod
    def of(cls, url: str, form: str, cluster: str) -> "StorageTarget":
        """Return the target of a URL. Raises ConfigError."""
        if form == "open-protocol":
            raise ConfigError(
                "--format open-protocol is for Kafka: a file has no keys",
                remedy="take canal, debezium, maxwell or simple",
            )
        if not url.startswith("file:"):
            from binlog_merge.redaction import redacted

            return cls(Objects(url), redacted(url), form, cluster)
        parts = urlsplit(url)
        if parts.netloc or not parts.path.strip("/"):
            raise ConfigError(f"--to: {url!r} is no directory: write file:///DIR")
        folder = Path(unquote(parts.path))
        if (folder / MANIFEST_NAME).exists():
            raise ConfigError(
                "the directory is a merge's output", file=str(folder), remedy="name a directory of its own"
            )
        return cls(_Folder(folder), str(folder), form, cluster)

    def __enter__(self) -> "StorageTarget":
        objects = self.objects.below(_PROGRESS)
        records = sorted(name for name in objects if name.endswith(".json"))
        if records:
            text = self.objects.read(records[-1])
            known = json.loads(text or b"{}")
            if known.get("cluster") != self.cluster or known.get("format") != self.form:
                raise ReplayStopped(
                    f"the target has cluster {known.get('cluster')} in format {known.get('format')}, "
                    f"not {self.cluster} in {self.form}",
                    remedy="take another target",
                )
            self._record = int(Path(records[-1]).stem)
            self._last = {str(name): int(number) for name, number in known["files"].items()}
            self.empty = known["rank"] is None
            self.rank, self.key = int(known["rank"] or 0), known["order_key"]
        # From here on a replay that began earlier cannot commit.
        changed = known["changed"] if records else []
        self._progress(None if self.empty else self.rank, self.key, changed)
        self._remove_left_over()
        self._tell(changed)
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def define(self, schema: str, name: str, table: Table | None, version: int, ddl: ParsedDdl | None) -> None:
        """Write down a version of a table, and the statement that made it, if any; `table` None: that dropped it."""
        value = {
            "Table": name,
            "Schema": schema,
            "Version": 1,
            "TableVersion": version,
            "Query": "" if ddl is None else ddl.sql,
            "Type": 0 if ddl is None else tidb_number(ddl),
            "TableColumns": [] if table is None else [_column(table, column) for column in table.columns],
            "TableColumnsTotal": str(0 if table is None else len(table.columns)),
        }
        hashed = zlib.crc32(json.dumps(value["TableColumns"]).encode())
        path = f"{_part(schema)}/{_part(name)}/meta/schema_{version}_{hashed:010d}.json"
        if path not in self._schemas and (ddl is not None or self.objects.size_of(path) is None):
            self._schemas[path] = json.dumps(value, ensure_ascii=False, indent=4).encode()

    def send(self, message: Outgoing) -> None:
        """Take a message of a row; a tombstone is none here."""
        if message.value is not None:
            folder = f"{_part(message.schema)}/{_part(message.table)}/{message.version}"
            if message.aside:
                folder = _TRANSACTIONS
            self._lines.setdefault(folder, []).append(message.value)

    def send_ddl(self, message: Outgoing, everywhere: bool = False) -> None:
        """Take no message of a statement: its version of the table stands in `meta`."""

    def commit(self, rank: int, key: str | None) -> None:
        """Make what was sent visible, with the position. Raises TargetBusy if another replay has taken over."""
        for path, data in self._schemas.items():
            self.objects.overwrite(path, data)
        for folder, lines in self._lines.items():
            self._last[folder] = self._last.get(folder, 0) + 1
            name = f"CDC{self._last[folder]:06d}.json"
            if not self.objects.create(f"{folder}/{name}", b"".join(line + _END for line in lines)):
                raise TargetBusy(f"another replay has written {folder}/{name}")
        self._progress(rank, key, sorted(self._lines))
        self.rank, self.key, self.empty = rank, key, False
        self._tell(sorted(self._lines))
        self._lines.clear()
        self._schemas.clear()

    def _tell(self, folders: list[str]) -> None:
        """Write what readers of TiCDC's layout look at first; the next replay does if this one is killed before."""
        for folder in folders:
            self.objects.overwrite(f"{folder}/meta/CDC.index", f"CDC{self._last[folder]:06d}.json\n".encode())
        if self.key is not None:
            self.objects.overwrite("metadata", json.dumps({"checkpoint-ts": int(self.key[:19])}).encode())

    def _progress(self, rank: int | None, key: str | None, changed: list[str]) -> None:
        value = {
            "rank": None if rank is None else str(rank), "order_key": key, "format": self.form,
            "cluster": self.cluster, "files": self._last, "changed": changed,
        }  # fmt: skip
        data = json.dumps(value | {"by": self._me}).encode()
        if not self.objects.create(f"{_PROGRESS}/{self._record + 1:012d}.json", data):
            raise TargetBusy(f"another replay writes to {self.title}")
        self._record += 1
        if self._record > 2:
            self.objects.delete([f"{_PROGRESS}/{self._record - 2:012d}.json"])

    def _remove_left_over(self) -> None:
        """Remove the files of a replay that ended before it committed them."""
        stray = []
        for name in self.objects.below(""):
            folder, _, file = name.rpartition("/")
            numbered = file.startswith("CDC") and file.endswith(".json") and file[3:-5].isdecimal()
            if numbered and int(file[3:-5]) > self._last.get(folder, 0):
                stray.append(name)
        if stray:
            self.objects.delete(stray)


class _Folder(FolderObjects):
    """A folder whose folders are made as they are needed."""

    def create(self, name: str, data: bytes | Path) -> str | None:
        self._made(name)
        return super().create(name, data)

    def overwrite(self, name: str, data: bytes | Path) -> None:
        self._made(name)
        super().overwrite(name, data)

    def _made(self, name: str) -> None:
        try:
            (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise io_error(error, self.place(name)) from error


def _part(name: str) -> str:
    """Return a name as a part of a path."""
    return quote(name, safe="").replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


def _column(table: Table, column: Column) -> dict[str, str]:
    type_, key = column.type, table.primary_key
    values = {"ColumnName": column.name, "ColumnType": type_.name.upper() + (" UNSIGNED" if type_.unsigned else "")}
    if type_.length is not None:
        values["ColumnPrecision"] = str(type_.length)
    scale = type_.decimals if type_.family is Family.DECIMAL else type_.fsp or None
    if scale is not None:
        values["ColumnScale"] = str(scale)
    if not column.nullable:
        values["ColumnNullable"] = "false"
    if key is not None and any((part.column or "").lower() == column.name.lower() for part in key.parts):
        values["ColumnIsPk"] = "true"
    return values
