"""Transactions too big to hold: with buffers made tiny, every transaction of every case is one, and no byte differs."""

from pathlib import Path

import numpy as np
import pytest

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.header import pack_event
from binlog_merge.binlog.kernels import render_layout
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ChecksumMismatch
from binlog_merge.files.source import Bytes
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import history_of
from binlog_merge.pipeline.gather import giant, giant_order, input_reader, output_file
from binlog_merge.pipeline.gather import input_reader as window
from binlog_merge.pipeline.gather import task as gather
from binlog_merge.pipeline.scan import task as scan
from binlog_merge.pipeline.scan import walk as scan_walk
from binlog_merge.verification.whole import verify
from tests.effort import effort, keeping
from tests.merge_e2e.cases import INPUTS, case_named, copy_case, max_size, whole
from tests.merge_e2e.editing import assert_prefix
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.simulator import Simulator, Style
from tests.merge_e2e.test_rows_checked import edited


def shrink(monkeypatch: pytest.MonkeyPatch, piece: int, streamed: int, room: int) -> None:
    """Make everything that bounds memory small."""
    monkeypatch.setattr(window, "WINDOW_BYTES", piece)
    monkeypatch.setattr(gather, "WINDOW_BYTES", piece)
    monkeypatch.setattr(input_reader, "WINDOW_BYTES", piece)
    monkeypatch.setattr(window, "WINDOW_ROWS", 3)
    monkeypatch.setattr(input_reader, "GAP", 0)
    monkeypatch.setattr(output_file, "OUT_BUFFER", room)
    monkeypatch.setattr(gather, "FLUSH", room // 4)
    for module in (giant, giant_order):
        monkeypatch.setattr(module, "PIECE", piece)
    monkeypatch.setattr(giant, "STREAMED_EVENT", streamed)
    for module in (scan, scan_walk):
        monkeypatch.setattr(module, "CHUNK", 4096)


SIZES = [(64, 40, 2200), (300, 1 << 20, 2500), (2000, 100, 1 << 16)]  # of a piece, of an event streamed, of the buffer


@pytest.mark.heavy
@pytest.mark.parametrize("case", INPUTS[:: effort(4, 1)], ids=lambda case: str(case.name))
def test_every_transaction_is_streamed(case: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    good = whole(case / "cluster.yaml")
    shrink(monkeypatch, *SIZES[INPUTS.index(case) % len(SIZES)])
    merge(case / "cluster.yaml", tmp_path)
    assert written(tmp_path) == good


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(4))
def test_made_up_histories_are_streamed(seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    style = Style(nodes=3, steps=300, large=0.2, reshaped=seed % 2 == 0, max_size=30_000)
    config = Simulator(seed, style).write(tmp_path / "case")
    good = whole(config)
    shrink(monkeypatch, 100, 60, 3000)
    merge(config, tmp_path / "out")
    assert written(tmp_path / "out") == good


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name",
    keeping(
        ["ddl-by-markers", "compressed"],
        ["ddl-by-markers", "compressed", "three-nodes-commit-order", "row-image-minimal"],
    ),
)
def test_streamed_files_grow_over_runs(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = copy_case(case_named(name), tmp_path / "case", max_size(3000))
    good = whole(path)
    shrink(monkeypatch, 128, 64, 2048)
    merge(path, tmp_path / "out", end_of_input=False)
    assert_prefix(written(tmp_path / "out"), good)
    merge(path, tmp_path / "out")
    assert written(tmp_path / "out") == good


def test_a_streamed_transaction_whose_rows_do_not_fit_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """That shows when it is asked what it depends on, after it was written."""
    config = MergeConfig.load(edited(tmp_path, lambda body: body + b"\0"))
    config = config.model_copy(update={"output": config.output.model_copy(update={"dependencies": "writeset"})})
    shrink(monkeypatch, *SIZES[1])
    kept = []
    for _ in range(2):
        with pytest.raises(ChecksumMismatch, match="do not fit their table map") as caught:
            merge(config, tmp_path / "out")
        assert caught.value.node == "dn-1" and caught.value.order_key
        kept.append(written(tmp_path / "out"))
        verify(Log(tmp_path / "out"), history_of(tmp_path / "out"))
    assert kept[0] == kept[1] and any(kept[0].values())


def test_a_compressed_transaction_without_a_payload_is_damaged() -> None:
    data = pack_event(EventType.XID_EVENT, bytes(8), timestamp=1, server_id=1, position=4)
    segment = np.zeros(render_layout.S_COLUMNS, np.int64)
    segment[render_layout.S_END], segment[render_layout.S_CRC] = len(data), 4
    for pieces in (
        giant_order.unpacked_pieces(Bytes(data), 0, len(data), 4),
        window.unpacked(np.frombuffer(data, np.uint8), segment),
    ):
        with pytest.raises(ChecksumMismatch, match="has no payload"):
            list(pieces)
