"""`binlog-merge position-of` and `tso-of`: convert a commit TSO to a position in a merged log, and back."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from binlog_merge.cli.output import OutputFormat, print_json, printable
from binlog_merge.cli.paths import output_place
from binlog_merge.cli.position_log import MergedLog, Transaction, boundaries
from binlog_merge.errors import ConfigError, OutsideLog
from snapshot_store.tso import OrderKey, carries_time, tso_millis

POSITION_HELP = """Find the place in a merged log behind everything that committed at a TSO or before.

Whoever has all data up to that TSO (a backup, a snapshot, a stopped consumer) goes on reading there: nothing is missed,
nothing comes twice. The first line is FILE:POS, as SOURCE_LOG_FILE and SOURCE_LOG_POS take it.

\b
  binlog-merge position-of --tso 7507804165234491392 merged/
  binlog-merge position-of --tso 7507804165234491392 merged/ -o json

The TSO may also be an order key of 54 digits, as the log's CTS texts have them: then it is the place behind that very
transaction. A TSO before the first transaction is refused, and so is one behind what the log is known to hold."""

TSO_HELP = """Tell which transactions a reader of a merged log has seen at a position: all up to this commit TSO.

A position is where an event begins or a file ends. One inside a transaction counts as before it, since nothing of it is
visible yet; the answer says so.

\b
  binlog-merge tso-of --position binlog.000001:108241 merged/
  binlog-merge tso-of --position binlog.000001:108241 merged/ -o json"""

Directory = Annotated[
    str, typer.Argument(help="The directory that `merge --out` wrote.", metavar="MERGED_DIR", parser=output_place)
]
TsoOption = Annotated[str, typer.Option("--tso", help="A commit TSO, or an order key of 54 digits.", metavar="TSO")]
PositionOption = Annotated[str, typer.Option("--position", help="A place in the merged log.", metavar="FILE:POS")]
Format = Annotated[OutputFormat, typer.Option("-o", "--output", help="Text, or one JSON object.")]


@dataclass(frozen=True, slots=True)
class Place:
    """A position in the log: the transaction before it, the one it is inside of, and the next one."""

    file: str
    position: int
    last: Transaction | None
    inside: Transaction | None
    following: Transaction | None


def position_of(directory: Directory, tso: TsoOption, output: Format = OutputFormat.text) -> None:
    """Find the place in a merged log behind everything that committed at a TSO or before."""
    from binlog_merge.files.remote_log import opened_log

    with opened_log(directory) as folder:
        place = find_position(MergedLog(folder), _key(tso))
    if output == OutputFormat.json:
        print_json({"tso": tso, **_place_values(place)})
    else:
        print(f"{place.file}:{place.position}")
        _print(place)


def tso_of(directory: Directory, position: PositionOption, output: Format = OutputFormat.text) -> None:
    """Tell which transactions a reader of a merged log has seen at a position."""
    file, number = _position(position)
    from binlog_merge.files.remote_log import opened_log

    with opened_log(directory) as folder:
        place = find_transaction(MergedLog(folder), file, number)
    key = place.last.key if place.last is not None else None
    if output == OutputFormat.json:
        print_json({"tso": None if key is None else key.commit_tso, **_place_values(place)})
    else:
        print("unknown" if key is None else key.commit_tso)
        _print(place)


def find_position(log: MergedLog, limit: OrderKey) -> Place:
    """Return the position after the last transaction whose key is at most `limit`. Raises OutsideLog."""
    first, end = OrderKey.parse(log.files[0].first_key), OrderKey.parse(log.files[-1].last_key)
    gone = log.state.gone
    if limit < first and gone is not None and gone.last_key is not None:
        if limit < OrderKey.parse(gone.last_key):
            from binlog_merge.log.reader import removed_before

            raise removed_before(log.folder.place(), gone, _name(limit))
        following = next(log.transactions(log.files[0]))
        return Place(following.file, following.start, None, None, following)
    if limit < first:
        raise OutsideLog(f"{_name(limit)} is before the log, which begins at {_name(first)}")
    publish = log.state.last
    watermark = OrderKey.parse(publish.watermark) if publish is not None and publish.watermark else end
    if limit > max(end, watermark.previous()) and not _same_moment(limit, end):
        raise OutsideLog(
            f"{_name(limit)} is behind the log, which is known to be whole up to {_name(max(end, watermark))}",
            remedy="merge on, then ask again",
        )
    last: Transaction | None = None
    for found in _from_file_of(log, limit):
        # A DDL without a known key is placed after the position, for the user to decide.
        if found.key is None or found.key > limit:
            if found.key is not None or not _later_within(log, found, limit):
                return _place_after(last, found)
            continue
        last = found
    return _place_after(last, None)


def _later_within(log: MergedLog, ddl: Transaction, limit: OrderKey) -> bool:
    """Return whether the next transaction with a key is at most at `limit`, so that this DDL is, too."""
    later = (t for t in log.transactions(log.file(ddl.file)) if t.start > ddl.start and t.key is not None)
    following = next(later, None)
    return following is not None and following.key is not None and following.key <= limit


def _from_file_of(log: MergedLog, limit: OrderKey) -> Iterator[Transaction]:
    """Yield the transactions from the last file on whose first key is at most `limit`."""
    begun = [number for number, file in enumerate(log.files) if OrderKey.parse(file.first_key) <= limit]
    for file in log.files[begun[-1] :]:
        yield from log.transactions(file)


def _place_after(last: Transaction | None, following: Transaction | None) -> Place:
    if last is None:
        raise OutsideLog("no transaction of the log is that early")
    return Place(last.file, last.end, last, None, following)


def find_transaction(log: MergedLog, name: str, position: int) -> Place:
    """Return the transactions around a position. Raises ConfigError for an invalid one, OutsideLog before the first."""
    file = log.file(name)
    if position > file.size or position < 4:
        raise ConfigError(f"{name} ends at {file.size}: there is no position {position}", file=log.folder.place(name))
    path = log.path(file)
    number = log.files.index(file)
    last, inside, following = None, None, None
    for found in log.transactions(file):
        if found.end <= position:
            last = found
        elif found.start < position:
            inside = found
        else:
            following = found
            break
    begin = inside.start if inside is not None else last.end if last is not None else 4
    stop = inside.end if inside is not None else following.start if following is not None else file.size
    if position not in (begin, stop, *boundaries(path, begin, stop)):
        before = max((p for p in boundaries(path, begin, stop) if p < position), default=begin)
        raise ConfigError(
            f"position {position} of {name} is inside an event, which begins at {before}",
            file=log.folder.place(name),
            position=position,
            remedy="give a position where an event begins; `binlog-merge inspect` shows them as `# at`",
        )
    if last is None and number > 0:
        last = deque(log.transactions(log.files[number - 1]), maxlen=1).pop()
    if following is None and number + 1 < len(log.files):
        following = next(log.transactions(log.files[number + 1]), None)
    if last is None:
        raise OutsideLog(
            f"no transaction stands before {name}:{position}", file=log.folder.place(name), position=position
        )
    return Place(name, position, last, inside, following)


def _same_moment(limit: OrderKey, end: OrderKey) -> bool:
    """Return whether `limit` is a TSO only, and that of the log's last transaction."""
    return limit.commit_tso == end.commit_tso


