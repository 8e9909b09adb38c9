"""A whole DAG that starts the audit of every window that has stays and no finished audit of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Asset, task

from dynamask_mlflow._model_uri import ModelUri
from dynamask_mlflow.audit.identity import EXPERIMENT
from dynamask_mlflow.orchestration import tasks
from dynamask_mlflow.orchestration.dag import schedule_of
from dynamask_mlflow.orchestration.hook import DEFAULT
from dynamask_mlflow.orchestration.messages import RECONCILE_DOC
from dynamask_mlflow.orchestration.options import Execution
from dynamask_mlflow.orchestration.params import Config, as_config
from dynamask_mlflow.orchestration.windows import Period


def build_reconcile_dag(
    model: str,
    data: str,
    *,
    dag_id: str = "explanation_reconcile",
    audit_dag_id: str = "explanation_audit",
    cron: str | None = "@daily",
    timezone: str = "UTC",
    assets: Sequence[Asset] = (),
    period: Period = "month",
    limit: int = 12,
    site: str = "default",
    split: str | None = None,
    config: Config | None = None,
    store: str | None = None,
    experiment: str = EXPERIMENT,
    mlflow_conn_id: str = DEFAULT,
    execution: Execution | None = None,
    **dag_options: Any,
) -> DAG:
    """The DAG `explanation_reconcile` of a model: what lost events, failed runs or corrected data left open.

    Args:
        audit_dag_id: the DAG whose run it starts, one for each window; it must have the same settings, or its audits
            do not count as those that are missing.
        cron: how often to look. assets: of the data, to look whenever they are written: several events that come
            together are so many audits.
        period: of the windows: "day", "month" or "year". limit: of windows that are started at a time.

    The other arguments are those of `build_audit_dag`.

    >>> build_reconcile_dag("models:/icu-mortality@champion", "icu").task_ids
    ['pending', 'audit']
    """
    if period not in ("day", "month", "year"):
        raise ValueError(f"Expected period to be day, month or year, but got {period!r}.")
    settings, run = as_config(config), execution or Execution()
    source = {
        "model": model, "data": data, "window": "all", "site": site, "split": split, "store": store,
        "experiment": experiment,
    }  # fmt: skip
    options: dict[str, Any] = {
        "schedule": schedule_of(cron, timezone, assets),
        "start_date": datetime(2020, 1, 1, tzinfo=ZoneInfo(timezone)),
        "catchup": False,
        "max_active_runs": 1,
        "tags": ["dynamask", "explanations", ModelUri.parse(model).name],
        "doc_md": RECONCILE_DOC.format(model=model, audit=audit_dag_id),
    }

    def pending(source: dict[str, Any], config: dict[str, Any]) -> list[dict[str, Any]]:
        return tasks.pending(source, config, conn_id=mlflow_conn_id, period=period, limit=limit)

    with DAG(dag_id, **{**options, **dag_options}) as dag:
        found: Any = task(task_id="pending", **run.step_arguments())(pending)(source, settings.to_dict())
        TriggerDagRunOperator.partial(
            task_id="audit",
            trigger_dag_id=audit_dag_id,
            logical_date=None,
            skip_when_already_exists=True,
            map_index_template="{{ task.conf['window'] }}",
        ).expand_kwargs(found)
    return dag
