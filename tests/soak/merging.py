"""A program: `merge --stop-never` without Spark, so that it starts in a moment and is killed in its rounds more often.

python -m tests.soak.merging CLUSTER.YAML OUT MIN_INTERVAL
"""

import sys
from pathlib import Path
from threading import Event

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import MergeError
from binlog_merge.pipeline.rounds import Pace, Rounds, follow
from binlog_merge.pipeline.values import MergeResult
from tests.merge_e2e.local import LocalRunner


class _Said:
    def merged(self, result: MergeResult) -> None:
        print(f"merged {result.transactions}", flush=True)

    def failed(self, error: MergeError, pause: float) -> None:
        print(f"failed: {error}", flush=True)

    def recovered(self, seconds: float) -> None:
        print("recovered", flush=True)


def main(config: str, out: str, min_interval: str) -> None:
    with Rounds(LocalRunner(), MergeConfig.load(Path(config)), out) as rounds:
        follow(rounds, Event(), _Said(), Pace(float(min_interval)))


if __name__ == "__main__":
    main(*sys.argv[1:])
