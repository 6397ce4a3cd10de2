"""How streams are declared."""

import re
from pathlib import Path

import pytest

from binlog_merge.errors import ConfigError
from binlog_merge.streams.spec import _Stream, load_streams
from tests.mysql_server import ROOT


def test_a_file_and_options_declare_streams(tmp_path: Path) -> None:
    file = tmp_path / "streams.yaml"
    file.write_text(
        "streams:\n  orders:\n    tables: ['shop.orders*', '!shop.orders_tmp']\n    rows-query: false\n    port: 3310\n"
        "  part:\n    hash: key\n    into: 3\n    port: 3320\n    user: part\n"
    )
    found = load_streams(file, ["maria dialect=mariadb port=3330"])
    assert [(s.name, s.port, s.user, s.part, s.parts) for s in found] == [
        ("orders", 3310, "", 1, 1),
        ("part-1", 3320, "part-1", 1, 3),
        ("part-2", 3321, "part-2", 2, 3),
        ("part-3", 3322, "part-3", 3, 3),
        ("maria", 3330, "", 1, 1),
    ]
    assert len({spec.digest for spec in found}) == len(found)
    assert found[0].settings is not None and found[0].settings.rules == ("shop.orders*", "!shop.orders_tmp")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("", "streams"),
        ("a", "no reader can ask for it"),
        ("a port=x", "port"),
        ("a 'port=1", "quot"),
        ("a port=1 colour=red", "unknown key 'colour' in streams.a; known keys: ddl, dialect, filter, hash"),
        ("a dialekt=mariadb", "did you mean 'dialect'"),
        ("a port=65534 hash=key into=4", "go beyond 65535"),
        ("a port=1 tables", "no setting"),
        ("a/b port=1", "a/b"),
        ("a port=1 hash=key", "hash and into"),
        ("a port=1 ddl=once", "for the streams of a hash of tables"),
        ("a port=1 hash=key into=2 ddl=once", "for the streams of a hash of tables"),
        ("a port=1 dialect=oracle", "dialect"),
        ("a port=1 tables=shop", "shop"),
        ("a port=1 filter=/nowhere.toml", "nowhere"),
    ],
)
def test_a_stream_that_cannot_be_made_is_refused(option: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_streams(None, [option])
    assert message in str(caught.value)


def test_streams_are_told_apart() -> None:
    with pytest.raises(ConfigError, match="same port"):
        load_streams(None, ["a port=7", "b port=7"])
    with pytest.raises(ConfigError, match="same user"):
        load_streams(None, ["a user=x", "b user=x"])
    with pytest.raises(ConfigError, match="have the name"):
        load_streams(None, ["a user=x", "a user=y"])


def test_the_streams_of_the_page_can_be_declared(tmp_path: Path) -> None:
    """And its table has all settings."""
    text = (ROOT / "docs" / "how-to" / "streams.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "streams.yaml").write_text(block)
    (tmp_path / "lake.toml").write_text('[filter]\nrules = ["lake.*"]\n')
    found = load_streams(tmp_path / "streams.yaml", [])
    assert [spec.name for spec in found] == [
        "orders",
        "lake",
        *(f"part-{n}" for n in range(1, 5)),
        *(f"by-table-{n}" for n in range(1, 3)),
        "maria",
    ]
    settings = {
        name for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in re.findall(r"`(.*?)`", row)
    }
    assert settings == {name.replace("_", "-") for name in _Stream.model_fields}
