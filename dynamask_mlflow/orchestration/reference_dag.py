"""A whole DAG that gives every new version, or a moved alias, its reference."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from airflow.sdk import DAG, Asset, task
from airflow.sdk.definitions.param import ParamsDict

from dynamask_mlflow._model_uri import ModelUri
from dynamask_mlflow.audit.identity import DEFAULT_SITE, EXPERIMENT
from dynamask_mlflow.orchestration import tasks
from dynamask_mlflow.orchestration.dag import schedule_of
from dynamask_mlflow.orchestration.group import close_after, fit_and_report
from dynamask_mlflow.orchestration.hook import DEFAULT
from dynamask_mlflow.orchestration.messages import REFERENCE_DOC
from dynamask_mlflow.orchestration.options import Execution
from dynamask_mlflow.orchestration.params import Config, as_config, reference_params


def build_reference_dag(
    model: str,
    data: str,
    *,
    dag_id: str = "explanation_reference",
    window: str = "all",
    site: str = DEFAULT_SITE,
    split: str | None = "test",
    cron: str | None = "@daily",
    timezone: str = "UTC",
    assets: Sequence[Asset] = (),
    start_date: datetime | None = None,
    config: Config | None = None,
    store: str | None = None,
    experiment: str = EXPERIMENT,
    mlflow_conn_id: str = DEFAULT,
    execution: Execution | None = None,
    **dag_options: Any,
) -> DAG:
    """The DAG `explanation_reference` of a model: looks what the alias points at, and builds what is missing.

    Args:
        window, split: the stays that are taken for normal, at this site.
        cron: how often to look. assets: of whoever registers versions, to look at once.

    The other arguments are those of `build_audit_dag`; the settings must be those of the audits.

    >>> build_reference_dag("models:/icu-mortality@champion", "icu", window="2025").dag_id
    'explanation_reference'
    """
    settings = as_config(config)
    source = {
        "model": model, "data": data, "window": window, "site": site, "split": split, "store": store,
        "experiment": experiment,
    }  # fmt: skip
    run = execution or Execution()
    options: dict[str, Any] = {
        "schedule": schedule_of(cron, timezone, assets),
        "start_date": start_date or datetime(2020, 1, 1, tzinfo=ZoneInfo(timezone)),
        "catchup": False,
        "max_active_runs": 1,
        "tags": ["dynamask", "explanations", ModelUri.parse(model).name],
        "doc_md": REFERENCE_DOC.format(model=model, window=window),
    }

    def prepare(source: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
        return tasks.prepare_reference(source, config, conn_id=mlflow_conn_id, use_params=True)

    params = dag_options.pop("params", None) or reference_params(source, settings)
    with DAG(dag_id, **{**options, **dag_options}) as dag:
        opened = task(task_id="prepare", **run.step_arguments())(prepare)(source, settings.to_dict())
        done, _ = fit_and_report(opened, run, mlflow_conn_id, ())
        close_after(opened, [done], run, mlflow_conn_id)
    dag.params = ParamsDict(params)  # not before: Airflow copies the params of a DAG into each task that it is given
    return dag
