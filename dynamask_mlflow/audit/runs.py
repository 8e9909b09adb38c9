"""The run of an audit in MLflow: opened once for each key, described, filled by way of a spool, concluded, linked.

Several processes may ask for a run at the same time.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamask_mlflow._files import atomic_write
from dynamask_mlflow._printable import shortened
from dynamask_mlflow._version import __version__
from dynamask_mlflow.audit import tags as t
from dynamask_mlflow.audit.errors import TrackingLostError
from dynamask_mlflow.audit.history import PREFIX, AuditEntry
from dynamask_mlflow.audit.identity import site_tag
from dynamask_mlflow.audit.models import ModelRef
from dynamask_mlflow.audit.verdict import Verdict
from dynamask_mlflow.tracking.mlflow_client import tag_equals
from dynamask_mlflow.tracking.spool import Point

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_ATTEMPTS = 60
_STALE_MS = 60_000  # a run that nobody has claimed by then was left by a process that died
_PARAMS = 90  # of one request
_FINISHED_BEFORE = "dynamask.finished_before"
# Tags that say what an audit is of.
_COPIED = {
    *(t.KIND, t.MODEL, t.VERSION, t.SITE, t.CONTENT, t.SLOT, t.SERIES, t.WINDOW, t.WINDOW_START, t.REFERENCE),
    *("mlflow.user", "mlflow.source.name", "mlflow.source.type"),
}


@dataclass(frozen=True)
class DatasetInput:
    """The dataset of a run, as MLflow shows it."""

    name: str
    digest: str
    source: str
    stays: int
    context: str = "audit"


def find_or_create_run(experiment: str, key: str, name: str, tags: Mapping[str, str], store: str | None = None) -> str:
    """The one run with this key in the experiment, opened anew, or a new one.

    Processes that share a store take turns by a lock there. Those that do not still agree: a process that created a run
    and sees another one with the key takes its own back; one that sees only its own claims it, and everybody waits for
    the claim. At most one can have been alone when it looked.
    """
    from mlflow import MlflowClient

    client = MlflowClient()
    home = experiment_id(client, experiment)
    with exclusive(store, key):
        run, created = _claimed_run(client, home, key, name, tags)
    run_id = str(run.info.run_id)
    if not created:
        if run.info.status == "FINISHED":
            client.set_tag(run_id, _FINISHED_BEFORE, "true")
        client.update_run(run_id, status="RUNNING")
        for tag, value in tags.items():
            if run.data.tags.get(tag) != value:
                client.set_tag(run_id, tag, value)
    return run_id


def describe_run(run_id: str, dataset: DatasetInput, params: Mapping[str, Any], model_id: str | None) -> None:
    """Log dataset, model and parameters, unless they are there."""
    from mlflow import MlflowClient
    from mlflow.entities import Dataset, LoggedModelInput
    from mlflow.entities import DatasetInput as LoggedDataset
    from mlflow.entities.input_tag import InputTag
    from mlflow.exceptions import MlflowException

    client = MlflowClient()
    run = client.get_run(run_id)
    _log_params(run_id, {name: str(value)[: t.LONGEST] for name, value in params.items() if value is not None})
    if not (run.inputs and run.inputs.dataset_inputs):
        entity = Dataset(
            name=dataset.name,
            digest=dataset.digest[:36],
            source_type="local",
            source=json.dumps({"uri": dataset.source}),
            profile=json.dumps({"stays": dataset.stays}),
        )
        client.log_inputs(run_id, datasets=[LoggedDataset(entity, [InputTag("mlflow.data.context", dataset.context)])])
    if model_id is not None and not (run.inputs and run.inputs.model_inputs):
        try:
            client.log_inputs(run_id, models=[LoggedModelInput(model_id)])
        except MlflowException as error:  # whoever may only read the model may still audit it
            if error.error_code not in ("PERMISSION_DENIED", "UNAUTHENTICATED", "RESOURCE_DOES_NOT_EXIST"):
                raise


def _log_params(run_id: str, params: Mapping[str, str]) -> None:
    """Log those that are not there. Another process may log the same ones at the same time, which the store refuses."""
    from mlflow import MlflowClient
    from mlflow.entities import Param
    from mlflow.exceptions import MlflowException

    client, tries = MlflowClient(), 3
    for last in (attempt == tries - 1 for attempt in range(tries)):
        known = client.get_run(run_id).data.params
        missing = [Param(name, value) for name, value in params.items() if name not in known]
        try:
            for start in range(0, len(missing), _PARAMS):
                client.log_batch(run_id, params=missing[start : start + _PARAMS])
        except MlflowException:
            if last:
                raise
        else:
            return


def copied_run(run_id: str, experiment: str, key: str, changes: Mapping[str, str], store: str | None = None) -> str:
    """Another run of the same audit, with its tags (but for some changes), parameters, datasets and models.

    A metric cannot be written anew: in one run the numbers of two conclusions would be mixed.
    """
    from mlflow import MlflowClient
    from mlflow.entities import Param

    client = MlflowClient()
    run = client.get_run(run_id)
    tags = {tag: value for tag, value in run.data.tags.items() if tag in _COPIED} | dict(changes)
    other = find_or_create_run(experiment, key, str(run.info.run_name), tags, store)
    if not client.get_run(other).data.params:
        params = [Param(name, value) for name, value in run.data.params.items()]
        for start in range(0, len(params), _PARAMS):
            client.log_batch(other, params=params[start : start + _PARAMS])
        if run.inputs is not None:
            client.log_inputs(other, datasets=run.inputs.dataset_inputs, models=run.inputs.model_inputs or None)
    return other


def source_tags(command: str) -> dict[str, str]:
    """Who ran what, as MLflow's own runs say it."""
    from mlflow.tracking.context.registry import resolve_tags

    found = {tag: str(value) for tag, value in resolve_tags().items() if tag in ("mlflow.user",)}
    return {**found, "mlflow.source.name": f"{command} ({__version__})", "mlflow.source.type": "JOB"}


