"""The binlog file format: bytes to values and back. Pure: no files, no schemas, no clock."""
