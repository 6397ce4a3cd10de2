"""PolarDB-X formats: transaction ids, marker rows and their JSON, system tables and private DDL syntax. No I/O."""
