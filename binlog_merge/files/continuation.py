"""Checks whether a configuration may continue an output: only if it would have produced the same bytes so far."""

from binlog_merge.config.merge_config import MergeConfig, differences
from binlog_merge.errors import ManifestError
from binlog_merge.files.manifest import Header


def check_continuation(header: Header, config: MergeConfig, published: bool = True) -> None:
    """Raise ManifestError, naming the differences, unless `config` can continue the output that `header` began.

    A new node is no difference (it gets the next node number, and brings its base schemas); a removed node is. If
    nothing is `published` yet, the remedy is to begin a new output.
    """
    if header.name != config.name:
        raise ManifestError(f"the directory holds the output of cluster '{header.name}', not of '{config.name}'")
    found = []
    if config.output.cluster_uuid not in (None, header.cluster_uuid):
        found.append(f"output.cluster-uuid was {header.cluster_uuid!r}, is now {config.output.cluster_uuid!r}")
    if header.carrier is not None and config.commit_tso.carrier not in ("auto", header.carrier):
        found.append(f"commit-tso.carrier was {header.carrier!r}, is now {config.commit_tso.carrier!r}")
    if gone := sorted(set(header.node_numbers) - {node.source_id for node in config.nodes}):
        found.append(f"node {', '.join(gone)} is gone from the configuration")
    if header.fingerprint != config.fingerprint():
        joined = {f"base.physical.{n.source_id}" for n in config.nodes if n.source_id not in header.node_numbers}
        found += differences(header.settings, {k: v for k, v in config.settings().items() if k not in joined})
    if found:
        remedy = None if published else "nothing is published there yet: remove it, or choose another --merged"
        raise ManifestError("the output was begun with another configuration: " + "; ".join(found), remedy=remedy)
