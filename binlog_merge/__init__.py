"""The global binlog of a distributed MySQL: many nodes' binlogs in, one MySQL-compatible binlog out."""
