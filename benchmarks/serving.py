"""How fast `serve` hands out a log, and at which cost, beside a real mysqld that has the same files as its binlog.

    python -m benchmarks.serving [--size 500MB] [--rounds 5] [--readers 1,4] [--shape orders]

Readers are processes that log in, ask for everything from the first file on, and throw away what comes, as fast as it
comes. Each round asks both servers in turn; CPU is what the server's processes took, user and system. Ratios are
medians of the rounds' own ratios.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pymysql

from benchmarks.generate import generate, parse_size
from benchmarks.measure import spread
from benchmarks.runner import InlineRunner
from benchmarks.schedule import Workload
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.pipeline.run import run_merge
from binlog_merge.protocol.commands import BinlogDump
from tests.mysql_server import MySqlServer
from tools.demo_live.cluster import free_ports

USER, PASSWORD = "reader", "of benchmarks"
END = b"\xfe\0\0\x02\0"
PIECE = 1 << 20


def read(port: int) -> None:
    """Be a reader: say that the dump may begin, wait for a line, and print how many bytes came."""
    connection = pymysql.connect(
        host="127.0.0.1", port=port, user=USER, password=PASSWORD, ssl_disabled=True, autocommit=True
    )
    with connection.cursor() as cursor:
        cursor.execute("SET @source_binlog_checksum = @@global.binlog_checksum")
    sock, buffer, total, tail = connection._sock, bytearray(PIECE), 0, b""  # type: ignore[attr-defined]
    sock.settimeout(None)
    print("ready", flush=True)
    sys.stdin.readline()
    request = BinlogDump(4, 1, os.getpid(), b"").pack()
    sock.sendall(len(request).to_bytes(3, "little") + b"\0" + request)
    while not tail.endswith(END):
        got = sock.recv_into(buffer)
        if not got:
            raise RuntimeError(f"the server ends the connection behind {tail!r}")
        total += got
        tail = (tail + buffer[max(0, got - 300) : got])[-300:]
    print(total, flush=True)


def measured(server: psutil.Process, port: int, readers: int, size: int) -> dict[str, float]:
    """Let readers read at once; return MB/s of all together, and the CPU seconds of the server for each GB."""
    command = [sys.executable, "-m", "benchmarks.serving", "--read", str(port)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen(command, **pipes) for _ in range(readers)]
    try:
        for one in started:
            if one.stdout.readline() != "ready\n":
                raise RuntimeError("a reader cannot log in")
        cpu, begun = _cpu(server), time.perf_counter()
        for one in started:
            one.stdin.write("\n")
            one.stdin.flush()
        totals = [int(one.stdout.readline() or 0) for one in started]
        seconds, used = time.perf_counter() - begun, _cpu(server) - cpu
    finally:
        for one in started:
            one.kill()
            one.communicate()
    if min(totals) < size:
        raise RuntimeError(f"{min(totals)} of {size} bytes came")
    return {"mb_per_s": size * readers / seconds / 1e6, "cpu_s_per_gb": used / (size * readers) * 1e9}


def _cpu(server: psutil.Process) -> float:
    """Return the CPU seconds of a server so far, with its processes."""
    times = [process.cpu_times() for process in (server, *server.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def make_log(folder: Path, size: int, shape: str) -> Path:
    """Merge a generated cluster; return the output's directory."""
    made = generate(folder / "cluster", Workload(size=size, nodes=2, shapes=(shape,)))
    run_merge(InlineRunner(), MergeConfig.load(made.config), folder / "merged", end_of_input=True)
    shutil.rmtree(folder / "cluster")
    return folder / "merged"


@contextlib.contextmanager
def serve(log: Path, folder: Path, *options: str) -> Iterator[tuple[psutil.Process, int]]:
    """Run `binlog-merge serve`; yield its process and port."""
    (folder / "password").write_text(PASSWORD)
    command = [sys.executable, "-m", "binlog_merge.cli.main", "serve", str(log), "--port", "0", "--user", USER]
    command += ["--password-file", str(folder / "password"), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield psutil.Process(process.pid), int(line.split(" is served on 127.0.0.1:")[1].split()[0])
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def mysqld(log: Path, folder: Path) -> Iterator[tuple[psutil.Process, int]]:
    """Run a server whose binlog is a copy of the log's files; yield its process and port."""
    (port,) = free_ports(1)
    server = MySqlServer(folder / "mysqld", server_id=4, port=port, options=("--skip-log-replica-updates",))
    with server:
        server.execute(f"SET sql_log_bin = 0; CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
        server.execute(f"SET sql_log_bin = 0; GRANT REPLICATION SLAVE ON *.* TO {USER}@'127.0.0.1'")
    for old in server.data.glob("binlog.*"):
        old.unlink()
    files = sorted(log.glob("binlog.0*"))
    for file in files:
        shutil.copy(file, server.data / file.name)
    (server.data / "binlog.index").write_text("".join(f"./{file.name}\n" for file in files))
    with server:
        # caching_sha2_password needs the whole password once, by a connection that hides it.
        pymysql.connect(host="127.0.0.1", port=port, user=USER, password=PASSWORD).close()
        (pid,) = [int(line) for line in (server.path / "pid").read_text().split()]
        yield psutil.Process(pid), port


def run(
    folder: Path, rounds: int, size: int = 500_000_000, readers: tuple[int, ...] = (1, 4), shape: str = "orders"
) -> dict[str, Any]:
    """Measure both servers in turn."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        log = make_log(folder, size, shape)
        total = sum(file.stat().st_size for file in log.glob("binlog.0*"))
        with serve(log, folder) as ours, mysqld(log, folder) as theirs:
            sides = {"serve": ours, "mysqld": theirs}
            for process, port in sides.values():
                measured(process, port, 1, total)  # brings the files into memory
            found: dict[str, Any] = {"bytes": total}
            for count in readers:
                taken: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
                for _ in range(rounds):
                    for name, (process, port) in sides.items():
                        taken[name].append(measured(process, port, count, total))
                found[f"readers_{count}"] = _compared(taken)
        return found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _compared(taken: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    pairs = list(zip(taken["serve"], taken["mysqld"], strict=True))
    return {
        **{
            name: {what: spread([one[what] for one in runs], 2) for what in ("mb_per_s", "cpu_s_per_gb")}
            for name, runs in taken.items()
        },
        "throughput_ratio": spread([ours["mb_per_s"] / theirs["mb_per_s"] for ours, theirs in pairs], 2),
        "cpu_ratio": spread([ours["cpu_s_per_gb"] / theirs["cpu_s_per_gb"] for ours, theirs in pairs], 2),
    }


def main() -> None:
    """Run and print one JSON object; with --read, be a reader."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=parse_size, default=parse_size("500MB"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--readers", default="1,4", help="how many read at once, with commas")
    parser.add_argument("--shape", default="orders", choices=("counters", "orders", "documents"), help="kind of rows")
    parser.add_argument("--out", default="build/bench")
    parser.add_argument("--read", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        read(arguments.read)
        return
    readers = tuple(int(count) for count in arguments.readers.split(","))
    folder = Path(arguments.out).resolve() / "serving"
    print(json.dumps(run(folder, arguments.rounds, arguments.size, readers, arguments.shape), indent=1))


if __name__ == "__main__":
    main()
