"""One evaluation from MLflow's arguments to MLflow's result: explain, spool, upload."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mlflow.models.evaluation.artifacts import ImageEvaluationArtifact, JsonEvaluationArtifact
from mlflow.models.evaluation.base import EvaluationArtifact, EvaluationResult

from dynamask_mlflow._secrets import without_secrets
from dynamask_mlflow._settings import check_mapping
from dynamask_mlflow.evaluation.changes import explain_changes, require_changes
from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.evaluate import Evaluation, evaluate_masks, require_device
from dynamask_mlflow.evaluation.model_settings import ModelSettings, as_the_model_names_them, labels_of
from dynamask_mlflow.evaluation.privacy import reason_of, require_salt
from dynamask_mlflow.evaluation.results import (
    CARD,
    CHANGE,
    CHANGE_RECORD,
    CHANGE_TABLE,
    CONFIG,
    MASKS,
    PROFILE,
    REPORT,
    TABLE,
    curve_metrics,
    scalar_metrics,
    write_artifacts,
)
from dynamask_mlflow.masks.change.result import Change
from dynamask_mlflow.masks.instance_result import InstanceResult
from dynamask_mlflow.masks.process_state import untouched_process
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.tracking.dataset import SequenceEvaluationDataset
from dynamask_mlflow.tracking.forward_model import own_class_names
from dynamask_mlflow.tracking.open_network import (
    as_given,
    model_id_of,
    open_network,
    reference_of,
    settings_of,
    task_of,
)
from dynamask_mlflow.tracking.spool import ARTIFACTS, Destination, Point, discard, new_spool, write_manifest, written_to
from dynamask_mlflow.tracking.upload import upload_or_keep

if TYPE_CHECKING:
    import torch

_logger = logging.getLogger(__name__)


def run_evaluation(
    *,
    model: Any,
    model_type: str | None,
    model_id: str | None,
    dataset: SequenceEvaluationDataset,
    run_id: str,
    options: Mapping[str, Any],
) -> EvaluationResult:
    """Explain a sample of the dataset with the model's network and log everything to the run."""
    import mlflow
    from mlflow import MlflowClient

    model = as_given(model)
    settings = settings_of(model)
    check_mapping(options)
    config = EvaluationConfig.from_mapping({**_defaults_of(settings), **options})
    if config.hash_ids:
        require_salt()
    task = task_of(model_type, settings)
    sequences = as_the_model_names_them(dataset.sequences, settings)
    network, config = open_network(model, sequences, task, config)
    labels = labels_of(settings, config, sequences.channel_names, own_class_names(network))
    with untouched_process(network):
        require_device(config.device)
        padding = settings.prefix_padding if settings else None
        if config.change_since is not None:
            require_changes(network, sequences, task=task, config=config, padding=padding)

    # All that must be asked of the server is asked now: after the fits it may be gone.
    tracking_uri = mlflow.get_tracking_uri()
    root = MlflowClient(tracking_uri).get_run(run_id).info.artifact_uri
    _log_settings(tracking_uri, run_id, config)
    identity = model_id_of(model, model_id)
    label = _label(model, identity)
    about = {
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "run_id": run_id,
        "model": _model_record(model, identity),
        "dataset": {"name": dataset.name, "digest": dataset.digest, "instances": len(sequences)},
    }
    destination = Destination(
        run_id=run_id,
        tracking_uri=tracking_uri,
        model_id=identity,
        link_model=model_id is None,
        dataset_name=dataset.name,
        dataset_digest=dataset.digest,
        status="FINISHED",
    )
    spool = new_spool(config.spool, run_id, bytes_needed(config, sequences.x.shape))
    try:
        with untouched_process(network):
            evaluation = evaluate_masks(network, sequences, task=task, config=config, reference=reference_of(model))
            if config.change_since is not None:
                evaluation = _with_changes(evaluation, network, config, padding)
            scalars, points = _metrics_of(evaluation, config)
            with written_to(spool):
                files = write_artifacts(spool / ARTIFACTS, evaluation, config, about=about, model=label, labels=labels)
        tables = [table for table in (TABLE, CHANGE_TABLE) if table in files]
        write_manifest(spool, destination, points=points, files=files, tables=tables)
    except BaseException:
        discard(spool)
        raise
    contents = _listed_artifacts(spool / ARTIFACTS, files, "")
    upload_or_keep(spool, tracking_uri)
    for artifact in contents.values():
        artifact._uri = f"{root}{artifact._uri}"
    return EvaluationResult(scalars, contents, run_id)  # type: ignore[no-untyped-call]


def _metrics_of(evaluation: Evaluation, config: EvaluationConfig) -> tuple[dict[str, float], list[Point]]:
    """The scalar metrics by name, and everything that is logged as a metric: these and the curves."""
    several = config.methods is not None
    scalars = scalar_metrics(evaluation, several)
    curves = curve_metrics(evaluation, config.curve_areas, several)
    points = [Point(name, value) for name, value in scalars.items()]
    return scalars, points + [Point(name, value, step) for (name, step), value in curves.items()]


def _with_changes(
    evaluation: Evaluation, network: torch.nn.Module, config: EvaluationConfig, padding: Any
) -> Evaluation:
    """What changed, too; if that fails, the masks are not lost with it."""
    try:
        found = explain_changes(network, evaluation.sample, task=evaluation.task, config=config, padding=padding)
    except Exception as error:
        _logger.warning("dynamask: what changed could not be explained, the rest is logged: %s", reason_of(error))
        return evaluation
    return replace(evaluation, changes=found)


