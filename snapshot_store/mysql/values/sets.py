"""The text that a server shows of a SET."""

from collections.abc import Iterable


def set_text(members: Iterable[str]) -> str:
    """Return the text of a SET with these members, in the order of the definition.

    There is a comma only behind text: after the empty member alone there is none (`Field_set::val_str`).
    """
    text = ""
    for member in members:
        text += f",{member}" if text else member
    return text
