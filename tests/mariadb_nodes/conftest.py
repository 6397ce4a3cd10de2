"""Fixtures of MariaDB nodes: a certificate."""

from tests.binlog_server.conftest import certificate

__all__ = ["certificate"]
