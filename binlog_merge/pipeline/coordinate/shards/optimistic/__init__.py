"""DM's optimistic mode: a lock per logical table, which joins the shards' current tables.

The keeper holds the lock and the queues of waiting shards. An operator's decisions are debts until a shard pays them.
"""
