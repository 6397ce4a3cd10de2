"""What stands in binlog files, shown to people and to programs."""
