"""The small cluster that comes with the package."""

from pathlib import Path

from binlog_merge.errors import ConfigError

CASE = "three-nodes-online-ddl"

_PACKAGED = Path(__file__).resolve().parent / "demo_cluster"
_CLONED = Path(__file__).resolve().parents[2] / "fixtures" / CASE


def cluster() -> Path:
    """Return the cluster's configuration: the wheel has a copy, a clone of the repository has the fixture."""
    for folder in (_PACKAGED, _CLONED):
        if (path := folder / "cluster.yaml").exists():
            return path
    raise ConfigError(
        "the demo's binlogs are missing from this installation",
        file=str(_PACKAGED),
        remedy="install the package anew from its wheel, or merge your own: binlog-merge merge --help",
    )
