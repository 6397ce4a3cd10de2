"""A real S3 server on loopback (moto's), and a proxy before it that answers 500 and 503 and cuts connections."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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
        requests.post(f"{self.address}/moto-api/reset-auth", data=requests_made, timeout=10).raise_for_status()


@contextmanager
def object_store(bucket: str = "cluster-logs") -> Iterator[Store]:
    """Run a server with one bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        store = Store(f"http://{host}:{port}", bucket)
        store.client().create_bucket(Bucket=bucket)
        yield store
    finally:
        server.stop()
