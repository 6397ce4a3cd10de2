"""Rows events judged together get what each gets alone, whatever lies beside them, in the bytes of any server."""

from pathlib import Path

import pytest

from binlog_merge.errors import ConfigError
from binlog_merge.pipeline.gather import rows_events
from binlog_merge.pipeline.gather import task as gather
from binlog_merge.pipeline.gather.rows_events import NO_VERDICTS
from tests.merge_e2e.cases import case_named, copy_case
from tests.merge_e2e.local import merge, written
from tests.pipeline.gather.test_giant import shrink

BY_VALUE = """
[[filter.event-filters]]
matcher = ['*.*', '!*.keyless']
ignore-insert-value-expr = "{0}"
ignore-update-old-value-expr = "{0}"
ignore-update-new-value-expr = "{1}"
ignore-delete-value-expr = "{1}"
[[filter.event-filters]]
matcher = ['*.keyless']
ignore-event = ['update']
"""
EVEN = BY_VALUE.format("id % 2 = 0", "id % 3 = 0")
CASES = {
    "all-types": BY_VALUE.format("id % 3 = 0", "id % 2 = 0"),
    "row-image-minimal": EVEN,  # cells that no image holds
    "partial-json": EVEN,  # differences instead of values
    "compressed": EVEN,
    "reorder-in-flight": EVEN,  # the kernel gives rows their logical shape
    "modify-in-flight": EVEN,  # Python does
    "polardbx-rename": EVEN,
    "shards-optimistic": EVEN,
}


def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every rows event asked about by itself, as the merge would do it were there no others."""
    monkeypatch.setattr(gather, "judge_window", lambda *_: NO_VERDICTS)
    monkeypatch.setattr("binlog_merge.pipeline.gather.giant.judge_piece", lambda *_: NO_VERDICTS)


# What is left out here has rows of other types, or as one of these has them.
EXTENDED = ("all-types", "partial-json", "compressed", "polardbx-rename", "shards-optimistic")


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.extended if name in EXTENDED else ()) for name in CASES]
)
def test_events_together_get_what_each_gets_alone(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = copy_case(case_named(name), tmp_path / "case", lambda values: values.update(filter="filter.toml"))
    (tmp_path / "case" / "filter.toml").write_text(CASES[name])
    merge(config, tmp_path / "together")
    with monkeypatch.context() as patch:
        patch.setattr(rows_events, "BATCH_BYTES", 300)
        merge(config, tmp_path / "batches")
    with monkeypatch.context() as patch:
        shrink(patch, 300, 60, 3000)
        merge(config, tmp_path / "pieces")
    alone(monkeypatch)
    merge(config, tmp_path / "alone")
    good = written(tmp_path / "alone")
    assert [written(tmp_path / way) for way in ("together", "batches", "pieces")] == [good] * 3
    merge(case_named(name) / "cluster.yaml", tmp_path / "whole")
    assert good != written(tmp_path / "whole")


@pytest.mark.heavy
def test_a_merge_stops_where_rows_cannot_be_judged_and_not_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The expression asks for a cell that MINIMAL row images leave out, in one of the nodes' logs."""
    config = copy_case(case_named("row-image-minimal"), tmp_path / "case", lambda v: v.update(filter="filter.toml"))
    (tmp_path / "case" / "filter.toml").write_text(
        "[[filter.event-filters]]\nmatcher = ['d1.docs']\nignore-delete-value-expr = \"title = 'x'\"\n"
    )

    def stopped(folder: str) -> tuple[str, str | None, dict[str, bytes]]:
        with pytest.raises(ConfigError) as caught:
            merge(config, tmp_path / folder)
        return caught.value.message, str(caught.value.order_key), written(tmp_path / folder)

    together = stopped("together")
    assert "needs the column title, which the rows do not hold" in together[0] and len(together[2]) == 1
    shrink(monkeypatch, 300, 60, 3000)
    pieces = stopped("pieces")
    alone(monkeypatch)
    assert together == pieces == stopped("alone")
