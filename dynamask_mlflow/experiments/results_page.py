"""docs/results.md: written from the logged runs, so that no figure on it is typed by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dynamask_mlflow._method_table import SALIENCY_METHODS
from dynamask_mlflow.experiments.figures import area_curves, save
from dynamask_mlflow.experiments.hospital import COLUMNS as HOSPITAL_COLUMNS
from dynamask_mlflow.experiments.mimic import COLUMNS as MIMIC_COLUMNS
from dynamask_mlflow.experiments.mimic import PRESETS as MIMIC_PRESETS
from dynamask_mlflow.experiments.perturbation import COLUMNS as PERTURBATION_COLUMNS
from dynamask_mlflow.experiments.published import PUBLISHED
from dynamask_mlflow.experiments.registry import RARE_PRESETS, STATE_PRESETS
from dynamask_mlflow.experiments.results_messages import CURVES, INTRODUCTION, NOTES
from dynamask_mlflow.experiments.results_runs import Entry, Section
from dynamask_mlflow.experiments.scores import MOTIF_COLUMNS, TRUTH_COLUMNS
from dynamask_mlflow.experiments.table import as_markdown, format_summary

OURS = ("nested", "nested-deletion")
_COST = "cpu_seconds_per_instance"
_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "rare-feature": TRUTH_COLUMNS,
    "rare-time": TRUTH_COLUMNS,
    "state": {**TRUTH_COLUMNS, "accuracy": "model acc."},
    "motif": MOTIF_COLUMNS,
    "mimic": MIMIC_COLUMNS,
    "hospital": HOSPITAL_COLUMNS,
    "perturbation": PERTURBATION_COLUMNS,
}
_PRESETS = {"rare-feature": RARE_PRESETS, "rare-time": RARE_PRESETS, "state": STATE_PRESETS, "mimic": MIMIC_PRESETS}
_LOWER = ("entropy", "acc/", "acc_batch/", "cpp/")
# Facts of the case, and what has no better or worse.
_NO_CONTEST = ("accuracy", "model_auroc", "area")
_EQUAL = 5e-4
_PICTURED = ("error", "ce", "acc")


def results_page(sections: Sequence[Section], pictures: Mapping[str, Sequence[str]] | None = None) -> str:
    """The whole page as Markdown; `pictures` are addresses of images by the title of their section."""
    if not sections:
        raise ValueError("Expected logged experiments that are not quick, but there are none.")
    parts = [INTRODUCTION]
    for section in sections:
        parts += _section(section, (pictures or {}).get(section.title, ()))
    return "\n\n".join(parts) + "\n"


def write_page(sections: Sequence[Section], output: Path) -> None:
    """The page, and its images in a folder beside it."""
    drawn = draw_pictures(sections, output.parent / "images")
    pictures = {title: [f"images/{path.name}" for path in paths] for title, paths in drawn.items()}
    output.write_text(results_page(sections, pictures), encoding="utf-8")


def draw_pictures(sections: Sequence[Section], folder: Path) -> dict[str, list[Path]]:
    """The curves against the area of each section, as images in `folder`, by title."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, list[Path]] = {}
    for section in sections:
        slug = re.sub(r"[^a-z0-9]+", "-", section.title.lower())[:48].strip("-")
        for curve, figure in area_curves(section.title, section.result()).items():
            if curve in _PICTURED:
                path = folder / f"results-{slug}-{curve}.svg"
                drawn.setdefault(section.title, []).append(save(figure, path))
    return drawn


def _section(section: Section, pictures: Sequence[str]) -> list[str]:
    columns = _COLUMNS.get(section.name, {})
    entries = sorted(section.entries, key=_row_order)
    parts = [f"## {section.title}"]
    if section.name in NOTES:
        parts.append(NOTES[section.name])
    parts.append(as_markdown(_table(section, entries, columns)))
    if section.name != "perturbation":
        parts += _verdicts(section, columns)
    parts += [f"![{section.title}]({picture})" for picture in pictures]
    parts += _curve_tables(entries)
    parts.append("Settings and commands: " + "; ".join(dict.fromkeys(_settings(entry) for entry in entries)) + ".")
    parts.append("```sh\n" + "\n".join(_commands(entries)) + "\n```")
    missing = _not_run(section)
    if missing:
        parts.append(f"Not run for this table: {', '.join(missing)}.")
    return parts


def _row_order(entry: Entry) -> tuple[int, str]:
    """Ours, the two readings of the paper, baselines, chance."""
    name = entry.method
    if name.startswith("nested"):
        return (0 if name in OURS else 1), name
    return {"paper": 2, "released": 3, "random": 5}.get(name, 4), name


def _table(section: Section, entries: Sequence[Entry], columns: Mapping[str, str]) -> list[list[str]]:
    table = [["", *columns.values(), "seeds x instances", "CPU s/instance"]]
    for entry in entries:
        name = f"**{entry.method}** (ours)" if entry.method.startswith("nested") else entry.method
        values = [format_summary(entry.summary(metric)) for metric in columns]
        size = f"{len(entry.trials)} x {entry.instances}"
        table.append([name, *values, size, _cost(entry)])
    for row in PUBLISHED.get(section.name, ()):
        table.append([row.name, *(row.values.get(metric, "-") for metric in columns), "-", "-"])
    return table


