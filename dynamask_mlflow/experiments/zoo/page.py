"""The table of the zoo, written into the page about models between two marks."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    """Write what stands between the marks: these rows, and those of other models that were there before."""
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
    ordered = [known[name] for name in dict.fromkeys(order) if name in known]
    made = "\n".join([f"Written by `{command}`.", "", head, rule, *ordered])
    page.write_text(f"{before}{START}\n{made}\n{END}{after}", encoding="utf-8")
