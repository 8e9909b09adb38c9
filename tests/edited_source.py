"""The package's sources with one text replaced, as whoever reads them then sees them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dynamask_mlflow._provenance import forget_files


@contextmanager
def edited_source(monkeypatch: pytest.MonkeyPatch, changed: str, old: str, new: str) -> Iterator[None]:
    """Replace `old` by `new` in the file whose path ends in `changed`; nothing is written. "" changes nothing."""
    read = Path.read_text

    def edited(path: Path, *args: object, **options: object) -> str:
        text = read(path, *args, **options)  # type: ignore[arg-type]
        if changed and str(path).endswith(f"dynamask_mlflow/{changed}"):
            assert old in text
            text = text.replace(old, new)
        return text

    forget_files()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", edited)
        yield
    forget_files()
