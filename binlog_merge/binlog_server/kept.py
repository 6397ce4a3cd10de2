"""A session's variables, which know their size: to count it anew with each would take longer the more there are."""

from binlog_merge.protocol.packets import Value


class Kept(dict[str, Value]):
    """Values by their names; `size` is how many characters all of both have. Set, `del`, `pop` and `clear` keep it."""

    size: int = 0

    def size_without(self, name: str) -> int:
        """Return the size without this variable."""
        return self.size - (_size(name, self[name]) if name in self else 0)

    def __setitem__(self, name: str, value: Value) -> None:
        self.size = self.size_without(name) + _size(name, value)
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self.size = self.size_without(name)
        super().__delitem__(name)

    def pop(self, name: str, default: Value = None) -> Value:  # type: ignore[override]
        """Take a variable away; return its value, or the default."""
        self.size = self.size_without(name)
        return super().pop(name, default)

    def clear(self) -> None:
        """Take all away."""
        self.size = 0
        super().clear()


def _size(name: str, value: Value) -> int:
    return len(name) + len(str(value))
