"""The configuration of a cluster: its file, its sections, its errors."""
