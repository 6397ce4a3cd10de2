"""Publish: makes the output visible: fsync, rename, index, then one line in the manifest."""
