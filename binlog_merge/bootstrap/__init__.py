"""Fills a target with the rows that a running cluster has, so that it is exactly the merged log at some transaction."""
