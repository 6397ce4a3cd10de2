"""A store on a disk that is full says so, as what may pass, whatever DuckDB was at; then it goes on."""

import os
from pathlib import Path

import pytest

from snapshot_store.errors import StoreIoFailed
from snapshot_store.history import TableVersion
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.store.db import Store
from snapshot_store.tso import OrderKey
from tests.small_disk import small_disk

KIB = 1 << 10


def version(number: int) -> TableVersion:
    columns = tuple(Column(f"c{number}_{at}_{os.urandom(40).hex()}", ColumnType("int")) for at in range(200))
    return TableVersion(OrderKey(number, 1, 0, 0), 0, "d", "t", Table("d", "t", columns), "ALTER TABLE t …")


def test_what_a_full_disk_ends_may_pass_wherever_it_ends(tmp_path: Path) -> None:
    failed, number = 0, 1
    with small_disk(tmp_path / "disk", 24) as disk:
        path, ballast = disk / "schema.duckdb", disk / "ballast"
        with Store.open(path) as store:
            store.append_versions([version(number)])
        for room in range(0, 5_000, 150):
            left = os.statvfs(disk)
            with ballast.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, left.f_bavail * left.f_frsize - room * KIB - 4 * KIB)
            new = [version(number + 1 + at) for at in range(20)]
            try:
                with Store.open(path) as store:
                    store.append_versions(new)
                number += len(new)
            except StoreIoFailed as error:
                failed += 1
                assert "No space left" in str(error), error
            ballast.unlink()
            with Store.open(path, read_only=True) as store:
                assert store.last_key() == OrderKey(number, 1, 0, 0)
    assert failed > 5 and number > 1


def test_an_error_of_duckdb_in_a_transaction_that_is_over_is_told_as_it_was(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="what went wrong"), Store.open(tmp_path / "s") as store, store._transaction():
        store._connection.execute("ROLLBACK")  # as DuckDB itself does where it cannot write
        raise ValueError("what went wrong")
