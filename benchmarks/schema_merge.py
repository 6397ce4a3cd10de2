"""What a small merge costs beside a schema store with a long history: on its first run, and when it goes on.

The merge is of three nodes' binlogs with two DDLs in flight (`fixtures/three-nodes-online-ddl`); its base is the store.
Spark is left out: everything runs in the one process that is measured.
"""

from pathlib import Path

from benchmarks.runner import InlineRunner
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.pipeline.run import run_merge

CASE = Path(__file__).resolve().parents[1] / "fixtures" / "three-nodes-online-ddl" / "cluster.yaml"
HALF = 7507804164986040321  # a TSO amid the case: the first run stops there, the second goes on

MERGE = """
from pathlib import Path
from benchmarks.schema_merge import merge_half
merge_half({store!r}, Path({out!r}), {first!r})"""


def merge_half(store: str | None, out: Path, first: bool) -> None:
    """Merge the case's first half, with a schema store as base if one is given, or go on with the rest."""
    config = MergeConfig.load(CASE)
    if store is not None:
        config = config.model_copy(update={"base": config.base.model_copy(update={"store": store})})
    result = run_merge(InlineRunner(), config, out, stop_tso=HALF if first else None, end_of_input=True)
    assert result.transactions and result.rows_reshaped
