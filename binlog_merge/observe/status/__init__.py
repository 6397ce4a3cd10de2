"""Status: what a cluster's capture, merge and serve are doing, from what they leave on disk."""
