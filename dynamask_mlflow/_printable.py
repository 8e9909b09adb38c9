"""Names and messages on a terminal: one line each, without what a terminal would take for an order."""

from __future__ import annotations

import re

LONGEST = 2000
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")


def printable(text: object, longest: int = LONGEST) -> str:
    r"""The text on one line: breaks are spaces, other control characters are escaped, long texts cut in the middle.

    Names come from registries and data, where anybody may write: an escape sequence could hide a line of a terminal, a
    direction mark turn it round.

    Example:
        >>> printable("two\nlines \x1b[31mred \u202eabc")
        'two lines \\x1b[31mred \\u202eabc'
        >>> printable("x" * 100, longest=9)
        'xxx...xxx'
    """
    line = "".join(_shown(character) for character in str(text))
    if len(line) <= longest:
        return line
    kept = (longest - 3) // 2
    return f"{line[:kept]}...{line[-kept:]}"


def undirected(text: str) -> str:
    r"""The text with the sign of replacement for marks that turn round, or hide the end of, whatever follows on a page.

    Letters of scripts that are written from right to left, and the marks beside them, stay as they are.

    Example:
        >>> undirected("ward \u202e3, 2026-03").encode("ascii", "backslashreplace")
        b'ward \\ufffd3, 2026-03'
    """
    return _DIRECTION.sub("\ufffd", text)


def shortened(text: str, longest: int) -> str:
    """The text, or as many of its words as fit before "...".

    Example:
        >>> shortened("It rose from .167 to .125.", 22)
        'It rose from .167...'
    """
    if len(text) <= longest:
        return text
    kept = text[: longest - 3]
    return f"{kept[: kept.rfind(' ')].rstrip() if ' ' in kept[longest // 2 :] else kept}..."


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else character.encode("unicode_escape").decode("ascii")
