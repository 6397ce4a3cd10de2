"""The rows of a merged log as data: typed batches in commit order, the life of a row, and counts."""
