"""Shards: pieces of an audit that separate processes fit, named by all that determines their content.

A shard is a small JSON file, which says what to do, and a result beside it. The name of both is a hash of the model's
version, the bytes of the stays, the settings, the seed and the code: a retry or a rerun finds the result and does
nothing. Results appear whole or not at all, so that two processes at one shard do no harm.
"""

from __future__ import annotations

import errno
import json
import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._files import atomic_write
from dynamask_mlflow._method_table import METHODS
from dynamask_mlflow._paths import local_path
from dynamask_mlflow._provenance import PACKAGE, code_digest, digest, symbol_at, versions
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.errors import AuditError, DataLostError
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.models import ModelRef
from dynamask_mlflow.audit.records import Request, ShardGroup, ShardResult, ShardSpec, StaySource
from dynamask_mlflow.evaluation.sequences import Sequences

SECONDS_PER_STAY = 0.05  # until a shard of the same model was timed
_SMALL, _LARGE = 25, 2000  # stays of a shard: not cut further for more processes; never more, whatever the time
# Subpackages whose code decides what a shard holds.
_COMPUTES = tuple(f"{PACKAGE}.{name}" for name in ("masks", "saliency", "metrics", "evaluation", "audit"))
PREDICTED = "predicted"  # the role of stays that are predicted, but not explained
_LASTING = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EEXIST,
)  # others may pass: a mount that is lost
_ANSWERS = ("model", "ids", "content", "code", "salt", "keep")


def default_store() -> str:
    """DYNAMASK_STORE, or ~/.cache/dynamask_mlflow/audits. With several machines it must be shared."""
    named = os.environ.get("DYNAMASK_STORE")
    return named or str(Path.home() / ".cache" / "dynamask_mlflow" / "audits")


def checked_store(store: str | None) -> str:
    """The store, or the default one; an address that is not on this machine is refused."""
    given = store or default_store()
    try:
        return str(local_path(given, "store"))
    except ValueError as error:
        raise AuditError(str(error)) from error


def writable_store(store: str | None) -> str:
    """The same for who will write there: a store that cannot be written is refused before anything is opened."""
    place = checked_store(store)
    folder = Path(place)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        if error.errno not in _LASTING:
            raise
        raise AuditError(
            f"Expected a store that can be written, but {folder} cannot: {error.strerror}. Name another folder with "
            "--store or the environment variable DYNAMASK_STORE."
        ) from error
    return place


def plan_shards(group: ShardGroup, store: str, shards: int | None = None, least: int = 1) -> list[str]:
    """Write what to do and return its URIs, in order.

    Args:
        group: which model explains which sequences, and what for.
        store: folder of the shards.
        shards: how many; None: as few as the estimated duration allows, and the next time as many as the first time.
        least: but no fewer, if there are stays enough.

    >>> from dynamask_mlflow.audit.models import resolve_model
    >>> ref = resolve_model("models:/icu-mortality@champion")
    >>> stays = StaySource(stays="icu", rows=(0, 1, 2, 3))
    >>> group = ShardGroup(model=ref, source=stays, config=AuditConfig())
    >>> len(plan_shards(group, "shards", shards=2))
    2
    """
    root = Path(checked_store(store))
    rows = list(group.source.rows or range(len(read_source(group.source)[0])))
    count = shards or _partition(root, replace(group, source=replace(group.source, rows=tuple(rows))), least)
    config, keep = group.config, group.keep
    uris = []
    for part in np.array_split(np.asarray(rows, dtype=np.intp), min(count, len(rows))):
        piece = replace(group.source, rows=tuple(int(row) for row in part))
        sequences, patients = read_source(piece)
        kept = min(keep, len(part))
        keep -= kept
        spec = ShardSpec(
            model=group.model,
            source=piece,
            ids=sequences.ids,
            content=_content(sequences, patients),
            config=config,
            code=code_version(config.method),
            salt=group.salt,
            role=group.role,
            keep=kept,
        )
        stored = spec.to_dict()
        key = digest({name: stored[name] for name in _ANSWERS} | {"fit": config.explainer_digest})
        stored["result"] = str(root / "shards" / key[:2] / f"{key}.npz")
        path = root / "plans" / key[:2] / f"{key}-{group.role}.json"
        atomic_write(path, json.dumps(stored))
        uris.append(str(path))
    return uris


