"""A real S3 server on loopback (moto's), and a proxy before it that answers 500 and 503 and cuts connections."""

import json
import os
import random
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

import boto3
import requests
from moto.server import ThreadedMotoServer

REGION = "us-east-1"
KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"


def allowing(actions: str) -> str:
    """Return a policy that allows actions everywhere."""
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]})


@dataclass(frozen=True)
class Store:
    """A bucket of a server, and how to reach it."""

    address: str
    bucket: str

    def uri(self, path: str, *options: str, bucket: str | None = None, address: str | None = None) -> str:
        """Return the URI of a path in the bucket."""
        server = f"endpoint_override={address or self.address}"
        return f"s3://{bucket or self.bucket}/{path}?{'&'.join((server, f'region={REGION}', *options))}"

    def client(self, service: str = "s3", key: str = KEY, secret: str = SECRET) -> Any:
        """Return boto3's client, another implementation than the product's."""
        return boto3.client(
            service,
            endpoint_url=self.address,
            region_name=REGION,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
        )

    def put(self, path: str, data: bytes) -> None:
        self.client().put_object(Bucket=self.bucket, Key=path, Body=data)

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """Return the objects below a prefix, by what follows it."""
        client = self.client()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        keys = [found["Key"] for page in pages for found in page.get("Contents", ())]
        return {key.removeprefix(prefix): client.get_object(Bucket=self.bucket, Key=key)["Body"].read() for key in keys}

    @contextmanager
    def checking(self) -> Iterator[tuple[str, str]]:
        """Check credentials as AWS does; yields a key and a secret that are right, and may do everything."""
        iam = self.client("iam")
        iam.create_user(UserName="merger")
        iam.put_user_policy(
            UserName="merger",
            PolicyName="all",
            PolicyDocument=allowing("*"),
        )
        made = iam.create_access_key(UserName="merger")["AccessKey"]
        self._check_after(b"0")
        try:
            yield made["AccessKeyId"], made["SecretAccessKey"]
        finally:
            self._check_after(b"Infinity")
            iam.delete_access_key(UserName="merger", AccessKeyId=made["AccessKeyId"])
            iam.delete_user_policy(UserName="merger", PolicyName="all")
            iam.delete_user(UserName="merger")

    def _check_after(self, requests_made: bytes) -> None:
        requests.post(f"{self.address}/moto-api/reset-auth", data=requests_made, timeout=60).raise_for_status()


@contextmanager
def _other_server(program: str, bucket: str) -> Iterator[Store]:
    """Run versitygw, a server in Go that keeps objects as files."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        listening = ["--access", KEY, "--secret", SECRET, "--port", f"127.0.0.1:{port}", "--region", REGION, "--quiet"]
        process = subprocess.Popen([program, *listening, "posix", folder], stdout=subprocess.DEVNULL)
        try:
            for _ in range(200):
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.05)
            store = Store(f"http://127.0.0.1:{port}", bucket)
            store.client().create_bucket(Bucket=bucket)
            yield store
        finally:
            process.kill()
            process.wait()


@contextmanager
def object_store(bucket: str = "cluster-logs", front: Callable[[Any], Any] | None = None) -> Iterator[Store]:
    """Run a server with one bucket: moto's, or the program that VERSITYGW names.

    `front` makes of moto's WSGI application the one that answers.
    """
    if front is None and (program := os.environ.get("VERSITYGW")):
        with _other_server(program, bucket) as store:
            yield store
        return
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    if front is not None:
        server._server.app = front(server._server.app)  # type: ignore[union-attr]
    try:
        host, port = server.get_host_and_port()
        store = Store(f"http://{host}:{port}", bucket)
        store.client().create_bucket(Bucket=bucket)
        yield store
    finally:
        server.stop()


class Faults:
    """A proxy before a server: of its connections some are answered with 500 or 503, some are cut somewhere.

    No connection lasts longer than for so many bytes.
    """

    def __init__(self, store: Store, seed: int, share: float, lasts: int = 4_000_000) -> None:
        host, _, port = store.address.removeprefix("http://").partition(":")
        self._server = (host, int(port))
        self._random = random.Random(seed)
        self._share, self._lasts = share, lasts
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.done = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                faulty = self._random.random() < self._share
                fate = self._random.choice(("500", "503", "cut")) if faulty else "pass"
                most = self._random.randrange(20_000) if fate == "cut" else self._lasts
                self.done += faulty
                threading.Thread(target=self._serve, args=(client, fate, most), daemon=True).start()

    def _serve(self, client: socket.socket, fate: str, most: int) -> None:
        with client, suppress(OSError):
            if fate in ("500", "503"):
                client.recv(65536)
                body = f"<Error><Code>{'InternalError' if fate == '500' else 'SlowDown'}</Code></Error>"
                head = f"HTTP/1.1 {fate} No\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                client.sendall((head + body).encode())
                return
            with socket.create_connection(self._server) as server:
                back = threading.Thread(target=_relay, args=(server, client, most), daemon=True)
                back.start()
                _relay(client, server, most)
                back.join()


def _relay(source: socket.socket, target: socket.socket, most: int) -> None:
    """Pass on at most so many bytes, then cut both connections."""
    with suppress(OSError):
        while most > 0 and (data := source.recv(min(65536, most))):
            target.sendall(data)
            most -= len(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
