"""The verbs of `binlog-merge schema`."""
