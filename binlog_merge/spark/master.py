"""A session's master: who hands out executors, and whether these may be on other machines."""

from typing import Any


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
