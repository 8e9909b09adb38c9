"""The gate as a task: a version that is refused fails it, so that what promotes the version stands behind it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from airflow.sdk import task
from airflow.sdk.exceptions import AirflowFailException

from dynamask_mlflow.orchestration import steps
from dynamask_mlflow.orchestration.hook import DEFAULT, MlflowHook
from dynamask_mlflow.orchestration.options import Execution
from dynamask_mlflow.orchestration.params import Config, as_config
from dynamask_mlflow.orchestration.retries import refusals_fail

log = logging.getLogger(__name__)
STATES = ("refused", "inconclusive")


@dataclass(frozen=True, kw_only=True)
class GateOptions:
    """Where the gate looks, and what it stops.

    Attributes:
        window, split, store: as of `dynamask-mlflow gate`. mlflow_conn_id: the connection to MLflow.
        fail_on: states that fail the task: "refused", or also "inconclusive".
    """

    window: str = "all"
    split: str | None = None
    store: str | None = None
    mlflow_conn_id: str = DEFAULT
    fail_on: tuple[str, ...] = ("refused",)

    def __post_init__(self) -> None:
        if not set(self.fail_on) <= set(STATES):
            raise ValueError(f"Expected fail_on to hold only {STATES}, but got {self.fail_on}.")


def gate_task(
    model: str,
    against: str,
    data: str,
    *,
    limits: Mapping[str, Any] | None = None,
    config: Config | None = None,
    options: GateOptions | None = None,
    execution: Execution | None = None,
) -> Any:
    """A task that returns what the gate said, and fails if the version is refused. Text may be a Jinja template.

    Args:
        model: the version to be promoted. against: the one in use; "@champion" is an alias of the same model.
        limits: of `GateLimits`, for instance {"auroc": 0.01}. config: of audits; with `by`, subgroups must hold, too.

    >>> from airflow.sdk import DAG
    >>> with DAG("promotion"):
    ...     gate = gate_task("models:/icu-mortality/5", "@champion", "icu", limits={"auroc": 0.01})
    >>> gate.operator.task_id
    'gate'
    """
    settings = as_config(config)
    run, chosen = execution or Execution(), options or GateOptions()

    def gate(source: dict[str, Any], limits: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
        return run_gate_task(source, limits, config, run.threads)

    source = {"model": model, "against": against, "data": data, **asdict(chosen), "fail_on": list(chosen.fail_on)}
    return task(task_id="gate", **run.fit_arguments())(gate)(source, dict(limits or {}), settings.to_dict())


@refusals_fail
def run_gate_task(
    source: Mapping[str, Any], limits: Mapping[str, Any], config: Mapping[str, Any], threads: int | None
) -> dict[str, Any]:
    MlflowHook(str(source["mlflow_conn_id"])).apply()
    found = steps.gate(source, limits, config, threads)
    for reason in found["reasons"]:
        log.info("%s", reason)
    if found["state"] in source["fail_on"]:
        first = next(iter(found["reasons"]), "")
        raise AirflowFailException(f"{found['model']} version {found['version']}: {found['state']}. {first}")
    return found
