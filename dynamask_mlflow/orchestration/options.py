"""How the tasks of an audit are run: who fits, for how long, how often tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

_LONGEST_DELAY = timedelta(minutes=10)


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Where and how tasks run.

    Attributes:
        pool: of the tasks that fit; it must exist, else they wait for ever: `airflow pools set gpu 2 "GPU workers"`.
        queue: of the tasks that fit, for Celery workers started with `--queues`; None is the default queue.
        threads: of torch, in each task that fits; None lets torch take all cores.
        shards: of a window; None: as few as the configuration's `shard_seconds` allows.
        fit_timeout: of one shard. step_timeout: of every other task.
        retries: of errors that may pass; those that will not, fail at once.
        retry_delay: before the first retry; it doubles from then on.
        fit_options: more arguments of the tasks that fit, for instance `{"executor_config": ...}` on Kubernetes.
    """

    pool: str = "default_pool"
    queue: str | None = None
    threads: int | None = 1
    shards: int | None = None
    fit_timeout: timedelta = timedelta(hours=2)
    step_timeout: timedelta = timedelta(minutes=30)
    retries: int = 3
    retry_delay: timedelta = timedelta(seconds=30)
    fit_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("threads", "shards"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"Expected {name} >= 1, or None, but got {value}.")
        if self.retries < 0:
            raise ValueError(f"Expected retries >= 0, but got {self.retries}.")

    def step_arguments(self) -> dict[str, Any]:
        """Arguments of every task."""
        from dynamask_mlflow.orchestration.retries import retry_policy

        return {
            "retries": self.retries,
            "retry_delay": self.retry_delay,
            "retry_exponential_backoff": 2.0,
            "max_retry_delay": _LONGEST_DELAY,
            "retry_policy": retry_policy(),
            "execution_timeout": self.step_timeout,
            "multiple_outputs": False,  # a returned dict is stored once, not once more key by key
            "show_return_value_in_logs": False,  # it holds the numbers of all stays; tasks log lines of their own
        }

    def waits(self) -> tuple[float, ...]:
        """Seconds before each retry.

        >>> Execution().waits()
        (30.0, 60.0, 120.0)
        """
        first, most = self.retry_delay.total_seconds(), _LONGEST_DELAY.total_seconds()
        return tuple(min(first * 2.0**number, most) for number in range(self.retries))

    def fit_arguments(self) -> dict[str, Any]:
        """Arguments of the tasks that fit."""
        own: dict[str, Any] = {"pool": self.pool, "execution_timeout": self.fit_timeout}
        if self.queue is not None:
            own["queue"] = self.queue
        return {**self.step_arguments(), **own, **self.fit_options}
