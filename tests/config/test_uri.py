"""URIs of files: their parts, and where which kind may stand."""

import pytest

from binlog_merge.config.uri import Uri, check_input, is_uri, local_path, only_local


def test_the_parts_of_a_uri() -> None:
    found = Uri.parse("s3a://k:s@bucket/a%20b/c%3F%25?region=eu-west-1&endpoint_override=http://127.0.0.1:9000")
    assert (found.scheme, found.login, found.place, found.path) == ("s3", "k:s", "bucket", "a b/c?%")
    assert found.options == {"region": "eu-west-1", "endpoint_override": "http://127.0.0.1:9000"}
    assert Uri.parse(str(found)) == found


@pytest.mark.parametrize("name", ["a?b", "100%", "a b", "é", "x?y=z", "*", "a#b"])
def test_any_name_survives(name: str) -> None:
    made = Uri.parse("s3://bucket/?region=x").with_path(f"folder/{name}")
    assert Uri.parse(str(made)) == made


def test_a_question_mark_without_a_name_behind_it_is_a_wildcard() -> None:
    assert Uri.parse("s3://b/mysql-bin.00000?").path == "mysql-bin.00000?"
    assert Uri.parse("s3://b/mysql-bin.00000??region=x").path == "mysql-bin.00000?"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("ftp://host/a", "ftp:// cannot be read"),
        ("mysql://root:pw@host/a", "mysql:// cannot be read"),
        ("s3://", "no bucket"),
        ("s3:///a", "no bucket"),
        ("s3://key:sec/ret@bucket/a", "%2F"),
        ("s3://b/a?endpoint=x", "unknown option endpoint"),
        ("s3://b/a?access_key=x", "only one"),
        ("file://host/a", "another host"),
    ],
)
def test_what_cannot_be_read_is_refused(uri: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        check_input(uri)
    assert not {"pw", "ret@"} & set(str(raised.value).split(":"))


def test_local_paths_and_file_uris() -> None:
    assert [only_local(path) for path in ("a?b", "/x/s3:/y", "file:///a%20b", "file://localhost/a")] == [
        "a?b",
        "/x/s3:/y",
        "/a b",
        "/a",
    ]
    assert local_path("s3://b/a") is None
    assert not is_uri("s3:/b") and not is_uri("a/s3://b")
    with pytest.raises(ValueError, match="s3:// is not supported here"):
        only_local("s3://b/a")
