"""URIs of files: their parts, and which kinds can stand where.

    s3://bucket/folder/mysql-bin.*?region=eu-west-1&endpoint_override=http://127.0.0.1:9000

What is behind a `?` is options if it begins with `name=`; any other `?` is a wildcard. In the path, %XX stands for a
byte, as in any URI; so a `?` or `%` of a name is written %3F or %25.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self
from urllib.parse import quote, unquote

from binlog_merge.errors import ConfigError
from binlog_merge.redaction import redacted

_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_OPTIONS: Final = re.compile(r"\?(?=[A-Za-z_][\w.-]*=)")

SAME: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "azure": "az"}
"""Schemes that others write for the same thing, Hadoop for one."""
INPUT_SCHEMES: Final = ("s3", "gs", "az", "hdfs", "viewfs", "abfs", "abfss", "file")
OUTPUT_SCHEMES: Final = ("s3", "gs", "az")
S3_OPTIONS: Final = (
    "region",
    "endpoint_override",
    "scheme",
    "access_key",
    "secret_key",
    "session_token",
    "anonymous",
)

AZURE_OPTIONS: Final = ("account_name", "endpoint_override", "anonymous")


@dataclass(frozen=True, slots=True)
class Uri:
    """A URI in parts: `place` is the bucket or host, `path` what follows it, without escapes."""

    scheme: str
    login: str
    place: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Take a URI apart. Raises ValueError for what is none, and for options of S3 that are not known."""
        match = _URI.fullmatch(text)
        if match is None:
            raise ValueError(f"{redacted(text)!r} is no URI")
        scheme = SAME.get(match[1].lower(), match[1].lower())
        name, *behind = _OPTIONS.split(match[2], maxsplit=1)
        authority, _, path = name.partition("/")
        login, _, place = authority.rpartition("@")
        pairs = (pair.partition("=") for pair in (behind[0].split("&") if behind else ()) if pair)
        options = {unquote(key): unquote(value) for key, _, value in pairs}
        if scheme == "s3":
            _check_s3(login, place, options)
        elif scheme == "az":
            _check_azure(login, place, options)
        return cls(scheme, login, place, unquote(path), options)

    def with_path(self, path: str) -> Self:
        """Return the URI of another path in the same place, with the same login and options."""
        return replace(self, path=path)

    def __str__(self) -> str:
        login = f"{self.login}@" if self.login else ""
        options = "&".join(f"{key}={quote(value, safe=':/')}" for key, value in self.options.items())
        path = quote(self.path, safe="/!$'()*+,;=:@[]", errors="surrogateescape")
        return f"{self.scheme}://{login}{self.place}/{path}{f'?{options}' if options else ''}"


def _check_s3(login: str, place: str, options: Mapping[str, str]) -> None:
    if not place:
        raise ValueError("an s3:// URI has no bucket; write s3://bucket/path")
    if ":" in place:
        raise ValueError(
            "no bucket's name has a colon; a / in a secret key is written %2F, and keys are better given as "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if unknown := sorted(set(options) - set(S3_OPTIONS)):
        raise ValueError(f"unknown option {', '.join(unknown)} of an s3:// URI; known are {', '.join(S3_OPTIONS)}")
    if bool(options.get("access_key")) != bool(options.get("secret_key")):
        raise ValueError("of access_key and secret_key an s3:// URI has only one")


def _check_azure(login: str, place: str, options: Mapping[str, str]) -> None:
    if not place:
        raise ValueError("an az:// URI has no container; write az://container/path")
    if login:
        raise ValueError("keys do not belong in an az:// URI; set AZURE_STORAGE_ACCOUNT_NAME and _KEY")
    if unknown := sorted(set(options) - set(AZURE_OPTIONS)):
        raise ValueError(f"unknown option {', '.join(unknown)} of an az:// URI; known are {', '.join(AZURE_OPTIONS)}")


def is_uri(path: str) -> bool:
    """Return whether `path` is a URI (s3://, hdfs://, file://…) rather than a local path."""
    return _URI.match(path) is not None


def scheme_of(uri: str) -> str:
    """Return the scheme of a URI, as `SAME` has it."""
    scheme = uri.partition("://")[0].lower()
    return SAME.get(scheme, scheme)


def local_path(path: str) -> str | None:
    """Return the local path of `path` (file:// included), or None if it is remote."""
    if not is_uri(path):
        return path
    scheme, rest = path.split("://", 1)
    host, slash, name = rest.partition("/")
    return unquote(slash + name) if scheme.lower() == "file" and host in ("", "localhost") and slash else None


def check_input(uri: str) -> str:
    """Return the path or URI of input files. Raises ValueError for a kind that cannot be read."""
    if not is_uri(uri):
        return uri
    if scheme_of(uri) not in INPUT_SCHEMES:
        raise ValueError(
            f"{redacted(uri)!r}: {scheme_of(uri)}:// cannot be read; a node's files are local, or at "
            f"{', '.join(f'{scheme}://' for scheme in INPUT_SCHEMES)}"
        )
    if scheme_of(uri) == "file" and local_path(uri) is None:
        raise ValueError(f"{uri!r} is on another host; write file:///path, or mount it")
    return _parsable(uri)


def _parsable(uri: str) -> str:
    try:
        Uri.parse(uri)
    except ValueError as error:
        raise ValueError(f"{redacted(uri)!r}: {error}") from None
    return uri


def only_local(path: str) -> str:
    """Return the local path that a path or a file:// URI names. Raises ValueError for any other URI."""
    local = local_path(path)
    if local is None:
        raise ValueError(
            f"{redacted(path)!r}: {scheme_of(path)}:// is not supported here, only a local (or mounted) path"
        )
    return local


def check_output(place: str) -> str:
    """Return the path or URI of an output. Raises ValueError for a kind that cannot be written."""
    if not is_uri(place) or scheme_of(place) == "file":
        return only_local(place)
    if scheme_of(place) not in OUTPUT_SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in OUTPUT_SCHEMES)
        raise ValueError(f"{redacted(place)!r}: an output is a local (or mounted) folder, or at {known}")
    return _parsable(place)


def checked_local(path: str, remedy: str = "copy it here, or mount it") -> str:
    """Return the local path that a path or a file:// URI names. Raises ConfigError for any other URI."""
    try:
        return only_local(path)
    except ValueError as error:
        raise ConfigError(str(error), remedy=remedy) from None
