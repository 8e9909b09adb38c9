"""What each task does in Airflow's terms: skip, fail, retry, label, link. The work itself is in `steps`."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import tzinfo
from typing import Any

from airflow.sdk import BaseNotifier, get_current_context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from dynamask_mlflow._model_uri import ModelUri
from dynamask_mlflow._secrets import first_line, without_secrets
from dynamask_mlflow.orchestration import steps
from dynamask_mlflow.orchestration.hook import MlflowHook
from dynamask_mlflow.orchestration.link import leave_link
from dynamask_mlflow.orchestration.params import merge_config, merge_source
from dynamask_mlflow.orchestration.retries import refusals_fail
from dynamask_mlflow.orchestration.windows import Period, resolve_window

log = logging.getLogger(__name__)


@refusals_fail
def prepare_audit(
    source: Mapping[str, Any],
    config: Mapping[str, Any],
    *,
    conn_id: str,
    use_params: bool,
    empty: str,
    period: Period,
    timezone: tzinfo,
) -> dict[str, Any]:
    """Find the window, pin the version, open or resume the run."""
    from dynamask_mlflow.audit.errors import NoDataError

    context: Any = get_current_context()
    if use_params:
        config = merge_config(config, context["params"])
    source = _window_source(source, context, use_params, period, timezone)
    browser = MlflowHook(conn_id).apply()
    try:
        with _noted(source):
            request = steps.open_audit(source, config)
    except NoDataError as error:
        if empty == "skip":
            raise AirflowSkipException(str(error)) from error
        raise
    log.info("Window %s: %d stays, MLflow run %s.", source["window"], len(request["rows"]), request["run_id"])
    for reason in request["blockers"].values():
        log.warning("%s Nothing is fitted.", reason)
    _leave_link(context, browser, request["run_id"])
    return request


@refusals_fail
def prepare_reference(
    source: Mapping[str, Any], config: Mapping[str, Any], *, conn_id: str, use_params: bool
) -> dict[str, Any]:
    """Pin the version and open its reference's run; skipped if it has a reference."""
    context: Any = get_current_context()
    rebuild = False
    if use_params:
        source, config = merge_source(source, context["params"]), merge_config(config, context["params"])
        rebuild = bool(context["params"].get("rebuild"))
    browser = MlflowHook(conn_id).apply()
    request = steps.open_reference({**source, "window": source.get("window") or "all"}, config, rebuild)
    if request is None:
        raise AirflowSkipException(f"{source['model']} has a reference with these settings.")
    _leave_link(context, browser, request["run_id"])
    return request


@refusals_fail
def pending(
    source: Mapping[str, Any], config: Mapping[str, Any], *, conn_id: str, period: str, limit: int
) -> list[dict[str, Any]]:
    """What to start: one audit for each window, named by this run, so that a retry starts none twice."""
    context: Any = get_current_context()
    MlflowHook(conn_id).apply()
    windows = steps.pending(source, config, period)
    if not windows:
        raise AirflowSkipException(f"No window of {source['data']} waits for an audit.")
    later = len(windows) - limit
    more = f"; {later} more wait for the next run of this DAG" if later > 0 else ""
    log.info("To be audited: %s%s.", ", ".join(windows[:limit]), more)
    due = f"{context['dag_run'].run_after:%Y%m%dT%H%M%S}"
    return [{"conf": {"window": each}, "trigger_run_id": f"reconcile__{each}__{due}"} for each in windows[:limit]]


@refusals_fail
def plan(request: dict[str, Any], *, conn_id: str, shards: int | None) -> list[dict[str, str]]:
    MlflowHook(conn_id).apply()
    with _noted(request):
        return steps.plan(request, shards)


@refusals_fail
def fit_shard(shard: Mapping[str, str], *, conn_id: str, threads: int | None) -> dict[str, Any]:
    done = steps.fitted(shard["uri"])
    if done is None:
        log.info("%s: fitting begins; the next line comes when it ends. Shard %s.", shard["label"], shard["uri"])
        MlflowHook(conn_id).apply()
        done = steps.fit(shard["uri"], threads)
    how = "was there" if done["skipped"] else f"{done['seconds']:.1f} s"
    log.info("%s: %d stays, %d failed (%s).", shard["label"], done["instances"], done["failures"], how)
    context: Any = get_current_context()
    context["label"] = f"{shard['label']}: {done['instances']} stays, {how}"
    return done


@refusals_fail
def report(shards: Sequence[Mapping[str, str]] | None, *, opened_by: str, conn_id: str) -> dict[str, Any]:
    """Runs although no shard was planned, to say why; not if there is nothing to audit."""
    context: Any = get_current_context()
    request = context["ti"].xcom_pull(task_ids=opened_by)
    if request is None:
        raise AirflowSkipException("There is nothing to audit.")
    browser = MlflowHook(conn_id).apply()
    with _noted(request):
        found = steps.report(request, [shard["uri"] for shard in shards or ()])
    _leave_link(context, browser, request["run_id"])
    if "state" in found:
        about = (found["model"], found["version"], found["window"], found["state"], found["run_id"])
        log.info("%s version %s, %s: %s, MLflow run %s. Why:", *about)
    for reason in found.get("reasons", ()):
        log.info("- %s", reason)
    for asset in context["task"].outlets:
        keys = ("model", "version", "site", "window", "state", "run_id", "instances")
        context["outlet_events"][asset].extra = {key: found[key] for key in keys if key in found}
    return found


