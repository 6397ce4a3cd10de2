"""`binlog-merge position-of` and `tso-of`: convert places in a merged log, however they are named, to one another."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from binlog_merge.cli.options import Merged, MergedArgument, Output, local_path, merged_of, option
from binlog_merge.cli.output import OutputFormat, print_document, printable
from binlog_merge.errors import ConfigError
from binlog_merge.log.place import Place, parse_place

if TYPE_CHECKING:
    from binlog_merge.log.log import Around
    from binlog_merge.log.transactions import Transaction
    from binlog_merge.pipeline.transactions import FoundBranch

_PLACES = """A place is a commit TSO, an order key (54 digits), a time (UTC unless it has an offset), a GTID, a GTID set
without gaps, or FILE:POS in the merged log. With --node, --at is FILE:POS in that node's own binlog, which --config
tells where to find: the answer is about the transaction that stands there. Finding that takes a look at all of the
nodes' files; everything else is found by bisection, in a sparse index that is kept beside the log."""

POSITION_HELP = f"""Find the position in a merged log after everything that committed at a place or before.

A reader that has all data up to there (a restored backup, a snapshot, a stopped consumer) goes on reading there:
nothing is missed, and nothing comes twice. The first line is FILE:POS, as SOURCE_LOG_FILE and SOURCE_LOG_POS take it.

\b
  binlog-merge position-of --at 7507804165234491392 merged/
  binlog-merge position-of --at 2026-09-21T12:30:00Z merged/ -o json
  binlog-merge position-of --at 6b1c9f0e-3c1a-11ef-9d5a-0242ac120002:4711 merged/
  binlog-merge position-of --node dn-1 --at mysql-bin.000003:4711 --config cluster.yaml merged/

{_PLACES}

A place before the first transaction is refused, and so is one after the end of the log."""

TSO_HELP = f"""Tell which transactions a reader of a merged log has seen at a place: all up to this commit TSO.

A position is where an event begins or a file ends. One inside a transaction counts as before it, since nothing of it is
visible yet; the answer says so.

\b
  binlog-merge tso-of --at binlog.000001:108241 merged/
  binlog-merge tso-of --at 6b1c9f0e-3c1a-11ef-9d5a-0242ac120002:1-4711 merged/ -o json

{_PLACES}"""

At = Annotated[str | None, option("--at", "A TSO, order key, time, GTID, GTID set, or FILE:POS.", "PLACE")]
TsoOption = Annotated[str | None, option("--tso", "The same as --at, for a TSO or an order key.", "TSO")]
PositionOption = Annotated[
    str | None, option("--position", "The same as --at, for a place in the merged log.", "FILE:POS")
]
Node = Annotated[str | None, option("--node", "--at is FILE:POS in this node's own binlog.", "NODE")]
Config = Annotated[
    Path | None,
    option("--config -c", "Where the nodes' files are, for --node.", "FILE", local_path),
]


def position_of(
    directory: MergedArgument = None,
    merged: Merged = None,
    at: At = None,
    tso: TsoOption = None,
    node: Node = None,
    config: Config = None,
    output: Output = OutputFormat.text,
) -> None:
    """Find the place in a merged log after everything that committed at a place or before."""
    text, option = _one_of(("--at", at), ("--tso", tso))
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.log.log import Log, find_place

    with opened_log(merged_of(directory, merged)) as folder:
        log = Log(folder)
        branch = None if node is None else _branch(node, text, config)
        place = _place(text, option) if branch is None else Place.at_key(option, branch.key)
        around = find_place(log, place)
    if output is not OutputFormat.text:
        print_document(
            {"at": text, **({"tso": tso} if tso else {}), **_branch_values(branch), **_values_around(around)}, output
        )
    else:
        print(f"{around.file}:{around.position}")
        _print(around, branch)


