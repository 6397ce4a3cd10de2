"""The rows of a cluster whose binlogs are not merged: from the nodes' files, as of the log that a merge would write."""
