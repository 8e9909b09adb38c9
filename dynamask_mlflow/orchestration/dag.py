"""A whole DAG that audits one model, by the calendar and whenever its data arrive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from airflow.sdk import DAG, Asset, AssetAny, AssetOrTimeSchedule, BaseNotifier, CronDataIntervalTimetable
from airflow.sdk.definitions.param import ParamsDict

from dynamask_mlflow._model_uri import ModelUri
from dynamask_mlflow.audit.identity import DEFAULT_SITE, EXPERIMENT
from dynamask_mlflow.orchestration.group import ALERT_ON, audit_task_group
from dynamask_mlflow.orchestration.hook import DEFAULT
from dynamask_mlflow.orchestration.messages import AUDIT_DOC
from dynamask_mlflow.orchestration.options import Execution
from dynamask_mlflow.orchestration.params import Config, as_config, audit_params
from dynamask_mlflow.orchestration.windows import Period, period_of_cron


def build_audit_dag(
    model: str,
    data: str,
    *,
    dag_id: str = "explanation_audit",
    cron: str | None = "@monthly",
    timezone: str = "UTC",
    assets: Sequence[Asset] = (),
    start_date: datetime | None = None,
    period: Period | None = None,
    site: str = DEFAULT_SITE,
    split: str | None = None,
    config: Config | None = None,
    store: str | None = None,
    experiment: str = EXPERIMENT,
    mlflow_conn_id: str = DEFAULT,
    execution: Execution | None = None,
    notifiers: Sequence[BaseNotifier] = (),
    alert_on: Sequence[str] = ALERT_ON,
    fail_on: Sequence[str] = (),
    empty: str = "fail",
    **dag_options: Any,
) -> DAG:
    """The DAG `explanation_audit` of a model.

    Args:
        model: models:/name@alias. The form lets people choose another alias or version of the same name.
        data: folder of a built dataset.
        cron: when; each run audits its data interval. None: only by assets or by hand.
        assets: any of them triggers an audit; an event may name the window, `{"window": "2026-03"}`.
        period: what "the last full period" is for runs without interval and event; None: as the cron expression.
        dag_options: more arguments of `DAG`.

    The other arguments are those of `audit_task_group`.

    >>> build_audit_dag("models:/icu-mortality@champion", "icu").has_task("fit_shard")
    True
    """
    settings = as_config(config)
    source: dict[str, Any] = {
        "model": model, "data": data, "site": site, "split": split, "store": store, "experiment": experiment,
    }  # fmt: skip
    options: dict[str, Any] = {
        "schedule": schedule_of(cron, timezone, assets),
        "start_date": start_date or datetime(2020, 1, 1, tzinfo=ZoneInfo(timezone)),
        "catchup": False,
        "max_active_runs": 1,  # for the machine's sake; the order of windows does not matter
        "tags": ["dynamask", "explanations", ModelUri.parse(model).name],
        "doc_md": AUDIT_DOC.format(model=model, name=ModelUri.parse(model).name),
    }
    params = dag_options.pop("params", None) or audit_params(source, settings)
    with DAG(dag_id, **{**options, **dag_options}) as dag:
        audit_task_group(
            **source,
            config=settings,
            mlflow_conn_id=mlflow_conn_id,
            execution=execution,
            notifiers=notifiers,
            alert_on=alert_on,
            fail_on=fail_on,
            empty=empty,
            period=period_of_cron(cron, period),
            timezone=timezone,
            use_params=True,
            flat=True,
        )
    dag.params = ParamsDict(params)  # not before: Airflow copies the params of a DAG into each task that it is given
    return dag


def schedule_of(cron: str | None, timezone: str, assets: Sequence[Asset]) -> Any:
    """By the calendar, by assets, by both or by nothing. A bare cron string would give intervals without width."""
    timetable = CronDataIntervalTimetable(cron, timezone=timezone) if cron else None
    if timetable and assets:
        return AssetOrTimeSchedule(timetable=timetable, assets=AssetAny(*assets))
    return AssetAny(*assets) if assets else timetable
