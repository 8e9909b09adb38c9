"""The page in front of a bundle of evidence: what was planned, what was found, what was decided, how to check it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from dynamask_mlflow._printable import undirected
from dynamask_mlflow._states import State
from dynamask_mlflow.audit.artifacts import REFERENCE_RECORD, VERDICT
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.verdict import call

if TYPE_CHECKING:
    from dynamask_mlflow.audit.bundle import Bundle, BundledAudit

# Usual headings of post-market monitoring -> where this bundle speaks of them.
HEADINGS = (
    (
        "PCCP: description of modifications",
        "Decisions on versions: what each gate refused or let pass, against which version.",
    ),
    (
        "PCCP: modification protocol (data, re-evaluation, limits)",
        "The plan: settings, limits, yearly chance of a false alarm.",
    ),
    ("PCCP: impact assessment", "Verdicts of new versions, split into data and model; subgroups."),
    ("EU AI Act, Article 72: plan of post-market monitoring", "The plan, and the windows and sites that were audited."),
    (
        "EU AI Act, Article 72: collection and analysis of data on performance",
        "Verdicts with their numbers; outcomes where known.",
    ),
    (
        "EU AI Act, Articles 20 and 73: corrective action, serious incidents",
        "Episodes: what was found, when, who was notified, when it ended.",
    ),
    ("EU MDR, Article 83: trends", "Trends of windows, episodes that last."),
    ("Equity: performance in subgroups", "Subgroups of each audit, with intervals and those that are too small."),
)
# Settings that a reader of the plan asks for first -> in words.
_PLAN = {
    "alpha": "Chance of any false alarm in a year of audits when nothing changes",
    "audits_per_year": "Audits a year over which that chance is spent",
    "instances": "Stays of a window that are explained",
    "reference_instances": "Stays of the reference that are explained",
    "predicted_instances": "Stays of a window, and of the reference, whose predictions and outcomes are compared",
    "minimum": "With fewer stays the verdict is inconclusive",
    "effect": "Share of attention that must surely have moved for drift",
    "tolerance": "Share of attention above which a move would matter; ok is proven below it",
    "thresholds": "Thresholds of the predicted risk whose share of stays is watched",
    "risk_effect": "Change of the mean predicted risk that warns",
    "alert_effect": "Change of the share above a threshold that warns, as a share of what it was",
    "performance_effect": "Change of AUROC, AUPRC, Brier score or calibration that warns",
    "input_effect": "Distance of an important channel's inputs that warns",
    "by": "Subgroups",
    "group_minimum": "Stays of a subgroup below which it is too small",
    "reference": "What windows are compared with",
    "permutations": "Permutations of patients",
    "seed": "Seed of every random draw",
}
_CSS = """
:root { color-scheme: light dark; --ink: #1c2733; --soft: #5b6875; --line: #d7dde3; --paper: #fff; --panel: #f5f7f9;
  --ok: #1d7a4c; --warning: #9a6700; --drift: #b3261e; --inconclusive: #5b6875; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaee; --soft: #a3afbb; --line: #38424c; --paper: #14191e;
  --panel: #1c2329; --ok: #5fc48e; --warning: #e0b04c; --drift: #f2867e; --inconclusive: #a3afbb; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .25rem; } p { margin: .4rem 0; } .soft { color: var(--soft); }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; font-size: .93rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
ul { margin: .3rem 0; padding-left: 1.2rem; } code { font-size: .85em; overflow-wrap: anywhere; }
.state { font-weight: 600; white-space: nowrap; } .state::before { content: "\\25CF\\00a0"; }
.state.ok { color: var(--ok); } .state.warning { color: var(--warning); } .state.drift { color: var(--drift); }
.state.inconclusive { color: var(--inconclusive); } .state.drift::before { content: "\\25C6\\00a0"; }
.state.warning::before { content: "\\25B2\\00a0"; } .state.inconclusive::before { content: "\\25CB\\00a0"; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 0 2rem; }
.columns td:last-child { text-align: right; font-variant-numeric: tabular-nums; }
section.audit { border-top: 1px solid var(--line); padding-top: .25rem; }
.note { background: var(--panel); border-left: 3px solid var(--soft); padding: .6rem .9rem; margin: 1rem 0; }
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --line: #bbb; --paper: #fff; --panel: #fff;
  --ok: #14532d; --warning: #713f12; --drift: #7f1d1d; --inconclusive: #444; }
  @page { margin: 18mm 16mm; } body { font-size: 10.5pt; } main { max-width: none; padding: 0; }
  .columns { grid-template-columns: 1fr 1fr; font-size: 8.5pt; } .columns td { padding: .1rem .4rem .1rem 0; }
  section.audit, tr, .note { break-inside: avoid; } h2, h3 { break-after: avoid; } }
