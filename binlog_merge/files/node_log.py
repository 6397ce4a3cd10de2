"""The files of one node as one log: nothing missing in it, nothing twice, and where it ends in each server's files."""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import PurePosixPath

from binlog_merge.errors import ConfigError, DuplicateFile, MissingFile, TruncatedEvent
from binlog_merge.files.node_file import FoundFile, IgnoredFile
from binlog_merge.files.servers import FollowingServer

LEFT = "the node had failed over to another server, whose files have what follows"
UNBORN = "the last file, and it has no complete event yet"


def log_of(files: list[FoundFile], servers: Sequence[FollowingServer], ignored: list[IgnoredFile]) -> list[FoundFile]:
    """Return the files of a node that make its log, checked; `files` are in order."""
    log: list[FoundFile] = []
    for number, of_server in groupby(files, key=lambda file: file.server):
        own = list(of_server)
        _check_numbers(own)
        own = _without_unborn(own, ignored)
        log += _up_to_the_next(own, number, servers, ignored)
    return log


def with_ends(
    files: Sequence[FoundFile], servers: Sequence[FollowingServer]
) -> Iterator[tuple[FoundFile, tuple[str, int] | None]]:
    """Yield each file, with the end of its server's log if that is in it."""
    for file in files:
        end = _end_of(file.server, servers)
        yield file, end if end is not None and end[0] == PurePosixPath(file.name).name else None


def _end_of(number: int, servers: Sequence[FollowingServer]) -> tuple[str, int] | None:
    """Return (file, position) where the log of a server ends that the node has left; None for the one that it has."""
    folder = servers[number - 1].folder if number else ""
    ends = (server.ended for server in servers[number:] if server.ended is not None)
    return next((end[1:] for end in ends if end[0] == folder), None)


def _up_to_the_next(
    files: list[FoundFile], number: int, servers: Sequence[FollowingServer], ignored: list[IgnoredFile]
) -> list[FoundFile]:
    """Leave out the files behind the one in which the node left a server. Raises MissingFile if that is missing."""
    end = _end_of(number, servers)
    if end is None or not files:
        return files
    at = next((index for index, file in enumerate(files) if PurePosixPath(file.name).name == end[0]), None)
    if at is None or files[at].size < end[1]:
        what = f"{end[0]} is missing" if at is None else f"{end[0]} has {files[at].size} bytes only"
        raise MissingFile(
            f"{what}: the node failed over to another server after {end[0]}:{end[1]}",
            node=files[0].node,
            file=files[-1 if at is None else at].path,
            remedy="copy the captured files of all the node's servers",
        )
    ignored += [IgnoredFile(file.node, file.path, LEFT) for file in files[at + 1 :]]
    return files[: at + 1]


def _check_numbers(files: list[FoundFile]) -> None:
    """Refuse duplicate numbers, more than one series, and gaps in the numbers of a node's files."""
    for before, after in pairwise(files):
        if before.number == after.number and before.series == after.series:
            alike = "identical beginnings" if same_beginning(before, after) else "different contents"
            raise DuplicateFile(
                f"two files have the number of {after.name}: {before.path} and {after.path} ({alike})",
                node=after.node,
                file=after.path,
            )
    series = {file.series: file for file in files}
    if len(series) > 1:
        names = ", ".join(f"{name}.*" for name in sorted(series))
        raise ConfigError(
            f"the node's files belong to {len(series)} series: {names}",
            node=files[0].node,
            remedy="a node has one series of binlog files; narrow its `files` pattern",
        )
    for before, after in pairwise(files):
        if after.number - before.number > 1:
            digits = len(PurePosixPath(before.name).name) - len(before.series) - 1
            first, last = (f"{before.series}.{n:0{digits}d}" for n in (before.number + 1, after.number - 1))
            missing = f"{first} is" if first == last else f"{first} to {last} are"
            raise MissingFile(
                f"{missing} missing between {before.name} and {after.name}", node=after.node, file=after.path
            )


def _without_unborn(files: list[FoundFile], ignored: list[IgnoredFile]) -> list[FoundFile]:
    """Leave out the last file if it does not have its first event yet; any other file without one is damaged."""
    for file in files[:-1]:
        if file.head is None:
            raise TruncatedEvent(
                "the file ends inside its first event, and a later file exists",
                node=file.node,
                file=file.path,
                position=file.size,
            )
    if files and files[-1].head is None:
        ignored.append(IgnoredFile(files[-1].node, files[-1].path, UNBORN))
        return files[:-1]
    return files


def same_beginning(a: FoundFile, b: FoundFile) -> bool:
    """Return whether two files are copies of the same file.

    A shorter file may be an older copy, so only the bytes that both have are compared. Two files without events after
    their head are not called copies: there is nothing in them to duplicate.
    """
    if a.head is None or b.head is None:
        return False
    if (a.head.identity, a.head.previous_gtids) != (b.head.identity, b.head.previous_gtids):
        return False
    shorter, longer = sorted((a.head.first_events, b.head.first_events), key=len)
    return bool(shorter) and longer.startswith(shorter)
