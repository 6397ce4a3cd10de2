"""Inputs on S3: found and read under any name, and for each way in which a store refuses an error of its own."""

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.nodes import Node
from binlog_merge.errors import MergeError, NoFiles, ObjectStoreRefused, ObjectStoreUnreachable
from binlog_merge.files.directory import discover
from binlog_merge.files.globs import expand
from binlog_merge.files.source import open_source
from tests.files.binlogs import series
from tests.object_store import Faults, Store, allowing

pytestmark = pytest.mark.heavy  # a server of S3 starts in its time


def config(*patterns: str) -> MergeConfig:
    return MergeConfig(version=1, name="n", nodes=(Node(source_id="a", files=patterns),))


def upload(s3: Store, folder: Path, prefix: str, *numbers: int) -> list[bytes]:
    paths = series(folder, *numbers)
    for path in paths:
        s3.put(f"{prefix}{path.name}", path.read_bytes())
    return [path.read_bytes() for path in paths]


@pytest.mark.parametrize("folder", ["dn-1/", "", "a b/ü/", "what?/", "100%/", "50%25/", "x=y&z/", "#1/"])
def test_files_are_found_and_read_whatever_their_folder_is_called(folder: str, s3: Store, tmp_path: Path) -> None:
    from urllib.parse import quote

    data = upload(s3, tmp_path, folder, 1, 2)
    s3.put(f"{folder}deep/mysql-bin.000003", b"no")
    pattern = s3.uri(f"{quote(folder)}mysql-bin.*")
    found = discover(config(pattern)).nodes["a"]
    assert [file.name for file in found] == ["mysql-bin.000001", "mysql-bin.000002"]
    for file, expected in zip(found, data, strict=True):
        with open_source(file.path) as source:
            buffer = bytearray(source.size)
            assert source.read_into(memoryview(buffer), 0) == len(expected)
            assert bytes(buffer) == expected


@pytest.mark.parametrize("size", [20, 40_000])
def test_reads_go_on_where_a_store_fails(size: int, s3: Store) -> None:
    """Also where what it says about that is longer than what was to be read."""
    data = random.Random(1).randbytes(10 * size)
    s3.put("file", data)
    with (
        Faults(s3, 1, share=0.4, lasts=size + 1000) as faults,
        open_source(s3.uri("file", address=faults.address)) as source,
    ):
        for offset in range(0, len(data), size):
            buffer = bytearray(size)
            assert source.read_into(memoryview(buffer), offset) == size
            assert bytes(buffer) == data[offset : offset + size]
        assert faults.done > 2


@pytest.mark.parametrize("pattern", ["*/mysql-bin.000001", "dn-?/mysql-bin.000001", "dn-1/mysql-bin.00000[1]"])
def test_wildcards(pattern: str, s3: Store, tmp_path: Path) -> None:
    upload(s3, tmp_path, "dn-1/", 1, 2)
    assert len(discover(config(s3.uri(pattern))).nodes["a"]) == 1


def test_a_file_without_wildcards(s3: Store, tmp_path: Path) -> None:
    upload(s3, tmp_path, "dn-1/", 1, 2)
    assert len(expand(s3.uri("dn-1/mysql-bin.000002"))) == 1
    assert expand(s3.uri("dn-1/mysql-bin.000009")) == []


def test_nothing_there_is_said(s3: Store) -> None:
    with pytest.raises(NoFiles):
        discover(config(s3.uri("dn-1/mysql-bin.*")))


def refused(kind: type[MergeError], uri: str, *words: str) -> MergeError:
    with pytest.raises(MergeError) as raised:
        discover(config(uri))
    assert type(raised.value) is kind, raised.value
    assert raised.value.node == "a" or raised.value.file is not None
    text = str(raised.value)
    assert all(word in text for word in words), text
    return raised.value


def test_a_bucket_that_is_not_there(s3: Store) -> None:
    refused(ObjectStoreRefused, s3.uri("x/*", bucket="no-such-bucket"), "no bucket 'no-such-bucket'")


def test_no_credentials(s3: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    refused(ObjectStoreRefused, s3.uri("none/*", "anonymous=false"), "no credentials", "AWS_ACCESS_KEY_ID")
    # Nor on a machine that could have a role: nothing answers where it would be.
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{unused.getsockname()[1]}")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
        refused(ObjectStoreRefused, s3.uri("none/*", "anonymous=0"), "no credentials")


def test_credentials_of_a_profile(s3: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    upload(s3, tmp_path, "p/", 1)
    with s3.checking() as (key, secret), monkeypatch.context() as patch:
        (tmp_path / "aws").write_text(f"[merger]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.delenv(name)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws"))
        patch.setenv("AWS_PROFILE", "merger")
        assert len(expand(s3.uri("p/*", "anonymous=no"))) == 1


def test_wrong_credentials(s3: Store) -> None:
    with s3.checking() as (key, secret):
        strange = refused(
            ObjectStoreRefused, s3.uri("x/*", "access_key=AKIASTRANGER", "secret_key=s3cr3t"), "does not accept", "***"
        )
        wrong = refused(
            ObjectStoreRefused, s3.uri("x/*", f"access_key={key}", "secret_key=s3cr3t"), "does not accept", "signature"
        )
        assert expand(s3.uri("x/*", f"access_key={key}", f"secret_key={secret}")) == []
    for error in (strange, wrong):
        assert "s3cr3t" not in str(error.to_dict()) and key not in str(error.to_dict())


def test_a_user_who_may_not_read(s3: Store) -> None:
    with s3.checking() as (key, secret):
        s3.client("iam", key, secret).put_user_policy(
            UserName="merger",
            PolicyName="all",
            PolicyDocument=allowing("iam:*"),
        )
        refused(ObjectStoreRefused, s3.uri("x/*", f"access_key={key}", f"secret_key={secret}"), "may not read")


_MOVED = (
    301,
    "<Error><Code>PermanentRedirect</Code><Message>must be addressed using the specified endpoint</Message></Error>",
)
_SIGNED_FOR_ANOTHER = (
    400,
    "<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region 'us-east-1' is wrong; expecting 'eu-west-1'"
    "</Message><Region>eu-west-1</Region></Error>",
)


@contextmanager
def answering(status: int, body: str) -> Iterator[str]:
    """Answer every request as AWS would (moto knows no regions)."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode() if self.command == "GET" else b"")

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_another_region(s3: Store) -> None:
    with answering(*_MOVED) as address:
        refused(ObjectStoreRefused, s3.uri("x/*", address=address), "not in region us-east-1", "AWS_REGION")
    with answering(*_SIGNED_FOR_ANOTHER) as address:
        refused(ObjectStoreRefused, s3.uri("x/*", address=address), "it is in eu-west-1", "region=eu-west-1")


def test_a_server_that_is_not_there_or_says_nothing(s3: Store) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
        refused(ObjectStoreUnreachable, s3.uri("x/*", address=nobody), nobody, "endpoint_override")
    with answering(503, "<Error><Code>SlowDown</Code></Error>") as address:
        refused(ObjectStoreUnreachable, s3.uri("x/*", address=address), address)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        mute = f"http://127.0.0.1:{silent.getsockname()[1]}"
        refused(ObjectStoreUnreachable, s3.uri("x/*", address=mute), mute)
