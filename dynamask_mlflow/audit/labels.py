"""Outcomes that arrive after the audit: the verdict is concluded again with them, from the arrays, without a fit."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._model_uri import registered_name
from dynamask_mlflow._printable import printable
from dynamask_mlflow._provenance import digest
from dynamask_mlflow._secrets import first_line
from dynamask_mlflow.audit import tags as t
from dynamask_mlflow.audit.artifacts import CONFIG, MADE_FROM, MEASURED, VERDICT
from dynamask_mlflow.audit.compare_shards import Comparison, trend_entries, trend_label
from dynamask_mlflow.audit.comparison import AuditArrays, ComparisonResult, compare_arrays, load_arrays
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.culprit import Culprit, find_culprits
from dynamask_mlflow.audit.errors import AuditError
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.history import AuditEntry, audit_history
from dynamask_mlflow.audit.identity import EXPERIMENT
from dynamask_mlflow.audit.reporting import comparison_files, stored_culprits, verdict_files
from dynamask_mlflow.audit.runs import (
    close_run,
    conclude_run,
    copied_run,
    download,
    link_superseded,
    read_artifact_json,
    upload_results,
)
from dynamask_mlflow.audit.verdict import Verdict, detect_violations, detect_warnings, evaluate_verdict
from dynamask_mlflow.audit.version_state import publish_version_state
from dynamask_mlflow.audit.windows import named_outcomes, parse_window

_logger = logging.getLogger(__name__)
Labels = Mapping[str, float]


@dataclass(frozen=True)
class Relabelled:
    """One audit that was concluded again. added: outcomes that were not known, or were others, before."""

    window: str
    site: str
    version: str
    added: int
    before: str
    verdict: Verdict
    run_id: str


def add_labels(
    model: str, labels: Labels, experiment: str = EXPERIMENT, *, site: str | None = None
) -> list[Relabelled]:
    """Conclude every current audit of a registered model again for which there are new outcomes.

    Each becomes a run that supersedes the former one: nothing is overwritten.

    Args:
        labels: stay -> outcome. With `hash_ids` the stays are named as before, by their own ids.
        site: whose stays they are; needed if several sites were audited, since two hospitals may number their stays
            alike.

    >>> from dynamask_mlflow.audit import run_audit
    >>> config = AuditConfig(instances=100, reference_instances=100, anchors=5)
    >>> verdict = run_audit("models:/icu-mortality@champion", "icu", "2026-03", config=config)
    >>> add_labels("icu-mortality", {"a stay that was not audited": 1.0})
    []
    """
    name = registered_name(model)
    entries = audit_history(experiment, name, site=site, superseded=False)
    if not entries:
        where = f"at the site {site!r} " if site is not None else ""
        raise AuditError(f"Expected audits of {name!r} {where}in the experiment {experiment!r}, but there are none.")
    sites = sorted({entry.site for entry in entries})
    if len(sites) > 1:
        raise AuditError(
            f"Expected the site whose stays have these outcomes, since two hospitals may number their stays alike: one "
            f"of {', '.join(sites)}."
        )
    found: list[Relabelled] = []
    for entry in sorted(entries, key=lambda each: each.start):  # trends look back, never ahead
        done = _relabel(entry, entries, labels, experiment)
        if done is not None:
            found.append(done)
            entries = audit_history(experiment, name, site=site, superseded=False)
    for version in {each.version for each in found}:
        publish_version_state(name, version, experiment)
    return found


def read_labels(path: str | Path) -> dict[str, float]:
    """stay -> outcome, from a CSV or Parquet table whose first column names stays and whose last is the outcome.

    >>> _ = Path("deaths.csv").write_text("stay,died\\n7,1\\n8,0\\n9,\\n")
    >>> read_labels("deaths.csv")
    {'7': 1.0, '8': 0.0}
    """
    import pandas as pd

    try:
        if str(path).endswith(".parquet"):
            frame = pd.read_parquet(path)
        else:  # as text: 007 is not stay 7
            frame = pd.read_csv(path, dtype=dict.fromkeys(pd.read_csv(path, nrows=0).columns[:1], str))
    except Exception as error:  # pandas and pyarrow report damage in many ways
        raise AuditError(f"Expected a table of stays and outcomes at {path}, but got: {first_line(error)}") from error
    if frame.shape[1] < 2:
        raise AuditError(f"Expected a column of stays and one of outcomes in {path}, but got {list(frame.columns)}.")
    stays, outcomes = frame.iloc[:, 0], pd.to_numeric(frame.iloc[:, -1], errors="coerce")
    if not np.isfinite(outcomes).any():
        raise AuditError(f"Expected numbers in the last column of {path}, {frame.columns[-1]!r}, but got none.")
    if pd.api.types.is_float_dtype(stays) and (stays.dropna() % 1 == 0).all():
        stays = stays.astype("Int64")  # whole numbers beside a gap
    known = np.isfinite(outcomes.to_numpy()) & stays.notna().to_numpy()
    found: dict[str, float] = {}
    for stay, y in zip(stays[known].astype(str), outcomes[known], strict=True):
        if found.setdefault(stay, float(y)) != float(y):
            raise AuditError(f"Expected one outcome a stay in {path}, but one of them has several.")
    return found


def _relabel(entry: AuditEntry, history: Sequence[AuditEntry], labels: Labels, experiment: str) -> Relabelled | None:
    """Conclude one audit again, if its own outcomes, or those of the windows before it, changed."""
    from mlflow import MlflowClient

    there = {item.path for item in MlflowClient().list_artifacts(entry.run_id, "dynamask")}
    if not {CONFIG, MADE_FROM, MEASURED} <= there:  # an audit of an earlier release, or one that compared nothing
        _logger.warning("dynamask: the audit of %s has no arrays to conclude again.", printable(entry.window))
        return None
    config = AuditConfig.from_mapping(read_artifact_json(entry.run_id, CONFIG))
    arrays = load_arrays(entry.run_id, download)
    known = named_outcomes(labels, config)
    current, added = _with_labels(arrays.current, known)
    if added and arrays.current.task == "classification" and "class" not in arrays.current.numbers:
        _check_outcomes(current)
    before = [other for other in history if other.series == entry.series and other.start < entry.start]
    followed = arrays.old_window is None and config.reference != "rolling"
    chosen = trend_entries(entry.window, entry.reference_run_id, config, before) if followed else []
    trend = trend_label(chosen)
    if not added and trend == entry.trend:
        return None
    runs = tuple(other.run_id for other in chosen)
    arrays = replace(
        arrays,
        current=current,
        old_window=None if arrays.old_window is None else _with_labels(arrays.old_window, known)[0],
        earlier=tuple(ExplainedWindow.load(download(run, MEASURED)) for run in runs),
        made_from=replace(arrays.made_from, earlier=runs),
    )
    stored = read_artifact_json(entry.run_id, VERDICT)
    outcomes = current.predictions.numbers["label"].tolist()
    content = digest(["labels", entry.content, outcomes]) if added else entry.content
    about = {key: stored[key] for key in ("model", "version", "site", "window", "reference_run_id")}
    result = compare_arrays(arrays, config)
    culprits = _culprits(entry.run_id, arrays, result, config)
    verdict = evaluate_verdict(result, config, culprits, **about, content=content)
    key = digest(["labels", entry.slot, content, trend])
    run_id = copied_run(entry.run_id, experiment, key, {t.CONTENT: content})
    with tempfile.TemporaryDirectory() as folder:
        others = audit_history(experiment, verdict.model, entry.version, superseded=False, site=entry.site)
        earlier = [other for other in others if other.start < entry.start]
        found = Comparison(result, arrays, trend)
        files = verdict_files(verdict, config)
        files |= comparison_files(verdict, found, culprits, earlier, config, Path(folder))
        stamp = parse_window(entry.window).stop_ms
        upload_results(run_id, files, verdict.metrics, timestamp=stamp, dataset=("labels", content[:36]))
    conclude_run(run_id, verdict, trend)
    close_run(run_id)
    link_superseded(audit_history(experiment, stored["model"], entry.version, site=entry.site), run_id)
    return Relabelled(entry.window, entry.site, entry.version, added, str(entry.verdict), verdict, run_id)


def _check_outcomes(stays: ExplainedWindow) -> None:
    outcomes = stays.predictions.numbers["label"]
    wrong = outcomes[np.isfinite(outcomes) & ~np.isin(outcomes, (0.0, 1.0))]
    if len(wrong):
        raise AuditError(f"Expected outcomes of 0 or 1 for a predicted risk, but got {wrong[0]:g}.")


def _culprits(run_id: str, arrays: AuditArrays, result: ComparisonResult, config: AuditConfig) -> tuple[Culprit, ...]:
    """As the audit found them, with days and raw events at hand; searched in the arrays if it had no finding."""
    stored = stored_culprits(run_id)
    if stored:
        return stored
    violations = [*detect_violations(result, config), *detect_warnings(result, config)]
    return find_culprits(result, violations, arrays.reference, arrays.asked, config)


def _with_labels(stays: ExplainedWindow, labels: Labels) -> tuple[ExplainedWindow, int]:
    """The stays with the outcomes that are given, the others as they were; and how many changed."""
    numbers, changed = _relabelled(stays.ids, stays.numbers, labels)
    more = stays.predicted
    if more is not None:
        beside, others = _relabelled(more.ids, more.numbers, labels)
        more, changed = replace(more, numbers=beside), changed + others
    return replace(stays, numbers=numbers, predicted=more), changed


def _relabelled(
    ids: NDArray[np.str_], numbers: Mapping[str, NDArray[np.float64]], labels: Labels
) -> tuple[dict[str, NDArray[np.float64]], int]:
    before = numbers.get("label", np.full(len(ids), np.nan))
    after = np.array([labels.get(str(stay), old) for stay, old in zip(ids, before, strict=True)])
    return {**numbers, "label": after}, int((~np.isclose(before, after, equal_nan=True)).sum())
