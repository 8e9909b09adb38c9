"""From a spool to the tracking server: metrics, artifacts, links. Can be repeated without harm.

MLflow's own client tries a server that does not answer for more than eight minutes, at every request. Here a request is
given up after seconds, and the whole is tried again until a time is up: a server that restarts is waited for, one that
is gone is reported soon.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import posixpath
import re
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from dynamask_mlflow._secrets import first_line, without_secrets
from dynamask_mlflow._threads import one_thread
from dynamask_mlflow.tracking.errors import SpoolError, UploadError
from dynamask_mlflow.tracking.spool import ARTIFACTS, Manifest, discard, owned, read_manifest

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric

_logger = logging.getLogger(__name__)
_BATCH = 1000
SECONDS_VARIABLE = "DYNAMASK_UPLOAD_SECONDS"
_SECONDS, _PAUSE, _LONGEST_TRY = 30.0, 2.0, 25.0
_OURS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",  # else one answer may ask for hours
}
_PASSING = (408, 425, 429, 502, 503, 504)

_TOO_MANY = re.compile(r"too many (\d{3}) error responses")

Result = TypeVar("Result")


def upload_or_keep(spool: Path, tracking_uri: str | None = None) -> None:
    """Upload and remove a spool; on any failure keep it, and say where it is and how to finish.

    Raises:
        UploadError: with MLflow's error as its cause.
    """
    how = f"All results are saved in {spool}. Finish with: dynamask-mlflow upload {shlex.quote(str(spool))}"
    try:
        patiently(lambda: upload(spool, tracking_uri))
    except Exception as error:
        with contextlib.suppress(SpoolError):
            _leave_run(read_manifest(spool, verify=False), tracking_uri)
        raise UploadError(f"dynamask: the upload failed: {first_line(error).rstrip('.')}. {how}", error) from error
    except BaseException:
        _logger.warning("dynamask: interrupted while uploading. %s", how)
        raise


def upload(spool: Path, tracking_uri: str | None = None, *, end_run: bool = False) -> Manifest:
    """Log everything in a spool to its run, then remove the spool.

    Args:
        spool: the folder.
        tracking_uri: the server, if it is not the one that the spool names.
        end_run: give the run the status that the manifest says, as its own process no longer can.
    """
    if not spool.is_dir():
        raise SpoolError(f"Expected a spool at {spool}, but there is none. It may have been uploaded already.")
    if not spool.is_symlink() and not owned(spool):
        raise SpoolError(f"Expected a spool of this user that nobody else can write, but {spool} is not.")
    manifest = read_manifest(spool)
    with signed_in(tracking_uri or _address(manifest)) as address:
        _send(spool, manifest, address, end_run)
    discard(spool)
    return manifest


def _send(spool: Path, manifest: Manifest, address: str, end_run: bool) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(address)
    if client.get_run(manifest.run_id).info.run_id != manifest.run_id:  # else MLflow's client writes into this folder
        raise SpoolError(f"Expected the run {manifest.run_id} from the server, but its answer has none.")
    _log_metrics(client, manifest)
    _link_model(client, manifest)
    for name in manifest.files:
        folder = str(Path(name).parent)
        client.log_artifact(manifest.run_id, str(spool / ARTIFACTS / name), None if folder == "." else folder)
    _require_there(client, manifest, spool)
    _mark_tables(client, manifest)
    if end_run and manifest.status and client.get_run(manifest.run_id).info.status != manifest.status:
        client.set_terminated(manifest.run_id, manifest.status)


def _require_there(client: MlflowClient, manifest: Manifest, spool: Path) -> None:
    """Raise unless the server lists every file in its size: a gateway may say yes to what never reached a store."""
    there: dict[str, int | None] = {}
    try:
        for folder in sorted({posixpath.dirname(name) for name in manifest.files}):
            listed = client.list_artifacts(manifest.run_id, folder or None)
            there |= {file.path: file.file_size for file in listed if not file.is_dir}
    except Exception as error:
        if not _is_refusal(error):
            raise
        _logger.debug("The uploaded files cannot be listed: %s", first_line(error))
        return
    for name in manifest.files:
        size = (spool / ARTIFACTS / name).stat().st_size
        if name not in there or there[name] not in (size, None):
            found = f"one of {there[name]:,} bytes" if name in there else "none"
            raise SpoolError(f"Expected {name} of {size:,} bytes on the server after its upload, but there is {found}.")


def _address(manifest: Manifest) -> str:
    """The server of the spool; with the credentials of this process's own address, if it is the same server."""
    import mlflow

    current = mlflow.get_tracking_uri()
    return current if without_secrets(current) == manifest.tracking_uri else manifest.tracking_uri


