"""Merges an example and forgets it, so that who waits for the lead has all loaded that a first round needs.

A first round in a new process costs some two seconds of a core, a later one some hundredths: modules, kernels and
DuckDB are loaded when they are first used, and an example uses them as any log does.
"""

import logging
from pathlib import Path

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import MergeError
from binlog_merge.files.scratch import scratch_folder
from binlog_merge.pipeline.base.runner import Runner
from binlog_merge.pipeline.rounds import Rounds

_LOG = logging.getLogger(__name__)


def rehearse(runner: Runner, example: Path) -> None:
    """Merge what a configuration names into a folder that is removed again. What is in the way of it is only noted."""
    _LOG.info("rehearses", extra={"file": str(example)})
    try:
        with scratch_folder() as folder, Rounds(runner, MergeConfig.load(example), folder / "merged") as rounds:
            rounds.merge()
    except (MergeError, OSError) as error:
        _LOG.info("could not rehearse", extra={"error": str(error)})
    else:
        _LOG.info("has rehearsed")
