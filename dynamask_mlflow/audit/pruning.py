"""References that nothing rests on any more, and shards that are old: what may go."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from dynamask_mlflow._model_uri import registered_name
from dynamask_mlflow.audit import tags as t
from dynamask_mlflow.audit.history import audit_history
from dynamask_mlflow.audit.identity import EXPERIMENT
from dynamask_mlflow.audit.shards import checked_store
from dynamask_mlflow.tracking.mlflow_client import equals, tag_equals

_DAY = 86400.0
# Folders of a store whose files can all be made again by the audit that needs them.
_RENEWABLE = ("shards", "plans", "audits", "references")


@dataclass(frozen=True)
class StoredReference:
    """One reference: whose it is, which versions it is pinned to, and how many current audits rest on it."""

    run_id: str
    version: str
    site: str
    window: str
    pinned_to: tuple[str, ...]
    audits: int

    @property
    def needed(self) -> bool:
        return bool(self.pinned_to) or self.audits > 0


def list_references(model: str, experiment: str = EXPERIMENT) -> list[StoredReference]:
    """All references of a registered model, the oldest first.

    >>> [reference.window for reference in list_references("icu-mortality") if reference.needed]
    ['2025-06']
    """
    from mlflow import MlflowClient

    client = MlflowClient()
    home = client.get_experiment_by_name(experiment)
    if home is None:
        return []
    name = registered_name(model)
    wanted = f"{tag_equals(t.KIND, 'reference')} and {tag_equals(t.MODEL, name)}"
    runs = client.search_runs([home.experiment_id], wanted, order_by=["attributes.start_time ASC"], max_results=5000)
    pins: dict[str, list[str]] = {}
    for version in client.search_model_versions(equals("name", name)):
        for tag, value in version.tags.items():
            if version.name == name and (tag == t.REFERENCE or tag.startswith(f"{t.REFERENCE}.")):
                pins.setdefault(value, []).append(str(version.version))
    rest = [entry.reference_run_id for entry in audit_history(experiment, name, superseded=False)]
    return [
        StoredReference(
            run_id=run.info.run_id,
            version=run.data.tags.get(t.VERSION, ""),
            site=run.data.tags.get(t.SITE, ""),
            window=run.data.tags.get(t.WINDOW, ""),
            pinned_to=tuple(sorted(pins.get(run.info.run_id, ()))),
            audits=rest.count(run.info.run_id),
        )
        for run in runs
        if run.data.tags.get(t.MODEL) == name
    ]


def prune_references(model: str, experiment: str = EXPERIMENT) -> list[StoredReference]:
    """Delete, as MLflow deletes (they can be restored), the references that no version and no current audit needs.

    >>> kept = len(list_references("icu-mortality")) - len(prune_references("icu-mortality"))
    >>> len(list_references("icu-mortality")) == kept
    True
    """
    from mlflow import MlflowClient

    gone = [reference for reference in list_references(model, experiment) if not reference.needed]
    for reference in gone:
        MlflowClient().delete_run(reference.run_id)
    return gone


def prune_store(store: str | None, days: float) -> tuple[int, int]:
    """Delete files of a store that nobody has read or written for so many days: (files, bytes).

    All of them can be made again: an audit that is run later fits once more.

    >>> prune_store("shards", days=90)
    (0, 0)
    """
    if days <= 0:
        raise ValueError(f"Expected days > 0, but got {days}.")
    root, limit = Path(checked_store(store)), time.time() - days * _DAY
    files, size = 0, 0
    for folder in _RENEWABLE:
        for path in sorted((root / folder).rglob("*")) if (root / folder).is_dir() else ():
            if path.is_file() and not path.is_symlink():
                found = path.stat()
                if max(found.st_atime, found.st_mtime) < limit:
                    path.unlink()
                    files, size = files + 1, size + found.st_size
    return files, size