def _leave_run(manifest: Manifest, tracking_uri: str | None) -> None:
    """Forget the active run if its server cannot be asked for it: closing it would wait for minutes, and end with
    MLflow's error instead of ours. `upload` ends it.
    """
    from mlflow.tracking import fluent

    if _knows(tracking_uri or _address(manifest), manifest.run_id):
        return
    with contextlib.suppress(AttributeError, LookupError):
        stack = fluent._active_run_stack.get()  # type: ignore[no-untyped-call]
        stack[:] = [run for run in stack if run.info.run_id != manifest.run_id]


def _knows(address: str, run_id: str) -> bool:
    from mlflow import MlflowClient

    if not answers(address):
        return False
    try:
        with short_retries():
            return str(MlflowClient(address).get_run(run_id).info.run_id) == run_id
    except Exception as error:
        return _is_refusal(error)  # an answer of MLflow's, at least


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
            first_line(error),
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
        _logger.warning("dynamask: the run could not be linked to its model: %s", first_line(error))


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


@contextmanager
def signed_in(tracking_uri: str) -> Iterator[str]:
    """The address to use in the block: user and password of an http URI go into MLflow's variables meanwhile."""
    if not tracking_uri.startswith(("http://", "https://")) or "@" not in urlsplit(tracking_uri).netloc:
        with one_thread():  # or another thread's password would go to this server
            yield tracking_uri
        return
    parts = urlsplit(tracking_uri)
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    ours = {"MLFLOW_TRACKING_USERNAME": unquote(user), "MLFLOW_TRACKING_PASSWORD": unquote(password)}
    with one_thread():
        before = {name: os.environ.get(name) for name in ours}
        os.environ.update(ours)
        try:
            yield urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


@contextmanager
def short_retries() -> Iterator[None]:
    """Let MLflow's client give up a request after about ten seconds, where the user has not set these variables."""
    with one_thread():
        ours = {name: value for name, value in _OURS.items() if name not in os.environ}
        os.environ.update(ours)
        try:
            yield
        finally:
            for name in ours:
                os.environ.pop(name, None)


def patiently(work: Callable[[], Result], seconds: float | None = None) -> Result:
    """Do `work`, which can be repeated without harm, again and again until the server answers or the time is up."""
    limit = patience() if seconds is None else seconds
    failed_at: float | None = None
    with short_retries():
        while True:
            begin = time.monotonic()
            try:
                return work()
            except Exception as error:
                now = time.monotonic()
                failed_at = failed_at or now
                next_try = min(now - begin, _LONGEST_TRY)  # a server that hangs costs as much again
                if not is_lost(error) or now + _PAUSE + next_try > failed_at + limit:
                    raise
            time.sleep(_PAUSE)


def patience() -> float:
    """Seconds for which an upload is tried again: DYNAMASK_UPLOAD_SECONDS, or 30."""
    try:
        return max(0.0, min(float(os.environ.get(SECONDS_VARIABLE, _SECONDS)), 86400.0))
    except ValueError:
        return _SECONDS


def answers(tracking_uri: str) -> bool:
    """Whether there is a server at the address, whatever it says; true for stores without one."""
    import requests

    if not tracking_uri.startswith(("http://", "https://")):
        return True
    try:
        requests.get(f"{tracking_uri.rstrip('/')}/health", timeout=3)
    except requests.RequestException:
        return False
    return True


def is_lost(error: BaseException) -> bool:
    """Whether the server did not answer, or asked to come back, rather than said no."""
    import requests

    status = getattr(error, "get_http_status_code", lambda: None)()
    if status in _PASSING:
        return True
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, requests.ConnectionError | requests.Timeout | ConnectionError | TimeoutError):
            return True
        given_up = _TOO_MANY.search(str(cause)) if isinstance(cause, requests.exceptions.RetryError) else None
        if given_up and int(given_up.group(1)) in _PASSING:
            return True
        cause = cause.__cause__ or cause.__context__
    return False
