"""The table of the zoo, written into the page about models between two marks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dynamask_mlflow.experiments.table import as_markdown
from dynamask_mlflow.experiments.zoo.entry import entries
from dynamask_mlflow.experiments.zoo.run import Row

START, END = "<!-- zoo: begin -->", "<!-- zoo: end -->"


def zoo_table(rows: Sequence[Row]) -> list[list[str]]:
    """Heading first, then a row a kind."""
    table = [
        [
            "model",
            "what is particular",
            "accuracy or R²",
            "ours",
            "IG",
            "occlusion",
            "random",
            "ordering by",
            "s an instance",
        ]
    ]
    for row in rows:
        scores = row.auprc or {}
        cells = [number(scores.get(name, math.nan)) for name in ("ours", "ig", "fo", "random")]
        last = row.problem or row.algorithm
        table.append([row.name, row.about, number(row.quality), *cells, last, number(row.seconds)])
    return table


def number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def write_table(page: Path, rows: Sequence[Row], command: str) -> None:
    """Write what stands between the marks: these rows, and those of other models that were there before.

    Above the table stands which command wrote which rows.
    """
    text = page.read_text(encoding="utf-8")
    if START not in text or END not in text:
        raise ValueError(f"Expected the marks {START} and {END} in {page}, but they are missing.")
    before, after = text.partition(START)[0], text.partition(END)[2]
    inside = text.partition(START)[2].partition(END)[0]
    lines = [line for line in inside.splitlines() if line.startswith("| ")][1:]
    known = {line.split(" | ")[0].removeprefix("| "): line for line in lines if not line.startswith("| ---")}
    head, rule, *made_now = as_markdown(zoo_table(rows)).splitlines()
    known |= {row.name: line for row, line in zip(rows, made_now, strict=True)}
    order = [*entries(), *known]
    ordered = [name for name in dict.fromkeys(order) if name in known]
    commands = _commands_of(inside, known) | {row.name: command for row in rows}
    made = "\n".join([*_written_by(commands, ordered), "", head, rule, *(known[name] for name in ordered)])
    page.write_text(f"{before}{START}\n{made}\n{END}{after}", encoding="utf-8")


def _commands_of(inside: str, names: Iterable[str]) -> dict[str, str]:
    """Row -> the command that wrote it."""
    if alone := re.search(r"^Written by `(.+)`\.$", inside, flags=re.MULTILINE):
        return dict.fromkeys(names, alone[1])
    found = re.findall(r"^- `(.+)`: (.+)\.$", inside, flags=re.MULTILINE)
    return {name: command for command, some in found for name in some.split(", ")}


def _written_by(commands: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """The one command that wrote all rows, or a line for each command."""
    rows: dict[str, list[str]] = {}
    for name in names:
        rows.setdefault(commands.get(name, "unknown"), []).append(name)
    if len(rows) == 1:
        return [f"Written by `{next(iter(rows))}`."]
    lines = [f"- `{command}`: {', '.join(some)}." for command, some in rows.items()]
    return ["Written by these commands, each with `--models` and the names of its rows:", "", *lines]
