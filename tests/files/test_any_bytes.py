"""Any bytes: a value or a MergeError, never another exception."""

import contextlib
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.yaml import parse_yaml
from binlog_merge.errors import ConfigError, ManifestError, MergeError
from binlog_merge.files.head import read_head
from binlog_merge.files.manifest import MANIFEST_NAME, Manifest
from binlog_merge.files.source import open_source
from tests.effort import effort
from tests.files.binlogs import binlog

WHOLE = binlog(b"a", b"b", previous=bytes(8))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Return a binlog with some bytes changed, cut off, or added."""
    data = bytearray(WHOLE[: draw(st.integers(0, len(WHOLE)))] + draw(st.binary(max_size=40)))
    for _ in range(draw(st.integers(0, 3))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


@given(st.one_of(st.binary(max_size=200), damaged()))
@settings(max_examples=effort(150, 300), deadline=None)
def test_heads(data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(data)
        with open_source(file.name) as source, contextlib.suppress(MergeError):
            read_head(source, "n", file.name)


@given(st.one_of(st.binary(max_size=100), st.text("{}[]:,-&*!|>'\"# \n\tabn01~?%@`", max_size=60)))
@settings(max_examples=effort(150, 300), deadline=None)
def test_configurations(data: bytes | str) -> None:
    with contextlib.suppress(ConfigError):
        MergeConfig.from_document(parse_yaml(data, "x"), Path("/"), "x")


@given(
    st.lists(
        st.one_of(st.binary(max_size=60), st.sampled_from([b'{"sha256":1}', b"[]", b"1", b'{"sha256":"","kind":[]}']))
    )
)
@settings(max_examples=effort(100, 200), deadline=None)
def test_manifests(lines: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / MANIFEST_NAME).write_bytes(b"\n".join(lines) + b"\n")
        with contextlib.suppress(ManifestError):
            Manifest.load(folder)
