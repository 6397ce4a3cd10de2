"""`binlog-merge debug`: looks into what lies between a merge's stages: order keys, blocks, and what a run would do."""

import glob
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from binlog_merge.cli import json_schema
from binlog_merge.cli.options import NumberingMerged, Output, WrittenMerged, local_path, option
from binlog_merge.cli.output import OutputFormat, print_document, printable
from binlog_merge.cli.verbs import Verb
from binlog_merge.errors import CHECK_PATH, ConfigError, IoError, UnsupportedInput
from binlog_merge.json_values import utc_text
from binlog_merge.moved_keys import NODES, is_moved, place_of
from binlog_merge.redaction import redacted
from snapshot_store.tso import LOGICAL_BITS, OrderKey, carries_time, tso_millis

if TYPE_CHECKING:
    from binlog_merge.pipeline.plan import GoesOn, Plan

HELP = """Look into what lies between the stages of a merge. Nothing is written, and Spark does not start.

\b
  binlog-merge debug order-key 750780416523449139217121119096266916430000000001000001
  binlog-merge debug order-key 7507804165234491392 1712111909626691643 1 1
  binlog-merge debug plan cluster.yaml --merged merged/
  binlog-merge debug plan merged/
  binlog-merge debug block merged/.work
  binlog-merge debug json-schema merge"""

ORDER_KEY_HELP = """Explain an order key: its 54 digits as four parts, or the parts as 54 digits.

The parts are the commit TSO, the transaction id, seq and the node's number; those left out are 0. seq is 0 for a
transaction with that commit TSO, and 1, 2, 3 … for those that follow it on their node without one of their own.
Without markers (`shard-mode`) the last part also says which of the things that come out at one place it is: a DDL, or
rows that were moved there. --merged names the node. Exit code 2: it is no order key."""

BLOCK_HELP = """Print index blocks: the rows that scan and order leave for later stages, a file of columns each.

PATH is a file, what the names of a piece's files begin with (merged/.work/piece-…-000000, where … names the run), or a
directory. Blocks lie in .work of the merged log's directory while a merge runs, and after one that was killed, until
the next begins. A piece has up to three files: timed (branches whose commit TSO is known), local (transactions without
one, and DDL) and rows (commit rows that were used).
Exit codes: 31 for what cannot be read, 29 for what is no block."""

PLAN_HELP = """Print what the next merge would read, where it would go on, and what it would write to.

PATH is a configuration, with --merged as for `merge`; or the directory of a merged log, whose manifest says where its
next run goes on. The files of the nodes are found and checked as a merge does, with its exit codes."""

_FLAGS = {
    1: "has-commit-rows", 2: "marker", 4: "compressed", 8: "ddl", 16: "own-tso", 32: "placeholder",
    64: "create-select", 128: "archive", 256: "discard", 512: "heartbeat", 1024: "sync-point",
}  # fmt: skip
_WIDTHS = (("commit TSO", 19), ("transaction id", 19), ("seq", 10), ("node number", 6))