def _key(text: str) -> OrderKey:
    """Parse an order key, or a TSO as the greatest key with it."""
    if re.fullmatch(r"\d{54}", text, re.ASCII):
        return OrderKey.parse(text)
    if re.fullmatch(r"\d{1,19}", text, re.ASCII) and int(text) < 1 << 63:
        return OrderKey(int(text), (1 << 63) - 1, 9_999_999_999, 999_999)
    raise ConfigError(
        f"--tso: {text!r} is no commit TSO",
        remedy="give a number below 2^63, or an order key of 54 digits as the log's CTS texts have it",
    )


def _position(text: str) -> tuple[str, int]:
    file, colon, number = text.rpartition(":")
    if not (colon and file and re.fullmatch(r"\d{1,18}", number, re.ASCII)):
        raise ConfigError(
            f"--position: {text!r} is no position", remedy="write FILE:POS, for instance binlog.000001:158"
        )
    return Path(file).name, int(number)


def _name(key: OrderKey) -> str:
    time = _time(key)
    return f"TSO {key.commit_tso}" + (f" ({time})" if time else "")


def _time(key: OrderKey) -> str | None:
    from datetime import UTC, datetime, timedelta

    if not carries_time(key.commit_tso):
        return None
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=tso_millis(key.commit_tso))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _place_values(place: Place) -> dict[str, Any]:
    return {
        "file": place.file,
        "position": place.position,
        "last": _values(place.last),
        "inside": _values(place.inside),
        "next": _values(place.following),
    }


def _values(found: Transaction | None) -> dict[str, Any] | None:
    if found is None:
        return None
    key = found.key
    return {
        "file": found.file,
        "start": found.start,
        "end": found.end,
        "gtid": found.gtid,
        "order_key": None if key is None else key.text(),
        "commit_tso": None if key is None else key.commit_tso,
        "time": None if key is None else _time(key),
        "ddl": found.ddl,
    }


def _print(place: Place) -> None:
    for title, found in (("last", place.last), ("inside", place.inside), ("next", place.following)):
        if found is None:
            continue
        key = "order key unknown" if found.key is None else f"order key {found.key.text()}"
        print(f"  {title:<7} {found.file}:{found.start} to {found.end}  {key}  GTID {found.gtid}")
        if found.ddl is not None:
            print(f"  {'':<7} {printable(' '.join(found.ddl.split()))[:160]}")
