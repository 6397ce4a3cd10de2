"""The merged binlog as its readers see it: its files, its events, the ranks of its transactions."""
