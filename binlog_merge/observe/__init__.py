"""Observe: what a cluster and its log are doing (`status`), and what a log holds (`report`)."""
