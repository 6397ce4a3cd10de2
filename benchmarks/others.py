"""What else reads binlogs, and how fast: cp, mysqlbinlog, mysql-replication."""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from binlog_merge.binlog.header import EventHeader


def copy_files(files: Sequence[str], folder: Path, *, sync: bool) -> float:
    """Copy the files as `cp` does; returns seconds."""
    folder.mkdir(parents=True)
    copies = [folder / f"{i:03d}" for i in range(len(files))]
    begun = time.perf_counter()
    for source, target in zip(files, copies, strict=True):
        subprocess.run(["cp", "--reflink=never", source, str(target)], check=True)
        if sync:
            fd = os.open(target, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
    return time.perf_counter() - begun


def mysqlbinlog(program: str, file: str, stop: int, options: Sequence[str]) -> tuple[int, float, float]:
    """Let mysqlbinlog read a file up to `stop` into /dev/null; returns (bytes, seconds, seconds of a core)."""
    command = [program, *options, f"--stop-position={stop}", file]
    before, begun = _cpu_of_children(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return stop, time.perf_counter() - begun, _cpu_of_children() - before


def _cpu_of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def mysql_replication(file: str, stop: int) -> tuple[int, int, float]:
    """Let mysql-replication decode the events of a file up to `stop`; returns (bytes, rows, seconds).

    Its packets are made here, so that no server and no socket is in the way.
    """
    from pymysql.protocol import MysqlPacket
    from pymysqlreplication import event, row_event
    from pymysqlreplication.packet import BinLogPacketWrapper

    allowed = [getattr(m, name) for m in (event, row_event) for name in dir(m) if name.endswith("Event")]
    connection = SimpleNamespace(charset="utf8mb4", _get_dbms=lambda: "mysql")
    with Path(file).open("rb") as opened:
        data = opened.read(stop)
    tables: dict[int, Any] = {}
    lens: Any = None
    at, rows = 4, 0
    begun = time.perf_counter()
    while at + 19 <= len(data):
        size = EventHeader.parse(data, at).event_size
        if at + size > len(data):
            break
        packet = MysqlPacket(b"\0" + data[at : at + size], "utf8")
        wrapped = BinLogPacketWrapper(
            packet, tables, connection, (9, 7, 4), True, allowed, None, None, None, None, False, False, False, False,
            False, False, lens,
        )  # fmt: skip
        one = wrapped.event
        if isinstance(one, row_event.TableMapEvent):
            tables[one.table_id] = one.get_table()
        elif isinstance(one, event.FormatDescriptionEvent):
            lens = one.post_header_len
        elif hasattr(one, "rows"):
            rows += len(one.rows)
        at += size
    return at, rows, time.perf_counter() - begun


def sample_end(file: str, wanted: int) -> int:
    """Return the end of the last event of a file that ends within `wanted` bytes."""
    at = 4
    with Path(file).open("rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        while at < min(wanted, size):
            opened.seek(at)
            step = EventHeader.parse(opened.read(19)).event_size
            if at + step > wanted:
                break
            at += step
    return at
