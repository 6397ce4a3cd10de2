"""Sizes on the command line, as in cluster.yaml."""


def size_of(text: str) -> int:
    """Return the bytes of a size such as 16MiB. Raises ValueError for text that is none."""
    from binlog_merge.config.values import parse_size  # imports pydantic

    return parse_size(text)
