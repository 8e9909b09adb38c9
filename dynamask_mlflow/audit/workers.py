"""Shards on the cores of this machine: this process and others beside it, which come up while it prepares."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from types import TracebackType
from typing import Any, Self

from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.records import ShardResult
from dynamask_mlflow.audit.shards import SECONDS_PER_STAY, fit_shard

Progress = Callable[[ShardResult], None]
WORTH_IT = 20.0  # estimated seconds of fits from which another process pays for its start
MOST = 4  # each holds the libraries and the model in memory
EACH = 4  # shards a process, so that one that came late does less
_loaded: dict[str, Any] = {}


def default_processes(instances: int | None, config: AuditConfig) -> int:
    """As many as there are cores, up to four, if there is enough to do; one on a GPU."""
    import torch

    if instances is not None and instances * SECONDS_PER_STAY < WORTH_IT:
        return 1
    on_cpu = config.device == "cpu" or (config.device == "auto" and not torch.cuda.is_available())
    return min(_cores(), MOST) if on_cpu else 1


class Workers:
    """Fits shards; other processes start at once, so that their imports cost no time of ours."""

    def __init__(self, processes: int = 1) -> None:
        if processes < 1:
            raise ValueError(f"Expected at least 1 process, but got {processes}.")
        self.processes = processes
        self._pool: ProcessPoolExecutor | None = None

    @property
    def least_shards(self) -> int:
        return EACH * self.processes if self.processes > 1 else 1

    def __enter__(self) -> Self:
        if self.processes > 1:
            # Spawned, not forked: a fork of a process that has used torch's threads hangs.
            self._pool = ProcessPoolExecutor(
                self.processes - 1, mp_context=get_context("spawn"), initializer=_begin, initargs=(_threads(),)
            )
            for _ in range(self.processes - 1):
                self._pool.submit(os.getpid)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=error is not None, cancel_futures=True)

    def fit(self, uris: Sequence[str], progress: Progress | None = None) -> None:
        """Fit them all: the others from the end, this process from the beginning, until they meet."""
        import mlflow

        loaded: dict[str, Any] = {}
        home = mlflow.get_tracking_uri(), mlflow.get_registry_uri()
        away = {} if self._pool is None else {uri: self._pool.submit(_fit, uri, *home) for uri in reversed(uris)}
        for uri in uris:
            future: Future[ShardResult] | None = away.get(uri)
            done = future.result() if future and not future.cancel() else fit_shard(uri, loaded)
            if progress is not None:
                progress(done)
        if self._pool is not None:
            self._pool.shutdown(wait=False)  # they go while this process writes its report


def _begin(threads: int) -> None:
    """Import what a shard needs, while the first process still prepares."""
    import mlflow  # noqa: F401
    import torch

    import dynamask_mlflow.audit.explain_window  # noqa: F401

    torch.set_num_threads(threads)
    end_with_parent()
    leave_quickly()


def end_with_parent() -> None:
    """A killed parent cannot stop its workers: each waits for its end in a thread, and goes at once."""
    from multiprocessing import connection, parent_process
    from threading import Thread

    parent = parent_process()
    if parent is None:
        return

    def wait() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    Thread(target=wait, name="dynamask-parent", daemon=True).start()


def leave_quickly() -> None:
    """At its end Python looks once more through all objects, which with these libraries takes two seconds."""
    import atexit
    import gc

    atexit.register(gc.freeze)


def _fit(uri: str, tracking_uri: str, registry_uri: str) -> ShardResult:
    import mlflow

    mlflow.set_tracking_uri(tracking_uri)
    mlflow.set_registry_uri(registry_uri)
    return fit_shard(uri, _loaded)


def _threads() -> int:
    import torch

    return int(torch.get_num_threads())


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
