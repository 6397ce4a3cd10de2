"""Publish: makes the output visible with fsync, rename, the index file and a record in the manifest."""
