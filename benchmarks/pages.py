"""What a benchmark writes into a page, between two marks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_between(path: Path, mark: str, text: str) -> None:
    """Put text between `<!-- mark -->` and `<!-- /mark -->`."""
    begin, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
    page = path.read_text(encoding="utf-8")
    path.write_text(f"{page.split(begin)[0]}{begin}{text}{end}{page.split(end)[1]}", encoding="utf-8")


def write_figures(path: Path, mark: str, found: Mapping[str, Any]) -> None:
    """Put a table of figures between the marks; of what went wrong the count."""
    rows = "".join(f"| {name} | {value} |\n" for name, value in {**found, "wrong": len(found["wrong"])}.items())
    write_between(path, mark, f"| | |\n|---|---|\n{rows}")
