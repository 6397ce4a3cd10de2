"""The object stores that outputs are written to: how each is opened, and what its answers mean.

s3://bucket/…       `files.s3`
az://container/…    Azure Blob Storage; account and keys are those of the environment (AZURE_STORAGE_…)
gs://bucket/…       Google Cloud Storage; credentials are those of the environment (GOOGLE_…)
"""

import json
import os
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from binlog_merge.config.uri import Uri
from binlog_merge.errors import MergeError, ObjectStoreRefused, ObjectStoreUnreachable
from binlog_merge.files.s3 import S3Access, gist
from binlog_merge.files.s3 import refused as refused_by_s3

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


_CAUSES: Final = (
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
_NAMES: Final = {"az": ("container", "Azure", "AZURE_STORAGE_"), "gs": ("bucket", "Google Cloud Storage", "GOOGLE_")}


def refused(text: str, uri: Uri, what: str = "read") -> MergeError | None:
    """Return the error that an answer of a store means; None if it is another."""
    if uri.scheme not in _NAMES:
        return refused_by_s3(text, uri, what)
    cause = next((name for name, pattern in _CAUSES if pattern.search(text)), None)
    if cause is None:
        return None
    kind, store, variables = _NAMES[uri.scheme]
    bucket, where = f"{kind} {uri.place!r}", str(uri)
    if cause == "bucket":
        return ObjectStoreRefused(f"there is no {bucket}", file=where, remedy=f"correct its name, or make the {kind}")
    if cause == "credentials":
        return ObjectStoreRefused(
            f"there are no credentials for {bucket} that the store accepts: {gist(text)}",
            file=where,
            remedy=f"set or correct {variables}… in the environment; the machine's clock must be right",
        )
    if cause == "denied":
        return ObjectStoreRefused(
            f"these credentials may not {what} {bucket}",
            file=where,
            remedy="allow to list, read and, for an output, to write and delete there; or use others",
        )
    server = uri.options.get("endpoint_override") or store
    return ObjectStoreUnreachable(f"the object store ({server}) does not answer as it should: {gist(text)}", file=where)