@refusals_fail
def alert(
    verdict: Mapping[str, Any],
    *,
    notifiers: Sequence[BaseNotifier],
    conn_id: str,
    alert_on: Sequence[str],
    fail_on: Sequence[str],
    reminder_days: int,
) -> str:
    """Tell everybody what is new: a finding that begins, gets worse, lasts or ends. Skipped when nothing is new."""
    from dynamask_mlflow.audit.alerts import describe_alert, due_notices, mark_alerted, note_notified, notified

    context: Any = get_current_context()
    run_id = verdict["run_id"]
    _leave_link(context, MlflowHook(conn_id).apply(), run_id)
    notices = due_notices(verdict, verdict["experiment"], alert_on, reminder_days)
    for notice in notices:
        audit = {**verdict, "notice": notice.text, "notice_kind": notice.kind, "episode": notice.episode}
        done = set(notified(run_id, notice))
        for name in _tell(context, audit, notifiers, done):
            done.add(name)
            note_notified(run_id, notice, done)
        mark_alerted(run_id, notice)
    state, line = str(verdict["state"]), describe_alert(verdict)
    if state in fail_on:
        raise AirflowFailException(line)
    if not notices:
        why = "the episode was told before" if state in alert_on else "nothing to tell"
        raise AirflowSkipException(f"{line} ({why})")
    return "\n".join(notice.text for notice in notices)


def tell_failure(
    source: Mapping[str, Any],
    *,
    notifiers: Sequence[BaseNotifier],
    conn_id: str,
    use_params: bool,
    period: Period,
    timezone: tzinfo,
    waits: Sequence[float] = (),
) -> str:
    """An audit could not run: everybody is told, with what is known of the reason.

    A notifier that failed is tried again here, after so many seconds, since a retry of the task would not know who was
    told: MLflow, where that is noted otherwise, may be what is lost.
    """
    context: Any = get_current_context()
    wanted = _window_source(source, context, use_params, period, timezone)
    version, reason = "", ""
    try:
        MlflowHook(conn_id).apply()
        version, reason = steps.noted_failure(wanted)
    except Exception as error:  # MLflow itself may be what failed
        log.warning("MLflow does not say why: %s", first_line(error))
    text = f"not audited: {wanted['model']}, {wanted['window']}. {reason or 'The logs of this DAG run say why.'}"
    audit = {
        **{key: wanted.get(key) for key in ("model", "site", "window", "experiment")},
        **{"state": "error", "version": version, "run_id": "", "reasons": [text], "violations": [], "metrics": {}},
        **{"notice": text, "notice_kind": "failed", "episode": ""},
    }
    audit["model"] = ModelUri.parse(str(wanted["model"])).name
    done: set[str] = set()
    for wait in (*waits, None):
        try:
            for name in _tell(context, audit, notifiers, done):
                done.add(name)
            break
        except RuntimeError as error:
            if wait is None:
                raise AirflowFailException(str(error)) from error
            log.warning("%s Tried again in %.0f s.", error, wait)
            time.sleep(wait)
    return text


def _tell(context: Any, audit: Mapping[str, Any], notifiers: Sequence[BaseNotifier], done: set[str]) -> Iterator[str]:
    """Call all notifiers that have not been told; yields the names of those that were, and raises for the others."""
    context["audit"] = dict(audit)
    errors = []
    for number, notifier in enumerate(notifiers):
        name = f"{number} {type(notifier).__name__}"
        if name in done:
            continue
        try:
            notifier(context)
        except Exception as error:  # the others must be told in any case
            log.error("%s failed.\n%s", name, without_secrets(traceback.format_exc()))
            errors.append(f"{name}: {without_secrets(error)}")
            continue
        yield name
    if errors:
        raise RuntimeError(f"Expected every notifier to send, but {len(errors)} did not: {'; '.join(errors)}")


@refusals_fail
def close_run(request: Mapping[str, Any] | None, *, conn_id: str) -> None:
    """A run that is still open is closed as failed."""
    if request is None:
        return
    MlflowHook(conn_id).apply()
    if steps.close(request["run_id"]):
        log.warning("The run %s was left open and is now marked as failed.", request["run_id"])


def window_of_run(context: Any, param: str | None, period: Period, timezone: tzinfo) -> str:
    """The window of a DAG run, from whatever the run knows."""
    events = context.get("triggering_asset_events") or {}
    extras = [event.extra for asset in events for event in events[asset]]
    start, stop = context.get("data_interval_start"), context.get("data_interval_end")
    return resolve_window(
        param,
        extras,
        (start, stop) if start and stop else None,
        context["dag_run"].run_after,
        period=period,
        timezone=timezone,
    )


def _window_source(
    source: Mapping[str, Any], context: Any, use_params: bool, period: Period, timezone: tzinfo
) -> dict[str, Any]:
    """What to audit, with its window."""
    chosen = merge_source(source, context["params"]) if use_params else dict(source)
    return {**chosen, "window": window_of_run(context, chosen.get("window"), period, timezone)}


@contextmanager
def _noted(what: Mapping[str, Any]) -> Iterator[None]:
    """An error is noted on the version, for `tell_failure` and for whoever looks there; a success clears it."""
    try:
        yield
    except Exception as error:
        model = what["model"]
        uri = str(ModelUri(model["name"], version=model["version"])) if isinstance(model, Mapping) else model
        if what.get("kind") != "reference":
            with suppress(Exception):  # the first error is the one to be heard
                steps.note_failure({**what, "model": uri}, error)
        raise


def _leave_link(context: Any, browser: str | None, run_id: str) -> None:
    if browser:
        leave_link(context["task"], f"{browser.rstrip('/')}/{steps.run_path(run_id)}")