def _defaults_of(settings: ModelSettings | None) -> dict[str, Any]:
    """The settings that a model was logged with."""
    if settings is None:
        return {}
    return {**settings.explain_defaults, **({} if settings.threshold is None else {"threshold": settings.threshold})}


def bytes_needed(config: EvaluationConfig, shape: tuple[int, ...]) -> int:
    """Bytes that the files of an evaluation take at most: four arrays a method, the page, the pictures."""
    total, cells = shape[0], 4 * shape[1] * shape[2]
    count = min(total, len(config.ids) if config.ids else config.instances or total)
    page = min(count, config.report_instances) * cells * (3 if config.log_inputs else 1)
    return count * cells * 4 * len(config.all_methods) + page + config.images * 200_000


def _label(model: Any, model_id: str | None) -> str:
    versions = _registered(model_id)
    if versions:
        return ", ".join(f"{v['name']} version {v['version']}" for v in versions)
    return _logged_name(model_id) or type(model).__name__


def _logged_name(model_id: str | None) -> str | None:
    """What the logged model is called; its id only where it cannot be asked."""
    from mlflow import MlflowClient

    if model_id is None:
        return None
    try:
        return str(MlflowClient().get_logged_model(model_id).name) or model_id
    except Exception as error:
        _logger.debug("The name of %s is not known: %s", model_id, error)
        return model_id


_LOGGED = ("method", "target", "area", "seed", "instances", "sampling", "operators", "deletion", "more_targets")


def _log_settings(tracking_uri: str, run_id: str, config: EvaluationConfig) -> None:
    """The settings as parameters of the run, for MLflow's table; a second evaluation keeps those of the first."""
    from mlflow import MlflowClient
    from mlflow.entities import Param
    from mlflow.exceptions import MlflowException

    values = {name: getattr(config, name) for name in _LOGGED}
    values["methods"] = config.methods or (config.method,)
    params = [Param(f"dynamask.{name}", _written(value)) for name, value in values.items()]
    try:
        MlflowClient(tracking_uri).log_batch(run_id, params=params)
    except MlflowException as error:
        _logger.warning("dynamask: the settings are not logged as parameters: %s", without_secrets(error))


def _written(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    return text[:500]


def _model_record(model: Any, model_id: str | None) -> dict[str, Any]:
    metadata = getattr(model, "metadata", None)
    return {
        "model_id": model_id,
        "registered_versions": _registered(model_id),
        "run_id": getattr(metadata, "run_id", None),
        "flavors": sorted(getattr(metadata, "flavors", {})),
    }


def _registered(model_id: str | None) -> list[dict[str, str]]:
    """Names and versions under which the registry knows the logged model; none if it cannot be asked."""
    from mlflow import MlflowClient

    if model_id is None:
        return []
    try:
        entries = json.loads(MlflowClient().get_logged_model(model_id).tags.get("mlflow.modelVersions", "[]"))
        # MLflow may note one version twice, as a number and as text.
        known = dict.fromkeys((str(entry["name"]), str(entry["version"])) for entry in entries)
        return [{"name": name, "version": version} for name, version in known]
    except Exception as error:
        _logger.debug("The registered versions of %s are not known: %s", model_id, error)
        return []


class _ResultArtifact(EvaluationArtifact):
    """Content: a result of several instances, which knows its own file."""

    kind: ClassVar[type[InstanceResult]]
    _content: InstanceResult | None

    def _save(self, output_artifact_path: str) -> None:
        result: InstanceResult = self.content
        result.save(output_artifact_path)

    def _load_content_from_file(self, local_artifact_path: str) -> InstanceResult:
        self._content = self.kind.load(local_artifact_path)
        return self._content


class MasksEvaluationArtifact(_ResultArtifact):
    """Content: `Masks`."""

    kind = Masks


class ChangeEvaluationArtifact(_ResultArtifact):
    """Content: `Change`."""

    kind = Change


class HtmlEvaluationArtifact(EvaluationArtifact):
    """Content: a page or a card as text."""

    _content: str | None

    def _save(self, output_artifact_path: str) -> None:
        Path(output_artifact_path).write_text(self.content, encoding="utf-8")

    def _load_content_from_file(self, local_artifact_path: str) -> str:
        self._content = Path(local_artifact_path).read_text(encoding="utf-8")
        return self._content


_NAMES = {
    TABLE: "dynamask_instances",
    REPORT: "dynamask_report",
    CARD: "dynamask_model_card",
    MASKS: "dynamask_masks",
    PROFILE: "dynamask_profile",
    CONFIG: "dynamask_config",
    CHANGE: "dynamask_change",
    CHANGE_RECORD: "dynamask_change_record",
    CHANGE_TABLE: "dynamask_changes",
}
_KINDS: dict[str, Any] = {
    ".json": JsonEvaluationArtifact,
    ".html": HtmlEvaluationArtifact,
    ".md": HtmlEvaluationArtifact,
    ".npz": MasksEvaluationArtifact,
    ".png": ImageEvaluationArtifact,
}


def _listed_artifacts(folder: Path, files: list[str], artifact_uri: str) -> dict[str, EvaluationArtifact]:
    """One artifact a file, its content loaded: `EvaluationResult.save` does not fetch what was never read."""
    found: dict[str, EvaluationArtifact] = {}
    for name in files:
        path = Path(name)
        kind = ChangeEvaluationArtifact if name == CHANGE else _KINDS[path.suffix]
        artifact: EvaluationArtifact = kind(uri=f"{artifact_uri.rstrip('/')}/{name}")
        artifact._load(str(folder / name))  # type: ignore[no-untyped-call]
        found[_NAMES.get(name, f"dynamask_{path.stem}")] = artifact
    return found
