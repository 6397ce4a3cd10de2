"""`binlog-merge takeover`: hands the lead from one `run` to another that waits for it."""

from pathlib import Path
from typing import Annotated

from binlog_merge.cli.options import ConfiguredMerged, Output, local_path, option, place_of
from binlog_merge.cli.output import OutputFormat, print_document, printable
from binlog_merge.errors import ConfigError

HELP = """Hand over from the `run` that leads to one that waits, as before the leader's host is to be restarted.

\b
  binlog-merge takeover --config cluster.yaml --merged s3://bank/merged               to the one that waits
  binlog-merge takeover --config cluster.yaml --merged s3://bank/merged --to host-b   to one of several: see `status`

The leader ends its round, publishes it, and releases the lease; the other takes it and goes on there, and the one that
led waits. It returns when the other leads. Refused (25) if nobody waits; 25, too, if the leader has not handed over
after --patience seconds: it still may. A leader that is dead needs none of this: another takes over by itself."""


def takeover(
    config: Annotated[
        Path,
        option("--config -c", "The cluster: for output.dir, and whether there is a lease.", "CLUSTER.YAML", local_path),
    ],
    merged: ConfiguredMerged = None,
    to: Annotated[
        str | None, option("--to", "Who is to lead: a name of those that wait, or how one begins.", "NAME")
    ] = None,
    patience: Annotated[
        float, option("--patience", "How long to wait until the other leads.", "SECONDS", min=0)
    ] = 60.0,
    output: Output = OutputFormat.text,
) -> None:
    """Hand over from the `run` that leads to one that waits."""
    from binlog_merge.config.merge_config import MergeConfig
    from binlog_merge.config.uri import is_uri
    from binlog_merge.files.lease_keeper import lease_objects
    from binlog_merge.files.lease_seen import hand_over

    cluster = MergeConfig.load(config)
    place = place_of(cluster, merged)
    seconds = cluster.ha.lease_seconds(is_uri(place))
    if seconds is None:
        raise ConfigError("there is no lease to hand over", remedy="write `ha: {lease: 10s}` into the configuration")
    done = hand_over(lease_objects(place, seconds), to, patience)
    if output is not OutputFormat.text:
        values = {"before": done.before, "holder": done.holder, "epoch": done.epoch, "seconds": round(done.seconds, 3)}
        print_document(values, output)
        return
    print(printable(f"{done.holder} leads, with epoch {done.epoch}; {done.before} waits ({done.seconds:.1f} s)"))
