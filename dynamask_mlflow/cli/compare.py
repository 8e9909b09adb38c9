"""`dynamask-mlflow compare`: two evaluations on one page."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynamask_mlflow.cli.common import AS_JSON, TRACKING, quiet, reported, tell, track

if TYPE_CHECKING:
    from dynamask_mlflow.evaluation.compare import Evaluated
    from dynamask_mlflow.evaluation.model_settings import Labels


@click.command()
@click.argument("run_a")
@click.argument("run_b")
@click.option("--out", type=click.Path(path_type=Path), default=Path("compare.html"), show_default=True)
@TRACKING
@AS_JSON
def compare(run_a: str, run_b: str, out: Path, tracking_uri: str | None, as_json: bool) -> None:
    """Put the evaluations of RUN_A and RUN_B on one page, instance by instance.

    Instances are matched by their ids: evaluate both models on the same ones (`--ids`, or the same sampling and seed).

    \b
    dynamask-mlflow compare 3f2a... 9c1d... --out compare.html
    """
    with reported(as_json):
        track(tracking_uri)
        from dynamask_mlflow._files import atomic_write
        from dynamask_mlflow.evaluation.compare import compare_evaluations
        from dynamask_mlflow.report import render_report

        with quiet():
            found = [logged_evaluation(run) for run in (run_a, run_b)]
        data = compare_evaluations(*distinct(*found), datetime.now(UTC).isoformat(timespec="seconds"))
        atomic_write(out, render_report(data))
    moved = [data.channel_names[c] for c in data.compared.moved_channels] if data.compared else []
    if as_json:
        click.echo(json.dumps({"instances": len(data.ids), "moved_channels": moved, "page": str(out)}))
        return
    tell(f"{len(data.ids)} instances compared. Channels that moved beyond chance: {', '.join(moved) or 'none'}.")
    click.echo(f"The page: {out}")


def distinct(first: Evaluated, second: Evaluated) -> tuple[Evaluated, Evaluated]:
    """Two names that differ."""
    from dataclasses import replace

    if first.label != second.label:
        return first, second
    return replace(first, label=f"{first.label} (first)"), replace(second, label=f"{second.label} (second)")


def logged_evaluation(run: str) -> Evaluated:
    """What the evaluation of a run has logged."""
    import mlflow
    import numpy as np

    from dynamask_mlflow.evaluation.compare import Evaluated
    from dynamask_mlflow.masks.result import Masks

    with tempfile.TemporaryDirectory() as folder:
        try:
            names = ("dynamask/masks.npz", "dynamask/config.json", "dynamask_instances.json")
            fetch = mlflow.artifacts.download_artifacts
            masks, config, table = (Path(fetch(run_id=run, artifact_path=name, dst_path=folder)) for name in names)
        except Exception as error:
            raise ValueError(f"Expected a run with an evaluation, but {run} has none to read: {error}") from error
        about: dict[str, Any] = json.loads(config.read_text(encoding="utf-8"))
        rows = json.loads(table.read_text(encoding="utf-8"))
        columns = dict(zip(rows["columns"], zip(*rows["data"], strict=True), strict=True))
        values = np.asarray(columns.get("probability", columns["prediction"]), dtype=np.float64)
        if values.ndim != 1:
            raise ValueError(f"Expected one answer an instance in {run}, but got answers of shape {values.shape[1:]}.")
        return Evaluated(
            label=_label(about, run),
            masks=Masks.load(masks),
            ids=[str(name) for name in columns["id"]],
            channel_names=about["channel_names"],
            times=about["times"],
            predictions=values,
            task=about["task"],
            labels=_labels(about),
            threshold=float(about.get("settings", {}).get("threshold") or 0.5),
        )


def _labels(about: dict[str, Any]) -> Labels:
    from dynamask_mlflow.evaluation.model_settings import Labels

    known = about.get("labels") or {}
    names: dict[str, Any] = {
        name: tuple(known[name]) for name in ("class_names", "channel_labels", "units") if known.get(name)
    }
    return Labels(**names, time_unit=str(known.get("time_unit") or "step"))


def _label(about: dict[str, Any], run: str) -> str:
    versions = (about.get("model") or {}).get("registered_versions") or []
    return ", ".join(f"{v['name']} version {v['version']}" for v in versions) or f"run {run[:8]}"
