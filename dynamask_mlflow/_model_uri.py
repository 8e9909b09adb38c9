"""Addresses of registered models: `models:/name@alias`, `models:/name/3` and `models:/name`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FORM = re.compile(r"models:/(?P<name>[^@/]+)(?:@(?P<alias>[^@/]+)|/(?P<version>[^@/]+))?/?")


@dataclass(frozen=True)
class ModelUri:
    """A registered model, at an alias, at a version, or at its latest version.

    >>> ModelUri.parse("models:/icu-mortality@champion")
    ModelUri(name='icu-mortality', alias='champion', version=None)
    >>> str(ModelUri("icu-mortality", version="3"))
    'models:/icu-mortality/3'
    """

    name: str
    alias: str | None = None
    version: str | None = None

    @classmethod
    def parse(cls, uri: str) -> ModelUri:
        """Read an address.

        Raises:
            ValueError: if it is none of a registered model.
        """
        found = _FORM.fullmatch(uri)
        if found is None:
            raise ValueError(f"Expected a registered model such as models:/icu-mortality@champion, but got {uri!r}.")
        return cls(found["name"], found["alias"], found["version"])

    def __str__(self) -> str:
        which = f"@{self.alias}" if self.alias else f"/{self.version}" if self.version else ""
        return f"models:/{self.name}{which}"


def registered_name(text: str) -> str:
    """The name in an address, or the name itself.

    >>> registered_name("models:/icu-mortality@champion"), registered_name("icu-mortality")
    ('icu-mortality', 'icu-mortality')
    """
    return ModelUri.parse(text).name if text.startswith("models:/") else text
