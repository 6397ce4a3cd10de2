"""Coordinates the DDL of shards without markers: finds the logical DDL when nothing announces it.

Plain MySQL shards write no markers. What there is are the statements each shard ran, in the order it ran them; from
these alone the two ways of DM (pingcap/tiflow `dm/pkg/shardddl`) find the logical DDL:

    pessimistic   one sequence of DDL for all shards; each stands where the last shard runs it, and rows of a shard that
                  has run it already wait until then
    optimistic    the logical table takes the rows of every shard as it is now (`snapshot_store.lattice`): a shard that
                  accepts more changes it at once, one that accepts less when no other needs the difference, and one
                  that does both (RENAME COLUMN) waits until all shards have

Both are pure functions from statements to statements (`values.Outcome`): no clock, no server, no order of arrival; the
same logs give the same answer. Each shard DDL *takes effect* at a place in the merged order, its own or a later one,
and the rows behind it come out no earlier (`holding`).
"""
