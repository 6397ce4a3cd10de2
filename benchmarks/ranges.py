"""A front of moto's S3 server: moto itself reads an object as a whole for each range of it that is asked for."""

import os
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Ranges:
    """A WSGI application that answers `Range: bytes=A-B` itself, and leaves everything else to the one behind it."""

    def __init__(self, behind: Application) -> None:
        self._behind = behind

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        first, _, last = environ.get("HTTP_RANGE", "").removeprefix("bytes=").partition("-")
        bucket, _, key = unquote(environ["PATH_INFO"]).lstrip("/").partition("/")
        if environ["REQUEST_METHOD"] != "GET" or not (first.isdecimal() and last.isdecimal() and key):
            return self._behind(environ, start_response)
        found = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].get_object(bucket, key)
        if found is None or int(first) >= found.size:
            return self._behind(environ, start_response)
        # With fileno() the object goes to a file, if it was in memory.
        data = os.pread(found._value_buffer.fileno(), int(last) - int(first) + 1, int(first))
        headers = {
            "Content-Length": str(len(data)),
            "Content-Range": f"bytes {first}-{int(first) + len(data) - 1}/{found.size}",
            "Content-Type": "binary/octet-stream",
            "ETag": found.etag,
            "Last-Modified": found.last_modified_RFC1123,
        }
        start_response("206 PARTIAL CONTENT", list(headers.items()))
        return [data]
