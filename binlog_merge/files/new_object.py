"""A file's object that is put for the first time: nothing of unknown origin is overwritten."""

import uuid
from pathlib import Path

from binlog_merge.errors import OutputBusy
from binlog_merge.files.folder_objects import FolderObjects
from binlog_merge.files.objects import Objects


def put_new(objects: Objects | FolderObjects, file: str, data: Path, suffix: str = "", own: str | None = None) -> str:
    """Put a file that no record has yet, and return the name of its object.

    What is there under the file's name is taken if it has the same bytes; else the file gets a name of its own beside
    it, with `own` in it, or with what no other has. Raises OutputBusy, and what `Objects` raises.
    """
    name = f"{file}{suffix}"
    if not objects.create(name, data):
        name = f"{file}.{own or uuid.uuid4().hex[:12]}{suffix}"
        if not objects.create(name, data):
            raise OutputBusy("another merge writes under the same names", file=objects.place(name))
    return name