"""


def render_bundle(bundle: Bundle) -> str:
    """One page without scripts, fonts or pictures from elsewhere; it reads in light and dark, and prints."""
    records = {name: json.loads(content) for name, content in bundle.files.items() if name.count("/") == 0}
    current = [audit for audit in bundle.audits if not audit.superseded]
    parts = [
        f"<h1>Evidence of explanation audits: {escape(bundle.model)}, {escape(bundle.year)}</h1>",
        f'<p class="soft">{_summary(current, len(bundle.audits))}</p>',
        "<h2>What was found</h2>",
        _overview(bundle.audits),
        "<h2>Episodes</h2>",
        _episodes(records["episodes.json"]),
        "<h2>Decisions on versions</h2>",
        _decisions(records["decisions.json"]),
        "<h2>Plan</h2>",
        *(_plan(plan) for plan in records["plan.json"]),
        "<h2>References</h2>",
        _references(bundle),
        "<h2>Every audit</h2>",
        *(_audit(bundle, audit) for audit in bundle.audits),
        "<h2>Where the usual headings are</h2>",
        '<p class="note">An aid for whoever writes the file of a device or of a high-risk system. It is no legal '
        "advice, and no claim that a requirement is met.</p>",
        _table(("Heading", "In this bundle"), HEADINGS),
        "<h2>How to check this bundle</h2>",
        "<p><code>dynamask-mlflow audit verify evidence.zip</code> refuses the file if one byte differs, and computes "
        "every verdict again from the arrays in <code>runs/</code>, without any server. The last 64 characters of the "
        "file are the SHA-256 of all before them: note them elsewhere, and give them back with <code>--expect</code>. "
        f"The manifest has the SHA-256 of each of the {len(bundle.files) + 1} files.</p>",
    ]
    names = {plan["settings"].get("sequence_name", "stay") for plan in records["plan.json"]}
    body = call("\n".join(parts), names.pop() if len(names) == 1 else "stay")
    title = escape(f"Evidence: {bundle.model}, {bundle.year}")
    return undirected(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><title>{title}</title><style>{_CSS}</style></head>'
        f"<body><main>\n{body}\n</main></body></html>\n"
    )


def _summary(current: Sequence[BundledAudit], total: int) -> str:
    counts = {state: sum(audit.state == str(state) for audit in current) for state in State}
    by_state = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    sites = len({audit.site for audit in current})
    rest = total - len(current)
    more = f" {rest} more {'was' if rest == 1 else 'were'} superseded by later data or outcomes." if rest else ""
    return f"{len(current)} audits of {sites} site{'s' if sites > 1 else ''}: {by_state}.{more}"


def _state(state: str) -> str:
    return f'<span class="state {escape(state)}">{escape(state)}</span>'


def _overview(audits: Sequence[BundledAudit]) -> str:
    rows = [
        (
            escape(audit.window)
            + (f' <span class="soft">{escape(audit.settings)}</span>' if audit.settings else "")
            + (' <span class="soft">superseded</span>' if audit.superseded else ""),
            escape(audit.site),
            escape(audit.version),
            _state(audit.state),
            escape(audit.reason),
        )
        for audit in audits
    ]
    return _table(("Window", "Site", "Version", "Verdict", "First reason"), rows, escaped=True)


def _episodes(found: Sequence[Mapping[str, Any]]) -> str:
    if not found:
        return "<p>No finding opened an episode.</p>"
    rows = []
    for episode in found:
        windows = episode["windows"]
        span = windows[0] if len(windows) == 1 else f"{windows[0]} to {windows[-1]} ({len(windows)} windows)"
        end = f"ended by {episode['ended_by']}" if episode["ended_by"] else "open"
        notices = ", ".join(episode["notices"]) or "nobody was notified by the scheduler"
        where = ", ".join(filter(None, (episode["site"], f"version {episode['version']}", episode["settings"])))
        told = (escape(text) for text in (end, notices, episode["reason"]))
        rows.append((escape(span), escape(where), _state(episode["state"]), *told))
    return _table(("Windows", "Where", "State", "End", "Told", "Reason"), rows, escaped=True)


def _decisions(found: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            f"version {entry['version']}",
            ", ".join(entry["aliases"]) or "-",
            entry["gate"],
            " ".join(entry["reasons"]) or "-",
        )
        for entry in found
    ]
    return _table(("Version", "Aliases", "Gate", "Reasons"), rows) if rows else "<p>No decision is recorded.</p>"


def _plan(plan: Mapping[str, Any]) -> str:
    settings = plan["settings"]
    rows = [(words, _value(settings[name])) for name, words in _PLAN.items() if name in settings]
    defaults = {name: field.default for name, field in AuditConfig.model_fields.items()}
    other = [
        f"{name} = {_value(value)}"
        for name, value in sorted(settings.items())
        if name not in _PLAN and name in defaults and _value(value) != _value(defaults[name])
    ]
    more = f'<p class="soft">Also changed from the default: {escape("; ".join(other))}.</p>' if other else ""
    return (
        f"<p>Used for: {escape('; '.join(dict.fromkeys(plan['audits'])))}.</p>{_table(('What', 'Set to'), rows)}{more}"
    )


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "all" if value is None else str(value)


def _references(bundle: Bundle) -> str:
    rows = []
    for name, content in sorted(bundle.files.items()):
        if name.endswith(REFERENCE_RECORD):
            record = json.loads(content)
            version = record["model"].get("version", "")
            rows.append((record["window"], record.get("site", ""), version, record["instances"], name.split("/")[1]))
    return _table(("Window", "Site", "Version", "Stays", "Run"), rows) if rows else "<p>None.</p>"


def _audit(bundle: Bundle, audit: BundledAudit) -> str:
    from dynamask_mlflow.audit.bundle import metrics_rows
    from dynamask_mlflow.audit.page import TESTS
    from dynamask_mlflow.audit.verdict import Verdict

    verdict = json.loads(bundle.files[f"runs/{audit.run_id}/{VERDICT}"])
    sections = "".join(
        f"<h4>{escape(title)}</h4><ul>{''.join(f'<li>{escape(text)}</li>' for text in sentences)}</ul>"
        for title, sentences in Verdict.from_dict(verdict).sections
    )
    rows = metrics_rows(verdict, TESTS)
    half = (len(rows) + 1) // 2
    columns = "".join(_table(("Number", "Value"), part) for part in (rows[:half], rows[half:]) if part)
    numbers = f'<div class="columns">{columns}</div>'
    when = f'<span class="soft">run {escape(audit.run_id)}, concluded {escape(audit.audited_at[:19])}</span>'
    old = ' <span class="soft">(superseded)</span>' if audit.superseded else ""
    settings = f", {escape(audit.settings)}" if audit.settings else ""
    return (
        f'<section class="audit"><h3>{escape(audit.window)}, {escape(audit.site)}, version {escape(audit.version)}'
        f"{settings}: {_state(audit.state)}{old}</h3><p>{when}</p>{sections}{numbers}</section>"
    )


def _table(head: Iterable[str], rows: Iterable[Iterable[Any]], escaped: bool = False) -> str:
    def cell(value: Any) -> str:
        return str(value) if escaped else escape(str(value))

    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{cell(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
