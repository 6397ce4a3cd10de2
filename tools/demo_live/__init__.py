"""`make demo-live`: a cluster of real MySQL servers under load, its global binlog as it grows, and a real replica."""
