"""Tables of a page that a command writes: the rows of one data set are replaced, those of the others stay."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dynamask_mlflow.experiments.drift.data import SOURCES
from dynamask_mlflow.experiments.table import as_markdown


def update_document(path: str, name: str, table: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> None:
    """Write a table, with a head, between the marks of this name in a Markdown file.

    Rows and notes begin with the name of a data set. Those of data sets that the table does not have are kept.
    """
    begin, end = f"<!-- {name} table -->", f"<!-- /{name} table -->"
    text = Path(path).read_text(encoding="utf-8")
    before, mark, rest = text.partition(begin)
    inside, closing, after = rest.partition(end)
    if not mark or not closing:
        raise ValueError(f"Expected the marks {begin} and {end} in {path}, but they are not there.")
    head, *rows = table
    made = {row[0] for row in rows}
    kept, kept_notes = _others(inside, made)
    if kept and len(kept[0]) != len(head):
        raise ValueError(
            f"Expected rows with {len(head)} columns in {path}, but those of {kept[0][0]} have {len(kept[0])}: "
            "make them again, too."
        )
    ordered = sorted([*kept, *rows], key=lambda row: _place(row[0]))
    said = sorted([*kept_notes, *notes], key=_place)
    lines = [as_markdown([head, *ordered]), *([""] if said else []), *(f"- {note}" for note in said)]
    Path(path).write_text(f"{before}{begin}\n" + "\n".join(lines) + f"\n{end}{after}", encoding="utf-8")


def _others(text: str, made: set[str]) -> tuple[list[list[str]], list[str]]:
    """Rows and notes of the other data sets."""
    lines = text.strip().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]
    notes = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
    return [row for row in rows if row[0] not in made], [note for note in notes if not note.startswith(tuple(made))]


def _place(text: str) -> int:
    return next((place for place, source in enumerate(SOURCES) if text.startswith(source)), len(SOURCES))
