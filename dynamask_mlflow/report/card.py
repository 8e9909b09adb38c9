"""A model card in Markdown: what the model relies on, by channel, time and group, with figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dynamask_mlflow.report.data import ReportData
from dynamask_mlflow.report.messages import moment, percent, plural, word
from dynamask_mlflow.report.payload import build_headline, channel_labels, channel_shares

CAUTION = "A mask explains the model, not the patient: it shows what the model used, not what caused the outcome."
_TOP = 10
_SHARES = ("area", "kept", "certainty")
_SPECIAL = "\\`*_{}[]<>#|!"


def model_card(data: ReportData, dataset: Mapping[str, Any] | None = None) -> str:
    """A card for people: no raw value of any instance is in it, whatever the page holds.

    Args:
        data: what the page shows.
        dataset: its name and digest, if they are known.

    Example:
        >>> from dynamask_mlflow.report import ReportData
        >>> data = ReportData(
        ...     title="Two vital signs", model="mine", created_at="2026-03-14", task="regression",
        ...     ids=["a"], channel_names=["HR", "GCS"], times=range(3), masks=np.eye(3, 2)[None],
        ... )
        >>> model_card(data).splitlines()[0]
        '# Two vital signs'
    """
    lines = [f"# {_text(data.title)}", ""]
    lines += [f"- Model: {_text(data.model)}", f"- Made: {moment(data.created_at)}"]
    if dataset:
        lines.append(f"- Data: {_text(dataset.get('name'))} (digest {_text(dataset.get('digest'))})")
    steps = np.shape(data.masks)[1]
    lines.append(
        f"- Explained: {plural(len(data.ids), 'instance')} of {plural(steps, data.time_unit)} and "
        f"{plural(len(data.channel_names), 'channel')}, by {_text(data.method)} masks"
    )
    if data.contributions is not None and data.contributions.target:
        lines.append(f"- Answer: {_text(data.contributions.target)}")
    lines += ["", "## What it relies on", "", *(_text(line) for line in build_headline(data)), ""]
    lines += _channels(data)
    lines += _tests(data)
    lines += _groups(data)
    for title, sentences in (("Cautions", data.warnings), ("Notes", data.notes)):
        if sentences:
            lines += [f"## {title}", "", *(f"- {_text(sentence)}" for sentence in sentences), ""]
    lines += [CAUTION, ""]
    return "\n".join(lines)


def _text(value: object) -> str:
    """Names may hold any text; here it is shown, never read as markup."""
    plain = " ".join(str(value).split())
    return "".join(f"\\{c}" if c in _SPECIAL else c for c in plain)


def _number(value: float) -> str:
    return "" if not np.isfinite(value) else f"{value:.3g}"


def _channels(data: ReportData) -> list[str]:
    shares = channel_shares(data)
    order = [c for c in np.argsort(-shares, kind="stable")[:_TOP] if shares[c] > 0]
    if not order:
        return []
    labels = channel_labels(data)
    rows = ["| channel | share of the masks | on average it |", "|---|---|---|"]
    signs = np.zeros(len(shares))
    if data.contributions is not None:
        signs = np.asarray(data.contributions.cells, dtype=np.float64).sum(axis=1).mean(axis=0)
    for c in order:
        way = "raises the answer" if signs[c] > 0 else "lowers the answer" if signs[c] < 0 else ""
        rows.append(f"| {_text(labels[c])} | {percent(float(shares[c]))} | {way} |")
    return [*rows, ""]


def _tests(data: ReportData) -> list[str]:
    if not data.paired:
        return []
    words = {"random": "random cells", "other": "another instance's mask"}
    rows = ["## Are the masks better than chance?", "", "| measure | masks [95 %] | control | its value | p |"]
    rows.append("|---|---|---|---|---|")
    for name, paired in data.paired.items():
        known = word(name, data.task, data.explanations)
        label = f"{known.label} ({known.symbol})" if known.symbol else known.label
        shown = percent if known.kind == "share" else _number
        if np.isfinite(paired.shift):
            ours = _number(paired.shift)
            ours += f" [{_number(paired.low)}, {_number(paired.high)}]" if np.isfinite(paired.low) else ""
            label += ", above the unperturbed value" if name == "ce" else ""
        else:
            ours = shown((data.summary or {}).get(name, np.nan))
        for control, (value, p) in paired.controls.items():
            chance = "< .001" if p < 0.001 else _number(p)
            beside = words.get(control, _text(control))
            rows.append(f"| {_text(label)} | {ours} | {beside} | {shown(value)} | {chance} |")
    return [*rows, "", "p: Wilcoxon's signed-rank test over the instances, one-sided.", ""]


def _groups(data: ReportData) -> list[str]:
    if not data.groups:
        return []
    names = list(dict.fromkeys(key for row in data.groups for key in row))
    rows = ["## By group", "", "| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for row in data.groups:
        cells = [row.get(name, "") for name in names]
        shown = [_cell(name, cell) for name, cell in zip(names, cells, strict=True)]
        rows.append("| " + " | ".join(shown) + " |")
    return [*rows, ""]


def _cell(name: str, value: object) -> str:
    if not isinstance(value, float):
        return _text(value)
    return percent(value) if name in _SHARES and np.isfinite(value) else _number(value)