def _cost(entry: Entry) -> str:
    mean = entry.summary(_COST).mean
    return "-" if mean != mean else f"{mean:.2g}" if mean < 100 else f"{mean:.0f}"


def _verdicts(section: Section, columns: Mapping[str, str]) -> list[str]:
    """For each of ours: the columns where a baseline of the same protocol, or a published figure, is better."""
    lines = []
    for name in OURS:
        own = section.entry(name)
        if own is not None:
            baselines = [entry for entry in section.entries if not entry.method.startswith("nested")]
            lines.append(_verdict(section, own, baselines, columns))
    return lines


def _verdict(section: Section, own: Entry, baselines: Sequence[Entry], columns: Mapping[str, str]) -> str:
    first, behind = [], []
    for metric, heading in columns.items():
        if metric in _NO_CONTEST or not own.summary(metric).count or not baselines:
            continue
        sign = -1 if metric.startswith(_LOWER) else 1
        pairs = [(section.peer(own, baseline), baseline) for baseline in baselines]
        leads = [_lead(peer, baseline, metric, sign) for peer, baseline in pairs]
        peer, best = pairs[leads.index(max(leads))]
        if max(leads) <= _EQUAL:
            first.append(heading)
        else:
            behind.append(f"{heading} ({_comparison(peer, best, metric)})")
    text = f"`{own.method}` is first or tied among the methods run here in: {', '.join(first) or 'nothing'}. "
    text += f"**It loses in:** {'; '.join(behind)}." if behind else "It loses in no column."
    published = _published_better(section, own, columns)
    return text + (f" Better figures were published for: {'; '.join(published)}." if published else "")


def _lead(own: Entry, baseline: Entry, metric: str, sign: int) -> float:
    """How much better the baseline is over the seeds that both ran."""
    theirs, mine = baseline.summary(metric, own.seeds), own.summary(metric, baseline.seeds)
    return sign * (theirs.mean - mine.mean) if theirs.count and mine.count else float("-inf")


def _comparison(own: Entry, baseline: Entry, metric: str) -> str:
    theirs, mine = baseline.summary(metric, own.seeds), own.summary(metric, baseline.seeds)
    text = f"{baseline.method} {theirs.mean:.3f} against {mine.mean:.3f}"
    if len(set(own.seeds) & set(baseline.seeds)) < len(own.seeds) or baseline.instances != own.instances:
        text += ", on fewer cases" if baseline.instances <= own.instances else ", on other cases"
    spread = max((s.deviation for s in (mine, theirs) if s.deviation == s.deviation), default=0.0)
    return text + (", within the seeds' spread" if abs(theirs.mean - mine.mean) <= spread else "")


def _published_better(section: Section, own: Entry, columns: Mapping[str, str]) -> list[str]:
    found = []
    for metric, heading in columns.items():
        mine = own.summary(metric)
        sign = -1 if metric.startswith(_LOWER) else 1
        for row in PUBLISHED.get(section.name, ()):
            number = re.match(r"-?\d*\.?\d+", row.values.get(metric, ""))
            if mine.count and number and sign * (float(number[0]) - mine.mean) > 5e-3:
                found.append(f"{heading} ({row.name}, {number[0]})")
    return found


def _curve_tables(entries: Sequence[Entry]) -> list[str]:
    """Metrics named curve/x, one table a curve, folded away."""
    parts = []
    for curve, heading in CURVES.items():
        points = _points(entries, curve)
        known = [entry for entry in entries if any(entry.summary(f"{curve}/{p}").count for p in points)]
        if not points:
            continue
        table = [["", *points]]
        for entry in known:
            table.append([entry.method, *(format_summary(entry.summary(f"{curve}/{p}")) for p in points)])
        parts.append(f"<details><summary>{heading}</summary>\n\n{as_markdown(table)}\n\n</details>")
    return parts


def _points(entries: Iterable[Entry], curve: str) -> list[str]:
    names = {name for entry in entries for name in entry.metrics() if name.startswith(f"{curve}/")}
    return sorted((name.split("/")[1] for name in names), key=float)


def _settings(entry: Entry) -> str:
    return f"version {entry.version}, {entry.hardware}"


def _commands(entries: Sequence[Entry]) -> list[str]:
    """One line for each combination of settings and seeds."""
    lines: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for entry in entries:
        lines.setdefault((entry.command, entry.seeds), []).append(entry.method)
    return [
        f"{command} --seeds {_seeds(seeds)} --methods {','.join(methods)} --log"
        for (command, seeds), methods in lines.items()
    ]


def _seeds(seeds: tuple[int, ...]) -> str:
    if seeds == tuple(range(len(seeds))):
        return str(len(seeds))
    return ",".join(map(str, seeds)) + ("," if len(seeds) == 1 else "")


def _not_run(section: Section) -> list[str]:
    if section.name == "perturbation":
        return []
    known = dict.fromkeys(["nested", "paper", *_PRESETS.get(section.name, {}), *SALIENCY_METHODS])
    done = {entry.method for entry in section.entries}
    return [name for name in known if name not in done]
