"""What is wrong with tables: an error stops the build, a finding is counted and reported."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Level = Literal["error", "warning", "note"]


class DataError(ValueError):
    """Input that cannot be used. The message names the file or column and what was expected."""


class DatasetMissingError(DataError):
    """There is no built dataset at the path, or not all of it: a wrong path, or a mount that is gone."""


@dataclass(frozen=True)
class Finding:
    """One broken promise of the input: in which column, how often, and what it means."""

    level: Level
    check: str
    column: str
    count: int
    message: str

    def __str__(self) -> str:
        return f"{self.level}: {self.message}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def raise_errors(findings: Iterable[Finding]) -> None:
    """Raise one `DataError` that lists every finding of level "error"."""
    errors = [finding for finding in findings if finding.level == "error"]
    if errors:
        raise DataError("\n".join(finding.message for finding in errors))
