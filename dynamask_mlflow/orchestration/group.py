"""An audit as a task group, for a place in anybody's DAG: prepare, plan, fit_shard[], report, alert, close.

`tell_failure` runs only if one of the first four failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from airflow.sdk import Asset, BaseNotifier, TaskGroup, TriggerRule, task

from dynamask_mlflow._model_uri import ModelUri
from dynamask_mlflow._states import STATES, State
from dynamask_mlflow.audit.identity import DEFAULT_SITE, EXPERIMENT
from dynamask_mlflow.orchestration import tasks
from dynamask_mlflow.orchestration.hook import DEFAULT
from dynamask_mlflow.orchestration.link import MlflowRunLink
from dynamask_mlflow.orchestration.notifier import MlflowTagNotifier
from dynamask_mlflow.orchestration.options import Execution
from dynamask_mlflow.orchestration.params import Config, as_config
from dynamask_mlflow.orchestration.windows import Period

ALERT_ON = (State.DRIFT, State.WARNING, State.INCONCLUSIVE)
EMPTY = ("fail", "skip")


def audit_asset(model: str) -> Asset:
    """The asset that an audit of a model emits; its event says version, window, state and run."""
    return Asset(f"explanation_audit/{quote(model, safe='-_.')}")


def audit_task_group(
    model: str,
    data: str,
    *,
    group_id: str = "explanation_audit",
    window: str | None = None,
    site: str = DEFAULT_SITE,
    split: str | None = None,
    config: Config | None = None,
    reference_run_id: str | None = None,
    store: str | None = None,
    experiment: str = EXPERIMENT,
    mlflow_conn_id: str = DEFAULT,
    execution: Execution | None = None,
    notifiers: Sequence[BaseNotifier] = (),
    alert_on: Sequence[str] = ALERT_ON,
    fail_on: Sequence[str] = (),
    empty: str = "fail",
    period: Period = "month",
    timezone: str = "UTC",
    use_params: bool = False,
    flat: bool = False,
) -> TaskGroup:
    """The tasks of an audit. Text may be a Jinja template.

    Args:
        model: models:/name@alias or models:/name/version. data: folder of a built dataset.
        window: None: the asset event's, the data interval's, or the last full period.
        site, split, reference_run_id, store, experiment: as of `dynamask-mlflow audit run`.
        config: settings of the audit.
        notifiers: any Airflow notifiers; templates in them find the verdict as `audit`. A tag on the version and a
            line in the log come first in any case.
        alert_on: states of which everybody is notified, when an episode of them begins, gets worse, lasts long or ends;
            an audit that could not run is always notified of. fail_on: states that fail the run.
        empty: "fail" or "skip" when the window has no stays. A skipped run is green in Airflow.
        period, timezone: of the last full period, and of the days of a data interval.
        use_params: take what the DAG's params say instead, by the names of `audit_params`.
        flat: leave the group's name out of the tasks' names.

    >>> from airflow.sdk import DAG
    >>> with DAG("ward"):
    ...     group = audit_task_group("models:/icu-mortality@champion", "icu")
    >>> group.group_id
    'explanation_audit'
    """
    settings = as_config(config)
    run, zone = execution or Execution(), ZoneInfo(timezone)
    for name, chosen in (("alert_on", alert_on), ("fail_on", fail_on)):
        if not set(chosen) <= set(STATES):
            raise ValueError(f"Expected {name} to hold only {STATES}, but got {tuple(chosen)}.")
    if empty not in EMPTY:
        raise ValueError(f"Expected empty to be one of {EMPTY}, but got {empty!r}.")
    source = {
        "model": model,
        "data": data,
        "window": window,
        "site": site,
        "split": split,
        "reference_run_id": reference_run_id,
        "store": store,
        "experiment": experiment,
    }
    everyone = (MlflowTagNotifier(mlflow_conn_id), *notifiers)

    def prepare(source: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
        return tasks.prepare_audit(
            source, config, conn_id=mlflow_conn_id, use_params=use_params, empty=empty, period=period, timezone=zone
        )

    def alert(verdict: dict[str, Any]) -> str:
        return tasks.alert(
            verdict,
            notifiers=everyone,
            conn_id=mlflow_conn_id,
            alert_on=tuple(map(str, alert_on)),
            fail_on=tuple(map(str, fail_on)),
            reminder_days=settings.reminder_days,
        )

    def tell_failure(source: dict[str, Any]) -> str:
        return tasks.tell_failure(
            source,
            notifiers=everyone,
            conn_id=mlflow_conn_id,
            use_params=use_params,
            period=period,
            timezone=zone,
            waits=run.waits(),
        )

    with TaskGroup(group_id, prefix_group_id=not flat, tooltip="Did the model's explanations drift?") as group:
        opened = task(task_id="prepare", **run.step_arguments())(prepare)(source, settings.to_dict())
        outlets = [] if "{" in model else [audit_asset(ModelUri.parse(model).name)]
        verdict, before = fit_and_report(opened, run, mlflow_conn_id, outlets)
        notified = task(task_id="alert", **run.step_arguments())(alert)(verdict)
        _link(notified)
        failed = task(task_id="tell_failure", trigger_rule=TriggerRule.ONE_FAILED, **run.step_arguments())
        failure = failed(tell_failure)(source)
        for each in (*before, verdict):
            each >> failure
        # Not before the teardown: within its scope a failed setup would keep this task from running.
        close_after(opened, [verdict, notified], run, mlflow_conn_id)
    return group


def fit_and_report(opened: Any, run: Execution, conn_id: str, outlets: Sequence[Asset]) -> tuple[Any, tuple[Any, ...]]:
    """plan, fit_shard[] and report, behind a `prepare` that is there: the last, and those before it."""

    def plan(request: dict[str, Any]) -> list[dict[str, str]]:
        return tasks.plan(request, conn_id=conn_id, shards=run.shards)

    def fit_shard(shard: dict[str, str]) -> dict[str, Any]:
        return tasks.fit_shard(shard, conn_id=conn_id, threads=run.threads)

    def report(shards: list[dict[str, str]] | None) -> Any:
        return tasks.report(shards, opened_by=opened.operator.task_id, conn_id=conn_id)

    step = run.step_arguments()
    shards: Any = task(task_id="plan", **step)(plan)(opened)
    label = "{{ label | default(task.op_kwargs['shard']['label']) }}"
    fitted = task(task_id="fit_shard", map_index_template=label, **run.fit_arguments())(fit_shard).expand(shard=shards)
    # Without shards the mapped task is skipped, and the report must still say why. Airflow forbids this rule right
    # behind a setup task, so the request is pulled, not passed.
    last = task(task_id="report", trigger_rule=TriggerRule.NONE_FAILED, outlets=list(outlets), **step)(report)
    found = last(shards)
    fitted >> found
    for each in (opened, found):
        _link(each)
    return found, (shards, fitted)


def close_after(opened: Any, before: Sequence[Any], run: Execution, conn_id: str) -> None:
    """`prepare` opens the run and `close_run` closes it, whatever happens between; a run's state is not up to it."""

    def close_run(request: dict[str, Any] | None) -> None:
        tasks.close_run(request, conn_id=conn_id)

    closed = task(task_id="close_run", **run.step_arguments())(close_run)(opened)
    for each in before:
        each >> closed
    closed.as_teardown(setups=opened)


def _link(arg: Any) -> None:
    arg.operator.operator_extra_links = (MlflowRunLink(),)
