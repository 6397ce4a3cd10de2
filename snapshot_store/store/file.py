"""How the store's file changes: never in place. A writer changes a copy, which then takes the file's place. And how
the store is exported to Parquet files and imported from them.

So the file at the store's path is whole at every moment and never changes: who has it open, for however long and with
whatever program, reads it as it was, and nobody waits for a reader. Writers wait for each other, by a lock on a file of
its own, which the kernel lets go when a process dies. DuckDB opens a file twice, for its headers and for the rest, so
who lets it open the store asks afterwards whether both were one file (`held`).
"""

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from snapshot_store.errors import StoreBusy, StoreError
from snapshot_store.mysql.sql.names import quote_plainly
from snapshot_store.store.migrations import MIGRATIONS

_PAUSE: Final = 0.05
_TRIES: Final = 20
_FICLONE: Final = 0x40049409
"""ioctl_ficlone(2): on btrfs and XFS a copy shares its blocks with the file."""

Stamp = tuple[int, int, int]


def copy_beside(path: Path) -> Path:
    """Return where a writer's copy of a store stands. A killed writer's is overwritten by the next."""
    return path.with_name(f".{path.name}.next")


def wal_of(path: Path) -> Path:
    """Return DuckDB's log beside a file: what is in it is not yet in the file."""
    return path.with_name(f"{path.name}.wal")


def stamp_of(path: Path) -> Stamp | None:
    """Return what changes when a file does; None if it is not there."""
    try:
        return _stamp(path.stat())
    except FileNotFoundError:
        return None


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_mtime_ns, status.st_size, status.st_ino


@contextmanager
def only_writer(path: Path, wait_seconds: float) -> Iterator[None]:
    """Keep other writers of a store out. Raises StoreBusy if one is in for longer than that, OSError."""
    deadline = time.monotonic() + wait_seconds
    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        while not _locked(lock):
            if time.monotonic() >= deadline:
                raise StoreBusy(f"{path} is being written to by another process: wait for it to end")
            time.sleep(_PAUSE)
        yield
    finally:
        os.close(lock)


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def held(path: Path) -> Iterator[Callable[[], bool]]:
    """Yield what tells whether the file at a path is still the one that it was. Raises OSError.

    A file that is held keeps its inode, so that none that takes its place can have the same. O_PATH: to close any other
    descriptor of a file would end the locks that DuckDB has on it in this process.
    """
    file = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        yield lambda: os.path.samestat(os.fstat(file), path.stat())
    finally:
        os.close(file)


def copy_whole(path: Path, target: Path) -> None:
    """Copy a store's file as it is at one moment, and nothing if it is not there. Raises OSError.

    A program that is none of ours may write to the file in place, as a shell of DuckDB does: then it is copied again.
    """
    target.unlink(missing_ok=True)
    wal_of(target).unlink(missing_ok=True)
    for _ in range(_TRIES):
        try:
            source = path.open("rb")
        except FileNotFoundError:
            return
        with source, target.open("wb") as copy:
            before = os.fstat(source.fileno())
            os.fchmod(copy.fileno(), before.st_mode & 0o777)
            if not _cloned(source.fileno(), copy.fileno()):
                shutil.copyfileobj(source, copy, 1 << 20)
            if _stamp(os.fstat(source.fileno())) == _stamp(before):
                return
    raise OSError(errno.EBUSY, "it is being written to while it is copied", str(path))


def _cloned(source: int, copy: int) -> bool:
    with suppress(OSError):
        fcntl.ioctl(copy, _FICLONE, source)
        return True
    return False


def put_in_place(copy: Path, path: Path) -> None:
    """Let a copy take the place of the store's file, whatever happens to the machine then. Raises OSError."""
    copy.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


_TABLES = ("table_versions", "schema_versions", "settings", "store_info")


def export_parquet(connection: Any, folder: Path) -> None:
    """Write one file for each table into a new folder, which appears complete or not at all."""
    if folder.exists():
        raise StoreError(f"{folder} exists already: name a folder that is not there yet")
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for table in _TABLES:
            order = "ORDER BY node, order_key" if table.endswith("_versions") else ""
            path = quote_plainly(str(work / f"{table}.parquet"))
            connection.execute(f"COPY (FROM {table} {order}) TO {path} (FORMAT parquet, COMPRESSION zstd)")
        work.chmod(0o750)
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def import_parquet(connection: Any, folder: Path) -> int:
    """Fill an empty store from what `export_parquet` wrote; return how many versions it has.

    Runs within the open transaction. Versions keep their numbers.
    """
    for table in _TABLES:
        if not (folder / f"{table}.parquet").is_file():
            raise StoreError(f"{folder} has no {table}.parquet: it is not what `schema export` wrote")
    info = quote_plainly(str(folder / "store_info.parquet"))
    (version,) = connection.execute(f"SELECT max(version) FROM {info}").fetchone()
    if version != len(MIGRATIONS):
        raise StoreError(
            f"{folder} comes from a store of version {version}, this program's is {len(MIGRATIONS)}: "
            "export it anew with this program"
        )
    counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in _TABLES[:2]]
    if any(counts):
        raise StoreError(f"the store is not empty, it has {sum(counts)} versions: import into a new one")
    for table in _TABLES[:3]:
        path = quote_plainly(str(folder / f"{table}.parquet"))
        how = "INSERT OR REPLACE" if table == "settings" else "INSERT"
        connection.execute(f"{how} INTO {table} BY NAME SELECT * FROM {path}")
    for table, names in (("table_versions", "node, order_key, schema_name, table_name"),
                         ("schema_versions", "node, order_key, schema_name")):  # fmt: skip
        twice = connection.execute(f"SELECT {names} FROM {table} GROUP BY ALL HAVING count(*) > 1 LIMIT 1").fetchone()
        if twice is not None:
            raise StoreError(f"{folder} has two versions of one table at one key, {' '.join(twice)}: it was changed")
    return sum(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in _TABLES[:2])
