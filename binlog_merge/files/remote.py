"""Remote file systems, as pyarrow reads them: opened by URI, listed by pattern, their errors explained."""

import fnmatch
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import urlsplit

from binlog_merge.config.uri import Uri, is_uri
from binlog_merge.errors import CHECK_PATH, IoError, MergeError, ObjectStoreRefused, ObjectStoreUnreachable
from binlog_merge.files.object_stores import S3Access, refused

MAGIC: Final = re.compile(r"[*?\[]")
OBJECT_SCHEMES: Final = ("az",)
"""The schemes that are read as outputs are (`files.objects`), not by pyarrow."""
_HADOOP_SCHEMES: Final = ("hdfs", "viewfs")
_CONNECT_SECONDS: Final = 3
_LIST_SECONDS: Final = 4
_READ_SECONDS: Final = 60
_LIST_ATTEMPTS: Final = 3
_READ_ATTEMPTS: Final = 8


def filesystem_of(uri: str) -> tuple[Any, str]:
    """Return pyarrow's file system for reading a URI, and the path in it. Raises what `object_stores` says."""
    parts = uri_of(uri)
    return _located(parts, _READ_SECONDS, _READ_ATTEMPTS)


def name_of(path: str) -> str:
    """Return the last part of a local path or a URI, without the URI's options."""
    return _pure(path).name


def folder_name_of(path: str) -> str:
    """Return the last part but one of a local path or a URI."""
    return _pure(path).parent.name


def list_files(pattern: str) -> list[str]:
    """Return the URIs of the remote files that match a pattern, sorted.

    Raises within seconds what is wrong, if the store cannot be asked: ObjectStoreRefused, ObjectStoreUnreachable.
    """
    from pyarrow.fs import FileSelector, FileType

    parts = uri_of(pattern)
    segments = parts.path.split("/")
    first = next((i for i, segment in enumerate(segments) if MAGIC.search(segment)), len(segments) - 1)
    folder, wanted = "/".join(segments[:first]), segments[first:]
    if parts.scheme in OBJECT_SCHEMES:
        return _list_objects(parts, folder, wanted)
    filesystem, path = _located(parts.with_path(folder), _LIST_SECONDS, _LIST_ATTEMPTS)
    path = path.rstrip("/")
    try:
        infos = filesystem.get_file_info(FileSelector(path, recursive=len(wanted) > 1))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise remote_error(error, pattern) from None
    names = (info.path[len(path) :].lstrip("/") for info in infos if info.type == FileType.File)
    found = sorted(name for name in names if _matches(name, wanted))
    return [str(parts.with_path(f"{folder}/{name}" if folder else name)) for name in found]


def _list_objects(parts: Uri, folder: str, wanted: list[str]) -> list[str]:
    from binlog_merge.files.objects import Objects

    objects = Objects(str(parts.with_path(folder)))
    objects.check()
    found = sorted(name for name in objects.below() if _matches(name, wanted))
    return [str(parts.with_path(f"{folder}/{name}" if folder else name)) for name in found]


def _matches(name: str, wanted: list[str]) -> bool:
    segments = name.split("/")
    return len(segments) == len(wanted) and all(map(fnmatch.fnmatchcase, segments, wanted))


def remote_error(error: OSError, uri: str, position: int | None = None) -> MergeError:
    """Return what an error of a remote file system means."""
    parts = uri_of(uri)
    known = refused(str(error), parts) if parts.scheme == "s3" else None
    if known is not None:
        return known.located(position=position)
    if (status := _GOOGLE_STATUS.search(str(error))) is not None and status[1] in _GOOGLE_ERRORS:
        return _GOOGLE_ERRORS[status[1]](uri, status[2].partition(" error_info=")[0], position)
    if isinstance(error, FileNotFoundError):
        return IoError("there is no such file", file=uri, position=position, remedy=CHECK_PATH)
    return IoError(error.strerror or str(error), file=uri, position=position)


