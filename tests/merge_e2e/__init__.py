"""The merge as a whole: what comes out, of good input and of bad, however it is cut and killed."""
