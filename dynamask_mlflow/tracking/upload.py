"""From a spool to the tracking server: metrics, artifacts, links. Can be repeated without harm."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamask_mlflow.tracking.spool import ARTIFACTS, Manifest, discard, read_manifest

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric

_logger = logging.getLogger(__name__)
_BATCH = 1000


def upload_or_keep(spool: Path, tracking_uri: str | None = None) -> None:
    """Upload and remove a spool; on any failure keep it and say where it is and how to finish."""
    from mlflow.exceptions import MlflowException

    how = f"Nothing is lost: finish with `dynamask-mlflow upload {spool}`."
    try:
        upload(spool, tracking_uri)
    except Exception as error:
        raise MlflowException(f"dynamask: the results could not be uploaded ({_first_line(error)}). {how}") from error
    except BaseException:
        _logger.warning("dynamask: interrupted while uploading the results. %s", how)
        raise


def upload(spool: Path, tracking_uri: str | None = None) -> Manifest:
    """Log everything in a spool to its run, then remove the spool."""
    from mlflow import MlflowClient

    manifest = read_manifest(spool)
    client = MlflowClient(tracking_uri or manifest.tracking_uri)
    _log_metrics(client, manifest)
    _link_model(client, manifest)
    for name in manifest.files:
        folder = str(Path(name).parent)
        client.log_artifact(manifest.run_id, str(spool / ARTIFACTS / name), None if folder == "." else folder)
    _mark_tables(client, manifest)
    discard(spool)
    return manifest


def _log_metrics(client: MlflowClient, manifest: Manifest) -> None:
    def metrics(model_id: str | None) -> list[Metric]:
        from mlflow.entities import Metric

        return [
            Metric(
                key=point.key,
                value=point.value,
                timestamp=manifest.timestamp,
                step=point.step,
                model_id=model_id,
                dataset_name=manifest.dataset_name,
                dataset_digest=manifest.dataset_digest,
                run_id=manifest.run_id,
            )
            for point in manifest.points
        ]

    try:
        _log_batches(client, manifest.run_id, metrics(manifest.model_id))
    except Exception as error:
        # Whoever may only read a model may evaluate it, but not link metrics to it.
        if manifest.model_id is None or not _is_refusal(error):
            raise
        _logger.warning(
            "dynamask: metrics are logged to the run only; linking them to model %s was refused: %s",
            manifest.model_id,
            _first_line(error),
        )
        _log_batches(client, manifest.run_id, metrics(None))


def _log_batches(client: MlflowClient, run_id: str, metrics: Sequence[Metric]) -> None:
    for start in range(0, len(metrics), _BATCH):
        client.log_batch(run_id, metrics=metrics[start : start + _BATCH])


def _link_model(client: MlflowClient, manifest: Manifest) -> None:
    """MLflow itself names the model in the run only if it was given by its id."""
    if manifest.model_id is None or not manifest.link_model:
        return
    from mlflow.entities import LoggedModelInput

    try:
        client.log_inputs(manifest.run_id, models=[LoggedModelInput(manifest.model_id)])
    except Exception as error:
        if not _is_refusal(error):
            raise
        _logger.warning("dynamask: the run could not be linked to its model: %s", _first_line(error))


def _mark_tables(client: MlflowClient, manifest: Manifest) -> None:
    """Tell the UI and `load_table` which artifacts are tables, as `log_table` does; that one would append."""
    from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_ARTIFACTS

    current: list[Any] = json.loads(client.get_run(manifest.run_id).data.tags.get(MLFLOW_LOGGED_ARTIFACTS, "[]"))
    wanted = [{"path": name, "type": "table"} for name in manifest.tables]
    missing = [entry for entry in wanted if entry not in current]
    if missing:
        client.set_tag(manifest.run_id, MLFLOW_LOGGED_ARTIFACTS, json.dumps(current + missing))


def _is_refusal(error: Exception) -> bool:
    status = getattr(error, "get_http_status_code", lambda: None)()
    return status in (401, 403, 404) or getattr(error, "error_code", "") == "PERMISSION_DENIED"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
