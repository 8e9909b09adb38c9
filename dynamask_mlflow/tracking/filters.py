"""Conditions of MLflow's searches for any text, quotes included.

MLflow's filters know no escape: text in single quotes may hold double ones and the other way round. Text with both, or
with a backslash, is looked for with wildcards in their places, so compare what is found with what was meant.
"""

from __future__ import annotations

import re


def equals(key: str, value: str) -> str:
    """A condition that holds wherever `key` is `value`; with both kinds of quotes in it, possibly elsewhere, too.

    Example:
        >>> equals("name", "it's")
        'name = "it\\'s"'
    """
    if "\\" not in value:
        if "'" not in value:
            return f"{key} = '{value}'"
        if '"' not in value:
            return f'{key} = "{value}"'
    pattern = re.sub(r"""['"\\%]""", "_", value)
    return f"{key} LIKE '{pattern}'"


def tag_equals(tag: str, value: str) -> str:
    return equals(f"tags.`{tag}`", value)
