"""Secrets do not come out of URIs in any text, however they stand there."""

import pytest

from binlog_merge.errors import IoError
from binlog_merge.redaction import redacted, redacted_values

SECRETS = ("AKIAEXAMPLE", "s3cr3t")


@pytest.mark.parametrize(
    "text",
    [
        "s3://AKIAEXAMPLE:s3cr3t@bucket/a/mysql-bin.000001",
        "s3a://AKIAEXAMPLE:s3/cr3t/s3cr3t@bucket/a",
        "s3://AKIAEXAMPLE:s3cr3t+%2F=@bucket/a?region=eu-west-1",
        "S3://AKIAEXAMPLE@bucket/a",
        "s3://bucket/a?access_key=AKIAEXAMPLE&secret_key=s3cr3t&region=x",
        "s3://bucket/a?region=x&session_token=s3cr3t",
        "s3://bucket/a?Secret-Key=s3cr3t",
        "https://AKIAEXAMPLE:s3cr3t@proxy:8080/",
        "abfs://AKIAEXAMPLE:s3cr3t@container/a",
        "https://account.blob.core.windows.net/c?sv=1&sig=s3cr3t",
        "mysql://root:s3cr3t@10.0.0.7:3306/",
        "mysql://root:p@ss/s3cr3t@10.0.0.7:3306/?ssl=1",
        "'s3://AKIAEXAMPLE:s3cr3t@bucket/a': and \"s3://b/?secret_key=s3cr3t\", too",
    ],
)
def test_secrets_are_taken_out(text: str) -> None:
    for shown in (redacted(text), str(IoError(text, file=text, remedy=text)), str(redacted_values({"a": [text]}))):
        assert not any(secret in shown for secret in SECRETS), shown
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/a/mysql-bin.*?region=eu-west-1&endpoint_override=http://127.0.0.1:9000",
        "abfs://container@account.dfs.core.windows.net/a",
        "mysql://root@10.0.0.7:3306",
        "http://127.0.0.1:9000/a@b",
        "hdfs://namenode:8020/binlogs/dn-1",
        "root@localhost: access_key=1",
    ],
)
def test_everything_else_stays(text: str) -> None:
    assert redacted(text) == text


def test_values_keep_their_kinds() -> None:
    assert redacted_values({"a": 1, "b": None, "c": (True, "x")}) == {"a": 1, "b": None, "c": [True, "x"]}


def test_an_error_that_is_located_later_hides_them_too() -> None:
    assert "s3cr3t" not in str(IoError("no").located(file="s3://k:s3cr3t@b/x").to_dict())
