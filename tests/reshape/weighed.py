"""The weights of a text, character by character: what the kernel's hashes are of."""

from snapshot_store.mysql.text.weights import CHARACTERS, UNKNOWN, weights


def weighed(text: str, name: str) -> list[int] | None:
    """Return the weights of a text's characters, None if one's are not known."""
    table, found = weights(name), list[int]()
    for character in text:
        value = table[ord(character)] if ord(character) < CHARACTERS else UNKNOWN
        if value == UNKNOWN:
            return None
        while value:
            found.append(value & 0xFFFF)
            value >>= 16
    return found
