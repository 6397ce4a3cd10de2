"""The object stores that outputs are written to: how each is opened, and what its answers mean.

s3://bucket/…       S3, and what speaks it
az://container/…    Azure Blob Storage; account and keys are those of the environment (AZURE_STORAGE_…)
gs://bucket/…       Google Cloud Storage; credentials are those of the environment (GOOGLE_…)

S3's credentials are those of the URI, else what AWS's own tools use: the environment, ~/.aws, the machine's role.
Whether there are any is looked up first: AWS's libraries ask the network of a machine without a role for minutes.
"""

import configparser
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from binlog_merge.config.uri import Uri
from binlog_merge.errors import MergeError, ObjectStoreRefused, ObjectStoreUnreachable
from binlog_merge.redaction import redacted

_CONNECT: Final = timedelta(seconds=3)
_LEAST_RETRY: Final = timedelta(seconds=15)


def opened_store(uri: Uri, answer: timedelta, retries: int) -> Any:
    """Return obstore's store for the objects below a URI; an answer may take so long. Raises ObjectStoreRefused."""
    settings: dict[str, Any] = {
        "prefix": uri.path.strip("/") or None,
        "client_options": {"allow_http": True, "connect_timeout": _CONNECT, "timeout": answer},
        "retry_config": {"max_retries": retries, "retry_timeout": max(answer, _LEAST_RETRY)},
    }
    if uri.scheme == "az":
        return _azure(uri, settings)
    if uri.scheme == "gs":
        return _google(uri, settings)
    return _s3(uri, settings)


def _s3(uri: Uri, settings: Mapping[str, Any]) -> Any:
    from obstore.store import S3Store

    access = S3Access.of(uri)
    given: Mapping[str, Any] = {
        "access_key_id": access.access_key,
        "secret_access_key": access.secret_key,
        "session_token": access.session_token,
        "endpoint": access.endpoint,
        "region": access.located(),
    }
    return S3Store(
        access.bucket,
        skip_signature=access.anonymous,
        virtual_hosted_style_request=False,
        **settings,
        **{name: value for name, value in given.items() if value is not None},
    )


def _azure(uri: Uri, settings: Mapping[str, Any]) -> Any:
    from obstore.store import AzureStore

    account = uri.options.get("account_name") or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if not account:
        raise ObjectStoreRefused(
            f"the account of container {uri.place!r} is not known",
            file=str(uri),
            remedy="set AZURE_STORAGE_ACCOUNT_NAME, or write ?account_name=NAME after the path",
        )
    address = uri.options.get("endpoint_override")
    known: Mapping[str, Any] = {} if address is None else {"endpoint": address}
    return AzureStore(uri.place, account_name=account, skip_signature=_anonymous(uri), **settings, **known)


def _google(uri: Uri, settings: Mapping[str, Any]) -> Any:
    from obstore.store import GCSStore

    address = uri.options.get("endpoint_override")
    if address is not None and _anonymous(uri):
        # So obstore sends no credentials, for writing either: what an emulator expects.
        key = {"gcs_base_url": address, "disable_oauth": True, "client_email": "", "private_key": "",
               "private_key_id": ""}  # fmt: skip
        return GCSStore(uri.place, service_account_key=json.dumps(key), **settings)
    known: Mapping[str, Any] = {} if address is None else {"base_url": address}
    return GCSStore(uri.place, skip_signature=_anonymous(uri), **settings, **known)


def _anonymous(uri: Uri) -> bool:
    return uri.options.get("anonymous", "").lower() in ("1", "true", "yes")


_ROLES: Final = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_METADATA: Final = "http://169.254.169.254"
_METADATA_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class S3Access:
    """How to reach a bucket. Without `access_key` the libraries find credentials by themselves."""

    bucket: str
    access_key: str | None
    secret_key: str | None
    session_token: str | None
    anonymous: bool
    region: str | None
    endpoint: str | None

    @classmethod
    def of(cls, uri: Uri) -> "S3Access":
        """Return what a URI and the environment say. Raises ObjectStoreRefused if there are no credentials."""
        options = uri.options
        user, _, secret = uri.login.partition(":")
        key, secret = (unquote(user), unquote(secret)) if uri.login else (
            options.get("access_key", ""),
            options.get("secret_key", ""),
        )  # fmt: skip
        token = options.get("session_token")
        anonymous = options.get("anonymous", "").lower() in ("1", "true", "yes")
        if not key and not anonymous:
            key, secret, token = _of_environment()
            if not key and not _others(os.environ):
                raise _without_credentials(uri)
        return cls(
            uri.place, key or None, secret or None, token or None, anonymous,
            _region(options),
            _endpoint(options),
        )  # fmt: skip

    def located(self) -> str:
        """Return the region; AWS is asked for one that is not given. Raises ValueError and OSError as pyarrow does."""
        if self.region is not None or self.endpoint is not None:
            return self.region or "us-east-1"
        return _region_of(self.bucket)


