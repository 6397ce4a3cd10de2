"""What executors render, where they share an object store with the driver and nothing else.

A new file is put under its name (`sent`), and the driver never sees its bytes. What an open file grows by goes to the
driver, which puts the file anew:

    PREFIX/parts/ATTEMPT/binlog.000001      one of a run that goes on, or was killed: the next run removes it

No reader looks there. A task that runs twice writes the same bytes twice.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from binlog_merge.config.uri import Uri
from binlog_merge.errors import OutputBusy
from binlog_merge.files.intact import tail_of
from binlog_merge.files.new_object import put_new
from binlog_merge.files.objects import Objects

PARTS: Final = "parts"


@dataclass(frozen=True, slots=True)
class Sent:
    """A new file whose bytes are in the store: the name of its object, its size, and what `intact.tail_of` says."""

    name: str
    size: int
    tail: str


def sent(store: str, file: str, path: Path) -> Sent:
    """Put a new file of an output. Raises what `Objects` raises, and OutputBusy."""
    size = path.stat().st_size
    return Sent(put_new(Objects(store), file, path), size, tail_of(path, size))


def part_uri(store: str, attempt: str, name: str) -> str:
    """Return the URI of the object in which a file of an output goes to the driver."""
    uri = Uri.parse(store)
    return str(uri.with_path(f"{uri.path.rstrip('/')}/{PARTS}/{attempt}/{name}"))


def send_part(uri: str, path: Path) -> None:
    """Write a file to an object. Raises what `Objects` raises."""
    objects, name = _split(uri)
    objects.overwrite(name, path)


def take_part(uri: str, path: Path, size: int) -> None:
    """Fetch a file from its object, and remove this.

    Raises OutputBusy if it is not there: another run has begun, and removed it.
    """
    objects, name = _split(uri)
    if objects.fetch(name, path, size) is None:
        raise OutputBusy(
            "another merge into this output has begun, and removed what this one has written",
            file=objects.place(name),
            remedy="let one merge at a time write to an output; run it again, and it goes on from there",
        )
    objects.delete([name])


def _split(uri: str) -> tuple[Objects, str]:
    whole = Uri.parse(uri)
    folder, _, name = whole.path.rpartition("/")
    return Objects(str(whole.with_path(folder))), name
