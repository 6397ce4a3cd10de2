"""Sidecars: what readers have found out about a file of a merged log, kept beside it so that none has to look again.

    MERGED_DIR/.sparse/binlog.000001.places    where transactions stand (`log.index`)
    MERGED_DIR/.sparse/binlog.000001.keys      where rows of which tables and keys stand (`log.key_index`)

A file is "BLMSIDE", a version byte, CRC-32, the header's length, the header (JSON), and the arrays that it names. It
says of which bytes it speaks: the log and file by UUID, name, first transaction and size, the first and the last of
these bytes by SHA-256, and the time at which a closed file was last written. A sidecar that is damaged, or of other
bytes, is as good as none. So nothing depends on one, and it is replaced by rename, but not synced to disk.

Sidecars are kept where the folder is the user's own and can be written to: not in an object store, nor in an archive.
"""

import hashlib
import json
import os
import uuid
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from binlog_merge.errors import IoError
from binlog_merge.files.manifest import OutputFile
from binlog_merge.whole_files import write_whole

FOLDER: Final = ".sparse"
KINDS: Final = ("places", "keys")
LEAST_BYTES: Final = 4 << 20
"""Smaller files are read as fast as what a sidecar says about them."""
_MAGIC: Final = b"BLMSIDE\x01"
_HEAD: Final = 4096
_TAIL: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Covered:
    """The bytes of a file of which a sidecar speaks: its first `size`, which hold transactions up to `last_rank`.

    `written` is the mtime (ns) of a file that was closed, None of one that was still growing.
    """

    cluster_uuid: str
    name: str
    first_rank: int
    first_key: str
    last_rank: int
    size: int
    head: str
    tail: str
    written: int | None


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What a sidecar says: values for people and programs, and arrays of numbers or bytes."""

    covered: Covered
    values: Mapping[str, Any]
    arrays: Mapping[str, Any]


def covered_by(path: Path, cluster_uuid: str, file: OutputFile) -> Covered:
    """Return the bytes that a file has now, as published. Raises OSError."""
    head, tail = _digests(path, file.size)
    written = path.stat().st_mtime_ns if file.closed else None
    return Covered(
        cluster_uuid, file.name, file.first_rank, file.first_key, file.last_rank, file.size, head, tail, written
    )


def read_sidecar(folder: Path, kind: str, cluster_uuid: str, file: OutputFile) -> Sidecar | None:
    """Return what is known of a file in a folder of a log; None if there is nothing, or nothing that is true of it."""
    try:
        data = (folder / FOLDER / f"{file.name}.{kind}").read_bytes()
        sidecar = _unpacked(data)
        return sidecar if sidecar is not None and _is_of(sidecar.covered, folder, cluster_uuid, file) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_sidecar(folder: Path, kind: str, sidecar: Sidecar) -> None:
    """Keep a sidecar, if that is possible: it is worth no error."""
    path = folder / FOLDER / f"{sidecar.covered.name}.{kind}"
    with suppress(IoError):
        write_whole(path, _packed(sidecar), make_folder=True, writer=uuid.uuid4().hex)


def may_keep(folder: Path) -> bool:
    """Return whether sidecars are kept in a folder: it is the user's own, and can be written to."""
    try:
        return folder.stat().st_uid == os.geteuid() and os.access(folder, os.W_OK)
    except OSError:
        return False


def remove_sidecars(folder: Path, names: Iterable[str]) -> None:
    """Remove what is kept of files that go. What cannot be removed is of no file, and never read again."""
    for name in names:
        for kind in KINDS:
            with suppress(OSError):
                (folder / FOLDER / f"{name}.{kind}").unlink(missing_ok=True)


def keep_sidecars_of(folder: Path, names: Iterable[str]) -> None:
    """Remove all sidecars but those of these files, and the folder if none is left."""
    kept = {f"{name}.{kind}" for name in names for kind in KINDS}
    with suppress(OSError):
        for path in (folder / FOLDER).iterdir():
            if path.name not in kept:
                path.unlink(missing_ok=True)
        if not kept:
            (folder / FOLDER).rmdir()


def _is_of(covered: Covered, folder: Path, cluster_uuid: str, file: OutputFile) -> bool:
    same = (covered.cluster_uuid, covered.name, covered.first_rank, covered.first_key)
    if same != (cluster_uuid, file.name, file.first_rank, file.first_key):
        return False
    if covered.size > file.size or covered.last_rank > file.last_rank:
        return False
    path = folder / file.name
    if covered.written is not None and (covered.size != file.size or path.stat().st_mtime_ns != covered.written):
        return False
    return (covered.size != file.size or covered.last_rank == file.last_rank) and (
        _digests(path, covered.size) == (covered.head, covered.tail)
    )


def _digests(path: Path, size: int) -> tuple[str, str]:
    with path.open("rb") as source:
        head = source.read(min(_HEAD, size))
        source.seek(max(0, size - _TAIL))
        tail = source.read(min(_TAIL, size))
    return hashlib.sha256(head).hexdigest(), hashlib.sha256(tail).hexdigest()


def _packed(sidecar: Sidecar) -> bytes:
    arrays = {name: np.ascontiguousarray(array) for name, array in sidecar.arrays.items()}
    described = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    header = {"covered": asdict(sidecar.covered), "values": sidecar.values, "arrays": described}
    text = json.dumps(header).encode()
    body = len(text).to_bytes(4, "little") + text + b"".join(array.tobytes() for array in arrays.values())
    return _MAGIC + zlib.crc32(body).to_bytes(4, "little") + body


def _unpacked(data: bytes) -> Sidecar | None:
    """Return the content of a sidecar, None if it is damaged. Raises ValueError and others if it is no sidecar."""
    if data[:8] != _MAGIC or zlib.crc32(memoryview(data)[12:]) != int.from_bytes(data[8:12], "little"):
        return None
    at = 16 + int.from_bytes(data[12:16], "little")
    header = json.loads(data[16:at])
    arrays = {}
    for name, (kind, shape) in header["arrays"].items():
        count = int(np.prod(shape))
        arrays[name] = np.frombuffer(data, kind, count, at).reshape(shape)
        at += count * np.dtype(kind).itemsize
    return Sidecar(Covered(**header["covered"]), header["values"], arrays)
