"""MySQL's collations as MariaDB 10.10 and later has them.

    utf8mb4_0900_ai_ci           utf8mb4_uca1400_nopad_ai_ci
    utf8mb4_de_pb_0900_as_cs     utf8mb4_uca1400_german2_nopad_as_cs
    utf8mb4_0900_bin             utf8mb4_nopad_bin

UCA 14.0.0 is not UCA 9.0.0: few characters compare otherwise, and in a unique key they may. A language that MariaDB has
no rules for gets those of all languages. Source: MariaDB `strings/ctype-uca1400data.h` and
information_schema.COLLATION_CHARACTER_SET_APPLICABILITY of 10.11.
"""

import re
from typing import Final

from snapshot_store.mysql.text.charsets import all_collations, canonical_collation

_LANGUAGES: Final = (
    "", "icelandic", "latvian", "romanian", "slovenian", "polish", "estonian", "spanish", "swedish", "turkish", "czech",
    "danish", "lithuanian", "slovak", "spanish2", "roman", "persian", "esperanto", "hungarian", "sinhala", "german2",
    "", "", "vietnamese", "croatian",
)  # fmt: skip
"""MariaDB's languages in the order of their ids."""
_MYSQL: Final = {
    "de_pb": "german2", "is": "icelandic", "lv": "latvian", "ro": "romanian", "sl": "slovenian", "pl": "polish",
    "et": "estonian", "es": "spanish", "sv": "swedish", "tr": "turkish", "cs": "czech", "da": "danish",
    "lt": "lithuanian", "sk": "slovak", "es_trad": "spanish2", "la": "roman", "eo": "esperanto", "hu": "hungarian",
    "hr": "croatian", "vi": "vietnamese", "nb": "danish", "nn": "danish", "gl": "spanish", "bs": "croatian",
    "sr_latn": "croatian",
}  # fmt: skip
"""MySQL's languages; those that are missing have no rules of their own in MariaDB."""
_FIRST_UCA1400: Final = 2304
_NOPAD: Final = 4
_STRENGTHS: Final = ("ai_ci", "ai_cs", "as_ci", "as_cs")
_0900: Final = re.compile(r"utf8mb4_(?:(?P<language>\w+?)_)?0900_(?P<strength>ai_ci|as_ci|as_cs)(?:_ks)?")
_BIN: Final = ("utf8mb4_nopad_bin", 1070)
_GB18030: Final = ("utf8mb4_general_ci", 45)
_GB18030_BIN: Final = ("utf8mb4_bin", 46)


def _map(name: str) -> tuple[str, int] | None:
    if name == "utf8mb4_0900_bin":
        return _BIN
    if name.startswith("gb18030"):
        return _GB18030_BIN if name.endswith("_bin") else _GB18030
    found = _0900.fullmatch(name)
    if found is None:
        return None
    language = _MYSQL.get(found["language"] or "", "")
    strength = found["strength"]
    number = _FIRST_UCA1400 + 8 * _LANGUAGES.index(language) + _NOPAD + _STRENGTHS.index(strength)
    return f"utf8mb4_uca1400_{language + '_' if language else ''}nopad_{strength}", number


_NAMES: Final = {name: mapped for name, _ in all_collations().values() if (mapped := _map(name)) is not None}
_IDS: Final = {number: _NAMES[name][1] for number, (name, _) in all_collations().items() if name in _NAMES}


def mariadb_name(collation: str) -> str | None:
    """Return MariaDB's name for a collation that it does not have; None for one that it has under the same name."""
    found = _NAMES.get(canonical_collation(collation) or "")
    return None if found is None else found[0]


def mariadb_id(number: int) -> int:
    """Return MariaDB's id for a collation's id."""
    return _IDS.get(number, number)
