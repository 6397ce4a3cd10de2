"""`binlog-merge list`: the files of a merged log, with what stands in each."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from binlog_merge.cli.options import Merged, MergedArgument, Output, merged_of
from binlog_merge.cli.output import OutputFormat, print_document, printable

if TYPE_CHECKING:
    from binlog_merge.files.manifest import OutputFile
    from binlog_merge.log.log import Log

HELP = """List the files of a merged log: size, transactions, and the ranges of GTIDs, commit TSOs and time in each.

\b
  binlog-merge list merged/
  binlog-merge list merged/ -o json
  binlog-merge list s3://bucket/merged/

The manifest says all of it, but for times where the TSOs carry none: then the commit times of a file's first and last
transaction are read. What was removed, and up to where the log is known to be whole, comes last."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A file of the log; times are RFC 3339, None for a transaction before the first commit TSO of a log with times."""

    name: str
    size: int
    closed: bool
    transactions: int
    gtids: str
    tsos: tuple[int, int]
    times: tuple[str | None, str | None]


def list_files(directory: MergedArgument = None, merged: Merged = None, output: Output = OutputFormat.text) -> None:
    """List the files of a merged log."""
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.log.log import Log

    with opened_log(merged_of(directory, merged)) as folder:
        log = Log(folder)
        files = [listed(log, file) for file in log.files]
    if output is not OutputFormat.text:
        print_document(_values(log, files), output, "files")
        return
    for line in _lines(log, files):
        print(printable(line))


def listed(log: "Log", file: "OutputFile") -> Listed:
    """Return what the manifest, or the file itself, says of a file."""
    from binlog_merge.log.place import time_of_key, time_text
    from snapshot_store.tso import OrderKey

    keys = OrderKey.parse(file.first_key), OrderKey.parse(file.last_key)
    times = time_of_key(keys[0]), time_of_key(keys[1])
    if times == (None, None):
        transactions = log.in_file(file)
        times = time_text(transactions.commit_us(file.first_rank)), time_text(transactions.commit_us(file.last_rank))
    ranks = f"{file.first_rank}-{file.last_rank}" if file.last_rank > file.first_rank else str(file.first_rank)
    tsos = keys[0].commit_tso, keys[1].commit_tso
    gtids = f"{log.cluster_uuid}:{ranks}"
    return Listed(file.name, file.size, file.closed, file.transactions, gtids, tsos, times)


def _values(log: "Log", files: list[Listed]) -> dict[str, Any]:
    gone = log.state.gone
    return {
        "files": [
            {
                "file": each.name,
                "size": each.size,
                "closed": each.closed,
                "transactions": each.transactions,
                "gtids": each.gtids,
                "first_tso": str(each.tsos[0]),
                "last_tso": str(each.tsos[1]),
                "first_time": each.times[0],
                "last_time": each.times[1],
            }
            for each in files
        ],
        "size": sum(each.size for each in files),
        "transactions": sum(each.transactions for each in files),
        "whole_up_to": log.whole_up_to.text(),
        "removed": None
        if gone is None
        else {"files": gone.files, "last_file": gone.last_name, "gtids_up_to": gone.last_rank},
    }


def _lines(log: "Log", files: list[Listed]) -> list[str]:
    from binlog_merge.log.place import name_of

    heads = ("file", "bytes", "transactions", "GTIDs", "commit TSOs", "time")
    rows = [
        (
            each.name + ("" if each.closed else " (open)"),
            f"{each.size:,}",
            f"{each.transactions:,}",
            each.gtids.rpartition(":")[2],
            f"{each.tsos[0]} to {each.tsos[1]}",
            f"{each.times[0] or '…'} to {each.times[1]}",
        )
        for each in files
    ]
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    right = {1, 2}
    lines = []
    for row in (heads, *rows):
        cells = (
            cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    lines.append(f"GTIDs of {log.cluster_uuid}; whole up to {name_of(log.whole_up_to)}")
    gone = log.state.gone
    if gone is not None and gone.files:
        lines.append(f"removed: {gone.files} files up to {gone.last_name}, GTIDs up to {gone.last_rank}")
    return lines