@lru_cache(maxsize=64)
def _region_of(bucket: str) -> str:
    from pyarrow.fs import resolve_s3_region

    return str(resolve_s3_region(bucket))


def _region(options: Mapping[str, str]) -> str | None:
    return options.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def _endpoint(options: Mapping[str, str]) -> str | None:
    variables = (os.environ.get(name) for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
    found = options.get("endpoint_override") or next(filter(None, variables), None)
    if found is None or "://" in found:
        return found
    return f"{options.get('scheme', 'https')}://{found}"


def _of_environment() -> tuple[str, str, str | None]:
    """Return key, secret and session token of the environment or of the profile in ~/.aws/credentials."""
    if os.environ.get("AWS_ACCESS_KEY_ID") and os.environ.get("AWS_SECRET_ACCESS_KEY"):
        return (
            os.environ["AWS_ACCESS_KEY_ID"],
            os.environ["AWS_SECRET_ACCESS_KEY"],
            os.environ.get("AWS_SESSION_TOKEN"),
        )
    for section in _profile():
        if section.get("aws_access_key_id") and section.get("aws_secret_access_key"):
            token = section.get("aws_session_token")
            return section["aws_access_key_id"], section["aws_secret_access_key"], token
    return "", "", None


def _profile() -> Iterator[Mapping[str, str]]:
    """Yield the sections of the chosen profile in AWS's files."""
    profile = os.environ.get("AWS_PROFILE") or "default"
    for variable, name in (("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ("AWS_CONFIG_FILE", "config")):
        path = Path(os.environ.get(variable) or f"~/.aws/{name}").expanduser()
        found = configparser.RawConfigParser()
        try:
            found.read(path)
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue  # AWS's own tools pass over it, too
        for section in (profile, f"profile {profile}"):
            if found.has_section(section):
                yield found[section]


def _others(environment: Mapping[str, str]) -> bool:
    """Return whether there may be credentials that only the libraries can get: a role, or a profile that names one."""
    if any(environment.get(name) for name in _ROLES) or any(_is_role(section) for section in _profile()):
        return True
    if environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return False
    service = urlsplit(environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _METADATA)
    try:
        socket.create_connection((service.hostname or "", service.port or 80), _METADATA_SECONDS).close()
    except OSError:
        return False
    return True


def _is_role(section: Mapping[str, str]) -> bool:
    return any(name in section for name in ("role_arn", "credential_process", "sso_start_url", "sso_session"))


def _without_credentials(uri: Uri) -> ObjectStoreRefused:
    return ObjectStoreRefused(
        f"there are no credentials for bucket {uri.place!r}",
        remedy="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, here and on the executors; for a "
        "public bucket write ?anonymous=true after the path",
    )


_REGION: Final = re.compile(r"expecting '([\w-]+)'|<Region>([\w-]+)</Region>|located in '([\w-]+)'")
_BY_AZURE_AND_GOOGLE: Final = (
    ("bucket", re.compile(r"NoSuchBucket|ContainerNotFound|specified (?:container|bucket) does not exist")),
    ("credentials", re.compile(
        r"AuthenticationFailed|InvalidAuthenticationInfo|Invalid Access Key|InvalidSecurity|token request|"
        r"\b401 Unauthorized|Error decoding|Invalid (?:RSA|service account)|NoAuthenticationInformation|"
        r"could not find credentials"
    )),
    ("denied", re.compile(r"AccessDenied|AuthorizationFailure|AuthorizationPermissionMismatch|\b403 Forbidden")),
    ("silent", re.compile(
        r"error sending request|[Tt]imed? ?out|[Cc]onnection (?:refused|reset|closed)|ServerBusy|SlowDown|"
        r"InternalError|\b50\d |\b429 |dns error|error decoding response body|IncompleteBody|RetryError|exceeded"
    )),
)  # fmt: skip
_BY_S3: Final = (
    ("bucket", re.compile(
        r"NO_SUCH_BUCKET|NoSuchBucket|RESOURCE_NOT_FOUND during List|specified bucket (?:does not exist|is not valid)"
    )),
    ("region", re.compile(
        r"PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint|HTTP status 301|\b301 Moved|"
        r"located in '|Received redirect"
    )),
    ("credentials", re.compile(
        r"INVALID_ACCESS_KEY_ID|InvalidAccessKeyId|SIGNATURE_DOES_NOT_MATCH|SignatureDoesNotMatch|InvalidToken|"
        r"ExpiredToken|INVALID_CLIENT_TOKEN_ID|InvalidClientTokenId|UNRECOGNIZED_CLIENT|INVALID_SIGNATURE|"
        r"TokenRefreshRequired|RequestTimeTooSkewed|REQUEST_TIME_TOO_SKEWED|\b401 Unauthorized"
    )),
    ("denied", re.compile(r"ACCESS_DENIED|AccessDenied|HTTP status 403|\b403 Forbidden|AllAccessDisabled")),
    ("silent", re.compile(
        r"NETWORK_CONNECTION|curlCode|error sending request|[Tt]imed? ?out|[Cc]onnection (?:refused|reset|closed)|"
        r"SLOW_DOWN|SlowDown|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|InternalError|HTTP status 5\d\d|\b50\d |"
        r"REQUEST_TIMEOUT|dns error|error decoding response body|IncompleteBody|RetryError|exceeded"
    )),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of stores: how its answers say what is wrong, what it is called, and what a user can do."""

    causes: tuple[tuple[str, re.Pattern[str]], ...]
    bucket: str
    server: str
    make: str
    no_credentials: str
    set_credentials: str
    allow: str


def _kind(bucket: str, server: str, variables: str) -> _Kind:
    return _Kind(
        _BY_AZURE_AND_GOOGLE,
        bucket,
        server,
        f"correct its name, or make the {bucket}",
        "there are no credentials for {} that the store accepts",
        f"set or correct {variables}… in the environment; the machine's clock must be right",
        "allow to list, read and, for an output, to write and delete there; or use others",
    )


_KINDS: Final = {
    "az": _kind("container", "Azure", "AZURE_STORAGE_"),
    "gs": _kind("bucket", "Google Cloud Storage", "GOOGLE_"),
}
_S3: Final = _Kind(
    _BY_S3,
    "bucket",
    "AWS",
    "correct the bucket's name, or make the bucket; another store than AWS's needs endpoint_override",
    "the store does not accept the credentials for {}",
    "correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN, which expires), or the profile; the "
    "machine's clock must be right",
    "allow s3:ListBucket and s3:GetObject there, for an output s3:PutObject and s3:DeleteObject, too; or use others",
)


def refused(text: str, uri: Uri, what: str = "read") -> MergeError | None:
    """Return the error that an answer of a store means, by the words of pyarrow or obstore; None if it is another."""
    kind = _KINDS.get(uri.scheme, _S3)
    bucket, where = f"{kind.bucket} {uri.place!r}", str(uri)
    match next((name for name, pattern in kind.causes if pattern.search(text)), None):
        case None:
            return None
        case "bucket":
            return ObjectStoreRefused(f"there is no {bucket}", file=where, remedy=kind.make)
        case "region":
            found = _REGION.search(text)
            right = next((group for group in found.groups() if group), None) if found is not None else None
            there = f"it is in {right}" if right else "the store says that it is in another one"
            name = right or "REGION"
            return ObjectStoreRefused(
                f"{bucket} is not in region {_region(uri.options) or 'us-east-1'}: {there}",
                file=where,
                remedy=f"write ?region={name} after the path, or set AWS_REGION={name}",
            )
        case "credentials":
            no = f"{kind.no_credentials.format(bucket)}: {gist(text)}"
            return ObjectStoreRefused(no, file=where, remedy=kind.set_credentials)
        case "denied":
            return ObjectStoreRefused(f"these credentials may not {what} {bucket}", file=where, remedy=kind.allow)
    server = uri.options.get("endpoint_override") or kind.server
    return ObjectStoreUnreachable(f"the object store ({server}) does not answer as it should: {gist(text)}", file=where)


_XML: Final = re.compile(r"<Code>([^<]+)</Code>(?:.*?<Message>([^<]*)</Message>)?", re.DOTALL)
_ARROW: Final = re.compile(r"AWS Error (.*)", re.DOTALL)


def gist(text: str) -> str:
    """Return the store's own words in an error's text, in one line."""
    if (found := _XML.search(text)) is not None:
        return redacted(": ".join(part for part in found.groups() if part))
    words = _ARROW.search(text)
    line = " ".join((words[1] if words is not None else text.partition("\n\nDebug source")[0]).split())
    return redacted(re.sub(r" ?\(Request ID: [^)]*\)", "", line))