def fit_shard(uri: str, loaded: dict[str, Any] | None = None) -> ShardResult:
    """Fit one shard, unless its result is there.

    Args:
        uri: of `plan_shards`.
        loaded: models that the caller keeps from one shard to the next; new ones are added.

    >>> from dynamask_mlflow.audit.models import resolve_model
    >>> ref = resolve_model("models:/icu-mortality@champion")
    >>> stays = StaySource(stays="icu", rows=(0, 1, 2, 3))
    >>> group = ShardGroup(model=ref, source=stays, config=AuditConfig())
    >>> (uri,) = plan_shards(group, "shards")
    >>> fit_shard(uri).instances, fit_shard(uri).skipped
    (4, True)
    """
    done = fitted_shard(uri)
    if done is not None:
        return done
    spec = read_spec(uri)
    from dynamask_mlflow.audit.explain_window import explain_window, predict_window
    from dynamask_mlflow.audit.models import load_network

    config, ref = spec.config, spec.model
    sequences, patients = read_source(spec.source)
    if _content(sequences, patients) != spec.content:
        raise AuditError(f"Expected the stays as they were planned, but {spec.source.to_dict()} changed since.")
    known = {} if loaded is None else loaded
    if ref.uri not in known:
        known[ref.uri] = load_network(ref, config.task)
    model = known[ref.uri]
    settings = model.settings
    if settings is not None and settings.channel_names not in (None, sequences.channel_names):
        raise AuditError(
            f"Expected the channels of {ref.uri} in its order, but the data have others: "
            f"{_first_difference(settings.channel_names or (), sequences.channel_names)}."
        )
    network, called = model.network(sequences, config)
    if spec.role == PREDICTED:
        measured = predict_window(network, sequences, patients, task=model.task, config=called)
    else:
        measured = explain_window(
            network,
            sequences,
            patients,
            task=model.task,
            config=called,
            keep=spec.keep,
            reference=model.reference,
        )
    result = Path(spec.result)
    measured.save(result)
    if len(measured) and spec.role != PREDICTED:
        _note_speed(result.parents[2], ref, config, float(measured.record["seconds"]) / len(measured))
    return _account(uri, spec, measured, skipped=False)


def fitted_shard(uri: str) -> ShardResult | None:
    """What an earlier fit of the shard left, if it did; needs neither torch nor MLflow.

    >>> from dynamask_mlflow.audit.models import resolve_model
    >>> ref = resolve_model("models:/icu-mortality@champion")
    >>> group = ShardGroup(model=ref, source=StaySource(stays="icu", rows=(0, 1, 2)), config=AuditConfig(seed=7))
    >>> (uri,) = plan_shards(group, "shards")
    >>> fitted_shard(uri) is None
    True
    """
    spec = read_spec(uri)
    done = _present(Path(spec.result))
    if done is None or (done.failures and not len(done)):
        return None
    return _account(uri, spec, done, skipped=True)


def gather(uris: Sequence[str], keep: int = 0) -> ExplainedWindow:
    """Join the results of shards that were all fitted, in order.

    >>> from dynamask_mlflow.audit.models import resolve_model
    >>> ref = resolve_model("models:/icu-mortality@champion")
    >>> stays = StaySource(stays="icu", rows=(0, 1, 2, 3))
    >>> group = ShardGroup(model=ref, source=stays, config=AuditConfig())
    >>> uris = plan_shards(group, "shards", shards=2)
    >>> done = [fit_shard(uri) for uri in uris]
    >>> gather(uris).by_channel.shape
    (4, 4)
    """
    missing = [uri for uri in uris if not Path(read_spec(uri).result).is_file()]
    if missing:
        raise DataLostError(f"Expected {len(uris)} fitted shards, but {len(missing)} are not, the first {missing[0]}.")
    return ExplainedWindow.concatenate([ExplainedWindow.load(read_spec(uri).result) for uri in uris], keep)


def gather_role(uris: Sequence[str], role: str, keep: int = 0) -> ExplainedWindow | None:
    """The joined results of the shards with a role; None if there are none."""
    chosen = [uri for uri in uris if read_spec(uri).role == role]
    return gather(chosen, keep) if chosen else None


def plan_predictions(request: Request, model: ModelRef) -> list[str]:
    """The shard of the stays that are predicted, but not explained; none if all are explained."""
    if not request.predicted_rows:
        return []
    source = replace(request.stays, rows=request.predicted_rows)
    group = ShardGroup(model=model, source=source, config=request.config, role=PREDICTED, salt=PREDICTED)
    return plan_shards(group, request.store, 1)


def with_predictions(explained: ExplainedWindow, uris: Sequence[str]) -> ExplainedWindow:
    """Explained stays with those that were only predicted beside them, if there are any among the shards."""
    found = gather_role(uris, PREDICTED)
    return explained if found is None else replace(explained, predicted=found.predictions)


