"""Capture: mirrors the nodes' binlogs over replication connections, byte for byte."""
