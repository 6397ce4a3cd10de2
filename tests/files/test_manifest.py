"""The manifest: what is written is read back, a torn end is as if never written, all other damage is an error."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.nodes import Node
from binlog_merge.config.sections import Output
from binlog_merge.errors import ManifestError
from binlog_merge.files.manifest import CLAIMED_VERSION, MANIFEST_NAME, Manifest
from binlog_merge.files.output import check_continuation
from tests.files.outputs import CONFIG, header, output_file, record


def three_records(folder: Path) -> Manifest:
    manifest = Manifest.load(folder)
    manifest.append(header())
    manifest.append(record(1, output_file(1, 500, closed=True), output_file(2, 300, closed=False)))
    manifest.append(record(2, output_file(2, 700, closed=False)))
    return manifest


def test_no_manifest_is_an_empty_one(tmp_path: Path) -> None:
    state = Manifest.load(tmp_path).state
    assert (state.header, state.last, state.files, state.run, state.rank, state.open_file) == (
        None,
        None,
        (),
        0,
        0,
        None,
    )
    assert not (tmp_path / MANIFEST_NAME).exists()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    written = three_records(tmp_path)
    read = Manifest.load(tmp_path)
    assert read.state == written.state
    assert read.state.header == header()
    assert [(f.name, f.size) for f in read.state.files] == [("binlog.000001", 500), ("binlog.000002", 700)]
    assert read.state.open_file is not None
    assert read.state.open_file.name == "binlog.000002"
    assert (read.state.run, read.state.rank) == (2, 2)
    assert read.state.last is not None
    assert read.state.last.nodes["a"].checkpoint == {"open": [[1, "x"]]}


def test_the_state_after_append_is_the_state_after_load(tmp_path: Path) -> None:
    manifest = Manifest.load(tmp_path)
    manifest.append(header())
    manifest.append(replace(record(1), state={"tuple": (1, 2), "keys": {3: 4}}))
    assert manifest.state.last is not None
    assert manifest.state.last.state == {"tuple": [1, 2], "keys": {"3": 4}}
    assert Manifest.load(tmp_path).state == manifest.state


def test_any_cut_of_the_last_line_is_as_if_never_written(tmp_path: Path) -> None:
    three_records(tmp_path)
    path = tmp_path / MANIFEST_NAME
    data = path.read_bytes()
    last = data.rindex(b"\n", 0, -1) + 1
    for end in range(last, len(data)):
        path.write_bytes(data[:end])
        assert Manifest.load(tmp_path).state.run == 1
    path.write_bytes(data[:last] + bytes(300) + b"\n")  # what a power cut may leave of a page
    assert Manifest.load(tmp_path).state.run == 1


def test_append_writes_over_a_torn_line(tmp_path: Path) -> None:
    three_records(tmp_path)
    path = tmp_path / MANIFEST_NAME
    data = path.read_bytes()
    path.write_bytes(data[:-30])
    manifest = Manifest.load(tmp_path)
    manifest.append(record(2, output_file(2, 700, closed=False)))
    assert path.read_bytes() == data


def test_damage_before_the_end_is_an_error(tmp_path: Path) -> None:
    three_records(tmp_path)
    path = tmp_path / MANIFEST_NAME
    data = path.read_bytes()
    for at in range(0, len(data), 37):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(ManifestError) as caught:
            Manifest.load(tmp_path)
        assert caught.value.file == str(path)


def test_a_missing_or_moved_line_is_an_error(tmp_path: Path) -> None:
    three_records(tmp_path)
    path = tmp_path / MANIFEST_NAME
    lines = path.read_bytes().splitlines(keepends=True)
    for wrong in ([lines[0], lines[2]], [lines[1], lines[2]], [lines[0], lines[2], lines[1]], [*lines, lines[2]]):
        path.write_bytes(b"".join(wrong))
        with pytest.raises(ManifestError):
            Manifest.load(tmp_path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    manifest = Manifest.load(tmp_path)
    with pytest.raises(ManifestError, match="newer version"):
        manifest.append(replace(header(), format_version=CLAIMED_VERSION + 1))


def test_records_that_do_not_follow(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="before any header"):
        Manifest.load(tmp_path).append(record(1))
    manifest = three_records(tmp_path)
    wrong = [
        record(2),
        record(4),
        replace(record(3), rank=1),
        record(3, output_file(1, 900, closed=True)),
        record(3, output_file(3, 10, closed=True)),
        record(3, output_file(2, 10, closed=True)),
    ]
    for one in wrong:
        with pytest.raises(ManifestError):
            manifest.append(one)
    assert Manifest.load(tmp_path).state.run == 2


def test_lines_are_json_that_people_can_read(tmp_path: Path) -> None:
    three_records(tmp_path)
    kinds = [json.loads(line)["kind"] for line in (tmp_path / MANIFEST_NAME).read_text().splitlines()]
    assert kinds == ["header", "publish", "publish"]


def changed(**values: object) -> MergeConfig:
    return CONFIG.model_copy(update=values)


def test_the_same_configuration_continues() -> None:
    check_continuation(header(), CONFIG)
    check_continuation(header(), changed(output=Output(dir="/elsewhere", cluster_uuid=CONFIG.cluster_uuid())))
    joined = (*CONFIG.nodes, Node(source_id="c", files=("z",)))
    check_continuation(header(), changed(nodes=joined))


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (changed(name="other"), "output of cluster 'n', not of 'other'"),
        (changed(nodes=CONFIG.nodes[:1]), "node b is gone"),
        (changed(output=Output(max_size=7)), "output.max-size was 536870912, is now 7"),
        (changed(output=Output(cluster_uuid="8a94f357-aab4-11df-86ab-c80aa9429562")), "output.cluster-uuid was"),
        (
            changed(commit_tso=CONFIG.commit_tso.model_copy(update={"carrier": "gtid"})),
            "commit-tso.carrier was 'commit-table'",
        ),
    ],
)
def test_a_difference_is_named(config: MergeConfig, says: str) -> None:
    with pytest.raises(ManifestError, match=r"begun with|holds the output") as caught:
        check_continuation(header(), config)
    assert says in caught.value.message
    assert "continue with the configuration" in caught.value.remedy


def test_a_difference_before_anything_is_published_may_begin_anew() -> None:
    with pytest.raises(ManifestError) as caught:
        check_continuation(header(), changed(output=Output(max_size=7)), published=False)
    assert caught.value.remedy.startswith("nothing is published there yet")


def test_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(ManifestError, match="no directory"):
        Manifest.load(tmp_path / "file")
