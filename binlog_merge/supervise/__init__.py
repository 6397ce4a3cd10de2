"""Long-running commands as supervised processes: started, restarted where that helps, and ended together."""
