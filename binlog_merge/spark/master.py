"""A session's master: who hands out executors, and whether these may be on other machines."""

from typing import Any, Final

from binlog_merge.errors import ConfigError

_KINDS: Final = ("local", "spark://", "yarn", "k8s://", "sc://")
"""What spark-submit, and Spark Connect's client, begin with; Java prints a stack trace for others."""


def check_master(master: str) -> None:
    """Raise ConfigError for a master that no session can have."""
    if not master.startswith(_KINDS):
        raise ConfigError(
            f"{master} is no Spark master",
            remedy="write local[*], spark://HOST:7077, yarn, k8s://https://HOST:PORT or sc://HOST:15002 (--master, "
            "--conf spark.master=… or the configuration's `spark`)",
        )


def is_local(master: str) -> bool:
    """Return whether a master runs its tasks in this session's Java; `local-cluster[…]` has executors, as a cluster."""
    return master.startswith("local") and not master.startswith("local-cluster")


def is_connect(master: str | None) -> bool:
    """Return whether a master is a server of Spark Connect: Java runs there, not here."""
    return master is not None and master.startswith("sc://")


def master_of(spark: Any) -> str | None:
    """Return a session's master; None with Spark Connect, whose server does not say."""
    try:
        return str(spark.sparkContext.master)
    except Exception:
        return None


def is_elsewhere(spark: Any) -> bool:
    """Return whether a session's executors may be on other machines."""
    master = master_of(spark)
    return master is None or not is_local(master)