def tso_of(
    directory: MergedArgument = None,
    merged: Merged = None,
    at: At = None,
    position: PositionOption = None,
    node: Node = None,
    config: Config = None,
    output: Output = OutputFormat.text,
) -> None:
    """Tell which transactions a reader of a merged log has seen at a place."""
    text, option = _one_of(("--at", at), ("--position", position))
    from binlog_merge.files.remote_log import opened_log
    from binlog_merge.log.log import Log, find_place, find_transaction

    with opened_log(merged_of(directory, merged)) as folder:
        log = Log(folder)
        branch = None if node is None else _branch(node, text, config)
        if branch is None:
            place = parse_place(option, text)
            if position is not None and place.kind != "position":
                raise ConfigError(
                    f"--position: {text!r} is no position", remedy="write FILE:POS, for instance binlog.000001:158"
                )
        else:
            place = Place.at_key(option, branch.key)
        found = find_transaction(log, place) if place.kind == "position" else find_place(log, place)
    key = found.last.key if found.last is not None else None
    if output is not OutputFormat.text:
        tso = None if key is None else str(key.commit_tso)
        print_document({"at": text, "tso": tso, **_branch_values(branch), **_values_around(found)}, output)
    else:
        print("unknown" if key is None else key.commit_tso)
        _print(found, branch)


def _one_of(*given: tuple[str, str | None]) -> tuple[str, str]:
    """Return the text of the one option that is given, and its name. Raises ConfigError."""
    texts = [(text, name) for name, text in given if text is not None]
    if len(texts) != 1:
        names = " or ".join(name for name, _ in given)
        raise ConfigError(f"give one of {names}" if texts else f"{names} is missing", remedy="see --help")
    return texts[0]


def _place(text: str, option: str) -> Place:
    place = parse_place(option, text)
    if option == "--tso" and place.kind not in ("tso", "key"):
        raise ConfigError(f"--tso: {text!r} is no commit TSO", remedy="give --at for places of other kinds")
    return place


def _branch(node: str, text: str, config: Path | None) -> "FoundBranch":
    """Return the branch of a transaction that stands at FILE:POS of a node. Raises ConfigError."""
    place = parse_place("--at", text)
    if place.kind != "position":
        raise ConfigError(f"--at: {text!r} is no position in a file of node {node}", remedy="write FILE:POS")
    if config is None:
        raise ConfigError("--node needs --config, which says where the node's files are")
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.pipeline.transactions import find_branch

    return find_branch(MergeConfig.load(config), node, place.file, place.number)


def _branch_values(branch: "FoundBranch | None") -> dict[str, Any]:
    return {} if branch is None else {"branch": branch.to_dict()}


def _values_around(place: "Around") -> dict[str, Any]:
    return {
        "file": place.file,
        "position": place.position,
        "last": _values(place.last),
        "inside": _values(place.inside),
        "next": _values(place.following),
    }


def _values(found: "Transaction | None") -> dict[str, Any] | None:
    if found is None:
        return None
    from binlog_merge.log.place import time_of_key, time_text

    key = found.key
    return {
        "file": found.file,
        "start": found.start,
        "end": found.end,
        "gtid": found.gtid,
        "order_key": None if key is None else key.text(),
        "commit_tso": None if key is None else str(key.commit_tso),
        "time": None if key is None else time_of_key(key),
        "committed": time_text(found.commit_us),
        "ddl": found.ddl,
    }


def _print(place: "Around", branch: "FoundBranch | None") -> None:
    if branch is not None:
        print(
            f"  {'branch':<7} {branch.node} {branch.file}:{branch.start} to {branch.end}  order key {branch.key.text()}"
        )
    for title, found in (("last", place.last), ("inside", place.inside), ("next", place.following)):
        if found is None:
            continue
        key = "order key unknown" if found.key is None else f"order key {found.key.text()}"
        print(f"  {title:<7} {found.file}:{found.start} to {found.end}  {key}  GTID {found.gtid}")
        if found.ddl is not None:
            print(f"  {'':<7} {printable(' '.join(found.ddl.split()))[:160]}")
