"""Rendered files on their way from an executor to the driver, where both share an object store and nothing else.

    PREFIX/parts/ATTEMPT/binlog.000001      one of a run that goes on, or was killed: the next run removes it

No reader looks there. A task that runs twice writes the same bytes twice.
"""

from pathlib import Path
from typing import Final

from binlog_merge.config.uri import Uri
from binlog_merge.errors import OutputBusy
from binlog_merge.files.objects import Objects

PARTS: Final = "parts"


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