def upload_results(
    run_id: str,
    files: Mapping[str, str | bytes | Path],
    metrics: Mapping[str, float],
    *,
    timestamp: int,
    dataset: tuple[str, str],
) -> None:
    """Write everything to a spool first, so that it is checked as a whole. If the server is lost the spool goes: the
    fits are kept, and the audit that is run again writes it anew.
    """
    import mlflow

    from dynamask_mlflow.tracking.spool import ARTIFACTS, Destination, discard, new_spool, write_manifest
    from dynamask_mlflow.tracking.upload import patiently, upload

    uri = mlflow.get_tracking_uri()
    spool = new_spool(None, run_id)
    try:
        for name, content in files.items():
            target = spool / ARTIFACTS / name
            if isinstance(content, Path):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(content, target)
            else:
                atomic_write(target, content)
        write_manifest(
            spool,
            Destination(
                run_id=run_id,
                tracking_uri=uri,
                dataset_name=dataset[0],
                dataset_digest=dataset[1],
                timestamp=timestamp,
            ),
            points=[Point(f"{PREFIX}/{name}", value) for name, value in metrics.items()],
            files=list(files),
        )
        patiently(lambda: upload(spool, uri))
    except BaseException:
        discard(spool)
        raise


def _as_tag(record: Mapping[str, Sequence[str]]) -> str:
    """A record as JSON that a tag can hold: what is longest loses its end until it fits."""
    kept = dict(record)
    while len(text := json.dumps(kept)) > t.LONGEST:
        longest = max(kept, key=lambda name: len(json.dumps(kept[name])))
        kept[longest] = kept[longest][: len(kept[longest]) * 3 // 4]
    return text


def conclude_run(run_id: str, verdict: Verdict, trend: str) -> None:
    """Write the verdict on the run; from now on it is an audit of the history. The verdict's tag comes last."""
    from mlflow import MlflowClient

    client = MlflowClient()
    finding = {
        "kinds": sorted({violation.kind for violation in verdict.violations}),
        "channels": list(verdict.channels)[:60],
        "inputs": [v.subject for v in verdict.violations if v.kind == "inputs"][:60],
        "reason": shortened(verdict.headline, 400),
    }
    tags = {
        t.FINDING: _as_tag(finding),
        t.TREND: trend,
        t.AUDITED_AT: datetime.now(UTC).isoformat(timespec="microseconds"),
        "mlflow.note.content": _note(verdict),
        t.VERDICT: str(verdict.state),
    }
    for tag, value in tags.items():
        client.set_tag(run_id, tag, value)


def _note(verdict: Verdict) -> str:
    """The run's description: what was found, the evidence, what to do next."""
    parts = [f"**{title}**\n\n" + "\n".join(f"- {text}" for text in sentences) for title, sentences in verdict.sections]
    return "\n\n".join(parts)


def link_superseded(entries: list[AuditEntry], run_id: str) -> None:
    """Tags both ways between the audits of a slot, oldest conclusion first; only those that differ are written."""
    from mlflow import MlflowClient

    client = MlflowClient()
    slot = next((entry.slot for entry in entries if entry.run_id == run_id), None)
    same = sorted((e for e in entries if slot and e.slot == slot), key=lambda e: (e.audited_at, e.run_id))
    for place, entry in enumerate(same):
        stored = client.get_run(entry.run_id).data.tags
        wanted = {
            t.SUPERSEDES: same[place - 1].run_id if place else None,
            t.SUPERSEDED_BY: same[place + 1].run_id if place + 1 < len(same) else None,
        }
        for tag, value in wanted.items():
            if value is not None and stored.get(tag) != value:
                client.set_tag(entry.run_id, tag, value)
            elif value is None and tag in stored:
                client.delete_tag(entry.run_id, tag)


def close_run(run_id: str, failed: bool = False) -> None:
    """End a run, as finished or as failed. One that was finished before it was opened anew stays finished.

    >>> import mlflow
    >>> run = mlflow.MlflowClient().create_run("0")
    >>> close_run(run.info.run_id, failed=True)
    >>> mlflow.get_run(run.info.run_id).info.status
    'FAILED'
    """
    from mlflow import MlflowClient

    client = MlflowClient()
    finished = not failed or _FINISHED_BEFORE in client.get_run(run_id).data.tags
    client.set_terminated(run_id, "FINISHED" if finished else "FAILED")


def close_failed(run_id: str) -> None:
    """End a run as failed after an error, which no other error of MLflow shall hide."""
    from dynamask_mlflow.tracking.upload import short_retries

    with suppress(Exception), short_retries():
        close_run(run_id, failed=True)


def pin_reference(ref: ModelRef, run_id: str, window: str, site: str) -> None:
    from mlflow import MlflowClient

    client = MlflowClient()
    client.set_model_version_tag(ref.name, ref.version, site_tag(t.REFERENCE, site), run_id)
    client.set_model_version_tag(ref.name, ref.version, site_tag(t.REFERENCE_WINDOW, site), window)


def download(run_id: str, artifact: str) -> Path:
    """A file of a run, as a local one, which is there until this process ends."""
    from dynamask_mlflow.tracking import mlflow_client

    return mlflow_client.download(run_id=run_id, artifact_path=artifact)


def read_artifact_json(run_id: str, name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(download(run_id, name).read_text(encoding="utf-8"))
    return record


def experiment_id(client: MlflowClient, name: str) -> str:
    """The experiment of that name, made if need be."""
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    try:
        return str(client.create_experiment(name))
    except MlflowException:
        found = client.get_experiment_by_name(name)  # another process was faster
        if found is None:
            raise
        return str(found.experiment_id)


def _claimed_run(client: MlflowClient, home: str, key: str, name: str, tags: Mapping[str, str]) -> tuple[Run, bool]:
    for attempt in range(_ATTEMPTS):
        found = _with_key(client, home, key)
        settled = [run for run in found if t.CLAIMED in run.data.tags or _stale(run)]
        if settled:
            return settled[0], False
        if not found:
            mine = client.create_run(home, tags={**tags, t.KEY: key}, run_name=name)
            if [run.info.run_id for run in _with_key(client, home, key)] == [mine.info.run_id]:
                client.set_tag(mine.info.run_id, t.CLAIMED, "true")
                return mine, True
            client.delete_run(mine.info.run_id)
        time.sleep(random.uniform(0.02, 0.1) * min(2**attempt, 20))
    raise TrackingLostError(f"Expected the run with the key {key}, but other processes would not settle on one.")


def _with_key(client: MlflowClient, home: str, key: str) -> list[Run]:
    found = client.search_runs([home], tag_equals(t.KEY, key), order_by=["attributes.start_time ASC"])
    return [run for run in found if run.data.tags[t.KEY] == key]


def _stale(run: Run) -> bool:
    return bool(time.time() * 1000 - run.info.start_time > _STALE_MS)


@contextmanager
def exclusive(store: str | None, name: str) -> Iterator[None]:
    """One process of those that share a store at a time; the lock goes with the process that held it.

    Where there are no such locks (Windows, a store that cannot be written) nobody waits.
    """
    with ExitStack() as stack:
        if store is not None:
            with suppress(ImportError, OSError):
                import fcntl

                path = Path(store) / "locks" / f"{name}.lock"
                path.parent.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context(path.open("w"))
                fcntl.flock(file, fcntl.LOCK_EX)
        yield