def read_source(source: StaySource) -> tuple[Sequences, NDArray[np.str_]]:
    """Sequences and patients of a shard."""
    rows = None if source.rows is None else np.asarray(source.rows, dtype=np.intp)
    if source.stays is not None:
        from dynamask_mlflow.audit.windows import load_stays

        sequences, patients = load_stays(source.stays, np.zeros(0, dtype=np.intp) if rows is None else rows)
        return _hashed(sequences, patients) if source.hashed else (sequences, patients)
    sequences = Sequences.load(str(source.sequences))
    if rows is not None:
        sequences = sequences.take(rows)
    return sequences, np.asarray(sequences.ids, dtype=np.str_)


def _hashed(sequences: Sequences, patients: NDArray[np.str_]) -> tuple[Sequences, NDArray[np.str_]]:
    from dynamask_mlflow.evaluation.privacy import hashed

    return replace(sequences, ids=tuple(map(hashed, sequences.ids))), np.asarray([hashed(p) for p in patients])


@cache
def code_version(method: str) -> str:
    """A digest of the code that explains and measures by this method, and of the libraries it stands on.

    Settings are not code: those on which masks depend are in the key of a shard by their values.
    """
    location = METHODS.get(method)
    roots = [(f"{PACKAGE}.audit.explain_window", "explain_window"), *([symbol_at(location)] if location else ())]
    settings = (f"{PACKAGE}.audit.config", "AuditConfig")
    return digest([code_digest(roots, _COMPUTES, {settings}), versions("torch", "numpy")["torch"]])


def _content(sequences: Sequences, patients: NDArray[np.str_]) -> str:
    return f"{sequences.digest()}-{digest(patients.tolist())}"


def read_spec(uri: str) -> ShardSpec:
    """What a planned shard is to do."""
    try:
        return ShardSpec.from_dict(json.loads(local_path(uri, "the shard").read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        kind = DataLostError if isinstance(error, OSError) else AuditError
        raise kind(f"Expected a planned shard at {uri}, but it cannot be read: {error}.") from error


def _present(result: Path) -> ExplainedWindow | None:
    try:
        return ExplainedWindow.load(result) if result.is_file() else None
    except ValueError:
        return None  # damaged: fitted again and replaced


def _account(uri: str, spec: ShardSpec, measured: ExplainedWindow, *, skipped: bool) -> ShardResult:
    return ShardResult(
        uri=uri,
        result=spec.result,
        instances=len(measured),
        failures=len(measured.failures),
        seconds=round(float(measured.record.get("seconds", 0.0)), 3),
        skipped=skipped,
    )


def _partition(root: Path, group: ShardGroup, least: int) -> int:
    """How many shards. Kept from the first time on: the speed is better known the second time, but other shards would
    have other names, and all would be fitted again.
    """
    model, config, rows = group.model, group.config, group.source.rows or ()
    fit = [model.to_dict(), config.explainer_digest, config.shard_seconds]
    what = [*fit, group.source.to_dict(), group.role, group.salt, code_version(config.method)]
    path, count = root / "partitions" / f"{digest(what)}.json", len(rows)
    kept = _kept_number(path)
    if kept is not None and 1 <= kept <= max(1, count):
        return int(kept)
    by_time = min(round(count * _speed(root, model, config) / config.shard_seconds), count)
    chosen = max(1, by_time, -(-count // _LARGE), min(least, count // _SMALL))
    atomic_write(path, json.dumps(chosen))
    return chosen


def _speed_file(root: Path, model: ModelRef, config: AuditConfig) -> Path:
    return root / "speed" / f"{digest([model.to_dict(), config.explainer_digest])}.json"


def _speed(root: Path, model: ModelRef, config: AuditConfig) -> float:
    return _kept_number(_speed_file(root, model, config)) or SECONDS_PER_STAY


def _kept_number(path: Path) -> float | None:
    """A number of the store, if there is one above 0; whatever else the file holds is as if it were not there."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return kept if isinstance(kept, int | float) and 0 < kept < math.inf else None


def _note_speed(root: Path, model: ModelRef, config: AuditConfig, seconds: float) -> None:
    atomic_write(_speed_file(root, model, config), json.dumps(seconds))


def _first_difference(expected: Sequence[str], got: Sequence[str]) -> str:
    for place, (a, b) in enumerate(zip(expected, got, strict=False)):
        if a != b:
            return f"channel {place} is {b!r} instead of {a!r}"
    return f"{len(got)} instead of {len(expected)}"