def _google_refuses(uri: str, said: str, position: int | None) -> MergeError:
    remedy = "check the bucket and GOOGLE_APPLICATION_CREDENTIALS; `anonymous@` before the bucket reads a public one"
    return ObjectStoreRefused(
        f"the object store (Google) refuses it: {said}", file=uri, position=position, remedy=remedy
    )


def _google_is_away(uri: str, said: str, position: int | None) -> MergeError:
    remedy = (
        "check the network, and the credentials: GOOGLE_APPLICATION_CREDENTIALS; without them the machine's account "
        "is asked for, which only machines of Google have; `anonymous@` before the bucket reads a public one"
    )
    return ObjectStoreUnreachable(
        f"the object store (Google) does not answer: {said}", file=uri, position=position, remedy=remedy
    )


_GOOGLE_STATUS: Final = re.compile(r"google::cloud::Status\((\w+): (.*)", re.DOTALL)
"""How pyarrow prints an error of Google Cloud Storage."""
_GOOGLE_ERRORS: Final = {
    "UNAVAILABLE": _google_is_away,
    "DEADLINE_EXCEEDED": _google_is_away,
    "UNAUTHENTICATED": _google_refuses,
    "PERMISSION_DENIED": _google_refuses,
}


def _pure(path: str) -> PurePosixPath:
    return PurePosixPath(uri_of(path).path if is_uri(path) else path)


def uri_of(uri: str) -> Uri:
    """Take a URI apart. Raises IoError."""
    try:
        return Uri.parse(uri)
    except ValueError as error:
        raise IoError(str(error), file=uri, remedy=CHECK_PATH) from None


def _located(uri: Uri, seconds: int, attempts: int) -> tuple[Any, str]:
    try:
        filesystem, base = _opened(str(uri.with_path("")), seconds, attempts)
    except MergeError as error:
        raise error.located(file=str(uri)) from None
    return filesystem, f"{base.rstrip('/')}/{uri.path}"


@lru_cache(maxsize=64)
def _opened(place: str, seconds: int, attempts: int) -> tuple[Any, str]:
    """Return the file system of a URI without a path, and the path of its root. Each is opened once in a process."""
    from pyarrow.fs import FileSystem

    uri = Uri.parse(place)
    try:
        if uri.scheme == "s3":
            return _s3(S3Access.of(uri), seconds, attempts), uri.place
        if uri.scheme == "gs":  # pyarrow's own limit is 15 minutes, in which no signal is heard
            uri = replace(uri, options={"retry_limit_seconds": str(seconds), **uri.options})
        filesystem, base = FileSystem.from_uri(str(uri))
    except (ValueError, OSError) as error:
        known = refused(str(error), uri) if uri.scheme == "s3" else None
        raise known or IoError(f"cannot open the file system: {_gist(error)}", remedy=_opening(uri.scheme)) from None
    return filesystem, str(base)


def _gist(error: Exception) -> str:
    """Return an error's first line: libhdfs adds one for each place where it was looked for."""
    return str(error).partition("\n")[0]


def _opening(scheme: str) -> str | None:
    if scheme in _HADOOP_SCHEMES:
        return (
            "it takes Hadoop's own client: Java, libhdfs.so (ARROW_LIBHDFS_DIR names its folder) and "
            'CLASSPATH="$(hadoop classpath --glob)"; or copy the files to where this machine reads them'
        )
    return CHECK_PATH


def _s3(access: S3Access, seconds: int, attempts: int) -> Any:
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    server = None if access.endpoint is None else urlsplit(access.endpoint)
    return S3FileSystem(
        access_key=access.access_key,
        secret_key=access.secret_key,
        session_token=access.session_token,
        anonymous=access.anonymous,
        region=access.located(),
        scheme="https" if server is None else server.scheme,
        endpoint_override=None if server is None else server.netloc + server.path.rstrip("/"),
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=seconds,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=attempts),
    )
