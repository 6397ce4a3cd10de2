"""DM's optimistic mode: a lock per logical table, which joins what the shards have become.

The keeper holds the lock and the queues of shards that wait; an operator's decisions are debts until a shard pays them.
"""
