"""Trials as MLflow runs: a parent run an experiment, a child run a (seed, method); finished ones are found
again.
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamask_mlflow._version import __version__
from dynamask_mlflow.experiments.cache import settings_key
from dynamask_mlflow.experiments.protocol import Experiment, ExperimentResult, Trial
from dynamask_mlflow.experiments.provenance import code_digest
from dynamask_mlflow.experiments.table import as_json, as_markdown, rows
from dynamask_mlflow.masks.result import Masks

if TYPE_CHECKING:
    from mlflow import MlflowClient

KEY_TAG = "dynamask.experiment_key"
NAME_TAG = "dynamask.experiment"
TITLE_TAG = "dynamask.title"
SEED_TAG = "dynamask.seed"
METHOD_TAG = "dynamask.method"
COMMAND_TAG = "dynamask.command"
HARDWARE_TAG = "dynamask.hardware"
CODE_TAG = "dynamask.code"
PARENT_TAG = "mlflow.parentRunId"
_RUN_NAME_TAG = "mlflow.runName"
MLFLOW_EXPERIMENT = "dynamask-experiments"
_MASKS = "masks.npz"


def hardware() -> str:
    """The processor, its cores, the threads in use, and torch's version."""
    import torch

    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    if torch.cuda.is_available():
        name += f", {torch.cuda.get_device_name()}"
    threads = torch.get_num_threads()
    return f"{name}, {os.cpu_count()} cores, {threads} thread{'s' * (threads > 1)}, torch {torch.__version__}"


class MlflowStore:
    """Keeps trials as child runs of one parent run.

    Runs of equal settings share a parent, so a run that was cut short goes on where it stopped. A trial counts as
    finished only if the code that made it is the code of today (`code_digest`): engines are never mixed.

    Args:
        settings: whatever else decides the numbers: instances, quick, ...
        fresh: begin a new parent run instead of going on with an old one.
        command: what a user types to get these settings, without seeds and methods.
    """

    def __init__(
        self,
        experiment: Experiment,
        settings: Mapping[str, Any],
        *,
        fresh: bool = False,
        command: str = "",
        client: MlflowClient | None = None,
        mlflow_experiment: str = MLFLOW_EXPERIMENT,
    ) -> None:
        from mlflow import MlflowClient

        self._experiment = experiment
        self._client = client or MlflowClient()
        self._command = command
        self._home = self._experiment_id(mlflow_experiment)
        self._codes: dict[str, str] = {}
        self.key = settings_key(experiment.name, {**settings, "title": experiment.title})
        found = None if fresh else self._find_parent()
        self.parent = found or self._create_parent(settings)

    def _experiment_id(self, name: str) -> str:
        known = self._client.get_experiment_by_name(name)
        return known.experiment_id if known else self._client.create_experiment(name)

    def _find_parent(self) -> str | None:
        runs = self._client.search_runs(
            [self._home],
            f"tags.`{KEY_TAG}` = '{self.key}'",
            order_by=["attributes.start_time DESC"],
            max_results=1,
        )
        return runs[0].info.run_id if runs else None

    def _create_parent(self, settings: Mapping[str, Any]) -> str:
        name = self._experiment.name
        tags = {KEY_TAG: self.key, NAME_TAG: name, TITLE_TAG: self._experiment.title, _RUN_NAME_TAG: name}
        tags[COMMAND_TAG] = self._command
        run_id: str = self._client.create_run(self._home, tags=tags).info.run_id
        for key, value in {**settings, "version": __version__}.items():
            self._client.log_param(run_id, key, value)
        return run_id

    def note_code(self, methods: Iterable[str]) -> None:
        """Note the code of these methods now; a long run must not be taken for code that was written meanwhile."""
        for method in methods:
            self._code(method)

    def _code(self, method: str) -> str:
        if method not in self._codes:
            self._codes[method] = code_digest(self._experiment, method)
        return self._codes[method]

    def find(self, seed: int, method: str) -> Trial | None:
        runs = self._client.search_runs(
            [self._home],
            f"tags.`{PARENT_TAG}` = '{self.parent}' and tags.`{SEED_TAG}` = '{seed}' "
            f"and tags.`{METHOD_TAG}` = '{method}' and tags.`{CODE_TAG}` = '{self._code(method)}' "
            "and attributes.status = 'FINISHED'",
            max_results=1,
        )
        if not runs:
            return None
        return Trial(seed, method, dict(runs[0].data.metrics), self._masks(runs[0].info.run_id))

    def _masks(self, run_id: str) -> Masks | None:
        if not any(item.path == _MASKS for item in self._client.list_artifacts(run_id)):
            return None
        with tempfile.TemporaryDirectory() as folder:
            return Masks.load(self._client.download_artifacts(run_id, _MASKS, folder))

    def add(self, trial: Trial) -> None:
        from mlflow.entities import Metric, Param

        name = f"{trial.method} seed {trial.seed}"
        tags = {
            PARENT_TAG: self.parent,
            _RUN_NAME_TAG: name,
            NAME_TAG: self._experiment.name,
            SEED_TAG: str(trial.seed),
            METHOD_TAG: trial.method,
            CODE_TAG: self._code(trial.method),
            HARDWARE_TAG: hardware(),
        }
        run_id = self._client.create_run(self._home, tags=tags).info.run_id
        now = int(time.time() * 1000)
        # A metric that is undefined on this case is left out rather than logged as NaN.
        metrics = [Metric(key, value, now, 0) for key, value in trial.metrics.items() if value == value]
        params = [Param("seed", str(trial.seed)), Param("method", trial.method)]
        params += [Param(k, str(v)[:500]) for k, v in self._experiment.preset(trial.method).options.items()]
        self._client.log_batch(run_id, metrics=metrics, params=params)
        if trial.masks is not None:
            with tempfile.TemporaryDirectory() as folder:
                self._client.log_artifact(run_id, str(trial.masks.save(Path(folder) / _MASKS)))
        self._client.set_terminated(run_id, "FINISHED")

    def finish(self, result: ExperimentResult, figures: Sequence[Path] = ()) -> None:
        """Log the table, the summary and the figures to the parent run and close it."""
        for method in result.methods:
            for metric in (*self._experiment.columns, "seconds_per_instance"):
                summary = result.summary(method, metric)
                if summary.count:
                    self._client.log_metric(self.parent, f"{method}/{metric}", summary.mean)
        self._client.log_text(self.parent, as_markdown(rows(self._experiment, result)) + "\n", "table.md")
        self._client.log_text(self.parent, as_json(self._experiment, result) + "\n", "result.json")
        for figure in figures:
            self._client.log_artifact(self.parent, str(figure), "figures")
        self._client.set_terminated(self.parent, "FINISHED")
