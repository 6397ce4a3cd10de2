"""What a server would refuse of a statement."""
