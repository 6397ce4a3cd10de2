"""Exporting a store to Parquet files, and importing it into a new store."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from snapshot_store.errors import StoreError
from snapshot_store.mysql.sql.names import quote_plainly
from snapshot_store.store.migrations import MIGRATIONS

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
