"""Coordinates the DDL of shards without markers: finds the logical DDL when nothing announces it.

Plain MySQL shards write no markers. The only input is the statements that each shard ran, in the order it ran them.
From these the two modes of DM (pingcap/tiflow `dm/pkg/shardddl`) find the logical DDL:

    pessimistic   one sequence of DDL for all shards: each is written when the last shard runs it, and rows of a shard
                  that has run it already wait until then
    optimistic    the logical table accepts the rows of every shard as it is now (`snapshot_store.lattice`): a shard
                  that accepts more changes it at once, one that accepts less once no other needs the difference, and
                  one that does both (RENAME COLUMN) waits until all shards have done it

Both are pure functions from statements to logical DDL (`values.Outcome`): no clock, no server, no order of arrival; the
same logs give the same result. Each shard DDL *takes effect* at a place in the merged order, its own or a later one,
and the shard's later rows come out no earlier (`order.hold_kernel`).
"""