app = typer.Typer(
    name="debug",
    help=HELP,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


@app.callback(invoke_without_command=True)
def _help_if_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


app.command("json-schema", cls=Verb, help=json_schema.HELP)(json_schema.json_schema)


# Order keys


@app.command("order-key", cls=Verb, help=ORDER_KEY_HELP)
def order_key(
    key: Annotated[list[str], typer.Argument(help="54 digits, or up to four parts.", metavar="KEY…")],
    merged: NumberingMerged = None,
    output: Output = OutputFormat.text,
) -> None:
    """Explain an order key."""
    values = explained(_key(key), {} if merged is None else _node_names(merged))
    if output is not OutputFormat.text:
        print_document(values, output)
    else:
        print("\n".join(printable(line) for line in _key_lines(values)))


def _key(words: Sequence[str]) -> OrderKey:
    """Return the key that is given as one text or in parts. Raises ConfigError."""
    parts = [part for word in words for part in re.split(r"[\s,]+", word.strip("()")) if part]
    if len(parts) == 1 and len(parts[0]) > 19:
        try:
            return OrderKey.parse(parts[0])
        except ValueError as error:
            raise ConfigError(str(error), remedy="give the 54 digits, or up to four parts") from None
    if not 1 <= len(parts) <= 4:
        raise ConfigError(f"an order key has four parts, not {len(parts)}")
    for (name, width), part in zip(_WIDTHS, parts, strict=False):
        if not (part.isascii() and part.isdigit()) or len(part.lstrip("0")) > width:
            raise ConfigError(f"{name}: {part!r} is no number of up to {width} digits")
    numbers = [*map(int, parts), 0, 0, 0]
    return OrderKey(*numbers[:4])


def explained(key: OrderKey, names: Mapping[int, str]) -> dict[str, Any]:
    """Return what an order key says; `names` are the nodes by their numbers."""
    place, moved = place_of(key), is_moved(key)
    node = place.key.node_seq
    time = datetime.fromtimestamp(tso_millis(key.commit_tso) / 1000, UTC) if carries_time(key.commit_tso) else None
    return {
        "order_key": key.text(),
        "commit_tso": str(key.commit_tso),
        "time": None if time is None else utc_text(time, "milliseconds"),
        "logical": key.commit_tso & (1 << LOGICAL_BITS) - 1,
        "transaction_id": str(key.transaction_id),
        "seq": key.seq,
        "node_seq": key.node_seq,
        "node": names.get(key.node_seq, names.get(node)),
        "place": {"order_key": place.key.text(), "node_number": node, "rank": place.rank, "moved_rows": moved}
        if key.node_seq >= NODES
        else None,
    }


def _key_lines(values: Mapping[str, Any]) -> list[str]:
    time = "no time" if values["time"] is None else f"{values['time']}, logical {values['logical']}"
    seq = values["seq"]
    which = "the transaction itself" if seq == 0 else f"number {seq} of those that follow it on their node"
    node = "" if values["node"] is None else f"  {values['node']}"
    lines = [
        values["order_key"],
        f"  commit TSO      {values['commit_tso']}  {time}",
        f"  transaction id  {values['transaction_id']}",
        f"  seq             {seq}  {which}",
        f"  node number     {values['node_seq']}{node if values['place'] is None else ''}",
    ]
    if (place := values["place"]) is not None:
        what = "rows that were moved there" if place["moved_rows"] else "a DDL, or a row, there"
        where = f"rank {place['rank']} at the place {place['order_key']}"
        lines.append(f"  without markers node {place['node_number']}{node}, {where}: {what}")
    return lines


def _node_names(out: Path) -> dict[int, str]:
    header = _manifest(out).header
    return {} if header is None else {number: name for name, number in header.node_numbers.items()}


def _manifest(out: Path) -> Any:
    """Return the state of an output's manifest. Raises ConfigError where there is none, and ManifestError."""
    from binlog_merge.files.manifest import Manifest

    state = Manifest.load(out).state
    if state.header is None:
        raise ConfigError("the directory holds no output of a merge", file=str(out))
    return state


# Blocks


@app.command("block", cls=Verb, help=BLOCK_HELP)
def block(
    path: Annotated[
        Path,
        typer.Argument(help="A block's file, a piece, or a directory of blocks.", metavar="PATH", parser=local_path),
    ],
    rows: Annotated[int, option("--rows", "How many rows of a file to show; 0: all.", min=0)] = 20,
    output: Output = OutputFormat.text,
) -> None:
    """Print index blocks."""
    files = [_block(file, rows) for file in _block_files(path)]
    if output is not OutputFormat.text:
        print_document({"files": files}, output, "files")
    else:
        print("\n".join(printable(line) for file in files for line in _block_lines(file)))


def _block_files(path: Path) -> list[Path]:
    """Return the files that a path stands for. Raises IoError where there are none."""
    if path.is_dir():
        paths = sorted(path.glob("*.arrow"))
    else:
        paths = [path] if path.exists() else sorted(path.parent.glob(f"{glob.escape(path.name)}.*.arrow"))
    if not paths:
        raise IoError("no blocks are there", file=str(path), remedy=CHECK_PATH)
    return paths


def _block(path: Path, most: int) -> dict[str, Any]:
    """Return one file's rows as plain values. Raises IoError and UnsupportedInput."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
            table.validate(full=True)
            names = table.column_names
    except OSError as error:
        raise IoError(error.strerror or str(error), file=str(path), remedy=CHECK_PATH) from None
    except (pa.ArrowException, UnicodeDecodeError) as error:  # the latter: a column's name
        raise UnsupportedInput(
            f"is no block: {error}", file=str(path), remedy="give a file of .work in the directory of a merged log"
        ) from None
    if not all(pa.types.is_integer(kind) or pa.types.is_boolean(kind) for kind in table.schema.types):
        raise UnsupportedInput("is no block: a block has columns of integers", file=str(path))
    shown = table.slice(0, most) if most else table
    return {"file": str(path), "rows": table.num_rows, "columns": names, "first": shown.to_pylist()}


def _block_lines(file: Mapping[str, Any]) -> list[str]:
    names, shown = file["columns"], file["first"]
    cells = [names, *([_cell(name, row[name]) for name in names] for row in shown)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    lines = [f"{file['file']}: {file['rows']} rows"]
    lines += ["  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    left = file["rows"] - len(shown)
    return [*lines, f"  and {left} more"] if left else lines


def _cell(name: str, value: Any) -> str:
    if name != "flags" or not value:
        return str(value)
    return "|".join(_FLAGS.get(bit, str(bit)) for bit in (1 << i for i in range(63)) if value & bit)


# Plans


@app.command("plan", cls=Verb, help=PLAN_HELP)
def plan(
    path: Annotated[
        Path,
        typer.Argument(help="A configuration, or the directory of a merged log.", metavar="PATH", parser=local_path),
    ],
    merged: WrittenMerged = None,
    output: Output = OutputFormat.text,
) -> None:
    """Print what the next merge would do."""
    from binlog_merge.cli.options import output_directory
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.pipeline.plan import goes_on
    from binlog_merge.pipeline.plan import plan as planned

    if path.is_dir():
        if merged is not None and merged.resolve() != path.resolve():
            raise ConfigError("--merged goes with a configuration; PATH is a directory")
        begun = goes_on(_manifest(path))
        if output is not OutputFormat.text:
            print_document({"merged": str(path), "goes_on": begun.to_dict()}, output)
        else:
            print("\n".join(printable(line) for line in _goes_on_lines(begun, str(path))))
        return
    config = MergeConfig.load(path)
    directory = output_directory(config, merged)
    found = planned(config, directory)
    if output is not OutputFormat.text:
        print_document({"merged": str(directory), **found.to_dict()}, output)
    else:
        print("\n".join(printable(line) for line in _plan_lines(found, str(directory))))


def _goes_on_lines(begun: "GoesOn", out: str) -> list[str]:
    state = f", {begun.filled:,} input bytes are in it" if begun.grows else ", a new file"
    end = "nothing is held back" if begun.end_of_input else "none yet"
    lines = [
        f"run {begun.run} of {out}",
        f"  floor      {begun.floor}",
        f"  watermark  {begun.watermark or end}",
        f"  carrier    {begun.carrier or 'not known yet'}",
        f"  writes     {begun.file} from transaction {begun.rank} on{state}",
    ]
    places = (f"{name}  from {at['begins_in']} on, read to {at['read_to']}" for name, at in begun.nodes.items())
    return lines + [f"  {'nodes' if i == 0 else '':<10} {text}" for i, text in enumerate(places)]


def _plan_lines(found: "Plan", out: str) -> list[str]:
    begun = _goes_on_lines(found.goes_on, out)
    lines = [f"  carrier    {found.carrier or 'none seen'}" if "  carrier  " in line else line for line in begun[:5]]
    lines.append(
        f"  cuts       {found.new_bytes:,} bytes are new: at most {found.most_files} output files, "
        f"{found.max_size:,} input bytes each"
    )
    for node in found.nodes:
        read = "not read yet" if node["read_to"] is None else f"read to {node['read_to']}"
        lines.append(f"  node {node['number']}  {node['node']}, {read}")
        lines += [f"    {f['file']}  {f['size']:,} bytes{'  in use' if f['in_use'] else ''}" for f in node["files"]]
    lines.append(f"  scan       {len(found.tasks)} tasks")
    lines += [f"    {t['piece']}  {t['node']}  {t['file']}  {t['from']} to {t['to']}" for t in found.tasks]
    lines += [f"  left out   {f.node}  {redacted(f.path)}: {f.reason}" for f in found.left_out]
    return lines
