"""Serve: hands a merged binlog out as a MySQL server would."""
