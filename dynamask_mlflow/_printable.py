"""Names and messages on a terminal: one line each, without what a terminal would take for an order."""

from __future__ import annotations

LONGEST = 2000


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


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else character.encode("unicode_escape").decode("ascii")
